# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa demo`: every bit right in each combination, nothing left on an interrupt."""
import array
import json
import os
import signal
import struct
import time

import pytest

from lab import BPFFS, FPISA, wait_until

KEYS = """workers elements mode pipeline clz format mismatches max_ulp_error max_abs_error rounded overwritten
    left_shifted overflowed retransmits seconds goodput_gbps""".split()
COMBINATIONS = [(mode, *p) for mode in ("fpisa", "fpisa-a") for p in (("staged", "lpm"), ("fused", "bits"))]


def demo(net, *options):
    out = json.loads(net.agg.run(FPISA, "demo", "--json", *options))
    assert not set(KEYS) - set(out)
    return out


@pytest.mark.parametrize("loss", [0, 0.05])
@pytest.mark.parametrize("mode, pipeline, clz", COMBINATIONS)
def test_combinations(lab, mode, pipeline, clz, loss):
    out = demo(lab(workers=0), "--workers", 8, "--mode", mode, "--pipeline", pipeline, "--clz", clz,
               "--loss", loss)
    assert [out[k] for k in "workers mode pipeline clz format".split()] == [8, mode, pipeline, clz, "fp32"]
    assert out["mismatches"] == 0 and out["elements"] > 1000 and out["rounded"] > 0
    assert (out["overwritten"] > 0) == (mode == "fpisa-a")
    assert out["overflowed"] == 0 or mode == "fpisa-a"
    if loss:
        assert out["retransmits"] > 0


@pytest.mark.parametrize("options", [
    "--xdp skb", "--fanout unicast", "--rounding nearest", "--xdp skb --fanout unicast --pipeline staged",
    "--packet 832 --window 8", "--elements 1", "--elements 100001"])
def test_options(lab, options):
    assert demo(lab(workers=0), "--workers", 3, *options.split())["mismatches"] == 0


@pytest.mark.parametrize("options", ["", "--fanout unicast --window 256", "--packet 832", "--drop 0.02"])
def test_xsk(lab, options):
    """Workers over AF_XDP: the same bits; what is lost goes again by UDP."""
    out = demo(lab(workers=0), "--workers", 3, "--elements", 100_000, "--transport", "xsk", *options.split())
    assert out["transport"] == "xsk" and out["mismatches"] == 0 and out["passed"]
    assert (out["retransmits"] > 0) == ("--drop" in options) or out["retransmits"] < out["results"] / 10


def test_faults(lab):
    """Frames that come twice, out of order, rounds late or damaged: more work, the same bits."""
    out = demo(lab(workers=0), "--workers", 4, "--elements", 50000, "--window", 4, "--drop", 0.05,
               "--duplicate", 0.2, "--reorder", 0.2, "--delay", 0.1, "--corrupt", 0.05)
    assert out["mismatches"] == 0 and out["flag_mismatches"] == 0 and out["counts_agree"]
    assert out["retransmits"] > 0 and out["duplicates"] > 0


def test_npy_file(lab, tmp_path):
    """A .npy of doubles is the raw file of floats, and says its rows itself."""
    values = array.array("f", [(-1) ** i * 1.5 ** (i % 40) for i in range(5 * 333)])
    (tmp_path / "raw.f32").write_bytes(values.tobytes())
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 333), }\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header
                                     + array.array("d", values).tobytes())
    net = lab(workers=0)
    raw = demo(net, "--mode", "exact", "--file", tmp_path / "raw.f32", "--rows", 5)
    npy = demo(net, "--mode", "exact", "--file", tmp_path / "a.npy")
    assert npy["mismatches"] == 0 and npy["elements"] == 333
    assert npy["max_abs_error"] == raw["max_abs_error"] > 0


def test_above_sixteen_workers(lab):
    out = demo(lab(workers=0), "--workers", 17, "--elements", 1000)
    assert out["mismatches"] is None


def children(pid):
    """Processes whose parent is `pid`."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(p))
        except OSError:
            pass
    return found


def alive(pid):
    """Neither gone nor a zombie."""
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read() != ""
    except OSError:
        return False


def namespaces(pids):
    """Network namespaces that processes are in, of those that are there."""
    found = set()
    for p in pids:
        try:
            found.add(os.stat(f"/proc/{p}/ns/net").st_ino)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted(lab, sig):
    """Midway: no process, no link, no pin of it is left, in whatever namespace."""
    net = lab(workers=0)
    links, pins = net.agg.run("ip", "-o", "link"), os.listdir(BPFFS)
    p = net.agg.spawn(FPISA, "demo", "--workers", 8, "--elements", 6_000_000, "--loss", 0.05)
    wait_until("workers", lambda: len(children(p.pid)) == 8 and len(namespaces(children(p.pid))) == 8)
    workers = children(p.pid)
    spaces = namespaces(workers)
    time.sleep(0.5)
    assert p.poll() is None and all(map(alive, workers))
    p.send_signal(sig)
    p.wait(timeout=10)
    assert p.returncode == (-sig if sig == signal.SIGKILL else 128 + sig)
    wait_until("the workers' end", lambda: not any(map(alive, workers)))
    assert net.agg.run("ip", "-o", "link") == links and os.listdir(BPFFS) == pins
    assert not spaces & namespaces(filter(str.isdigit, os.listdir("/proc")))


def test_table(lab):
    text = lab(workers=0).agg.run(FPISA, "demo", "--workers", 2, "--elements", 5000)
    assert "2 workers sum 5000 values each" in text and "mode fpisa" in text


def test_refusals(lab):
    net = lab(workers=0)
    for argv, says in (("--workers 65", "--workers"), ("--loss 2", "--drop"), ("x", "'x' is not an option"),
                       ("--file /no/such", "/no/such"), ("--packet 33", "multiple of 32")):
        status, out, err = net.agg.try_run(FPISA, "demo", *argv.split())
        assert status in (1, 2) and out == "" and says in err.splitlines()[0], err
    status, out, err = net.agg.try_run(FPISA, "demo", uid=65534)
    assert status == 1 and "run as root" in err and len(err.splitlines()) == 1

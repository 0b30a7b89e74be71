# SPDX-License-Identifier: GPL-2.0-only
"""In `fpisa demo` every bit is correct in each combination, and nothing is left after an interrupt."""
import array
import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import time

import pytest

from lab import BPFFS, FPISA, SLOW, TOP, alive, children, once_within, wait_until

KEYS = """workers elements mode pipeline clz format mismatches max_ulp_error max_abs_error rounded overwritten
    left_shifted overflowed retransmits seconds goodput_gbps""".split()
# Half of the combinations already contain every pair of two choices. The others run in the long suite.
COMBINATIONS = [pytest.param(mode, *p, loss, marks=[pytest.mark.long] * ((i + k + n) % 2))
                for i, mode in enumerate(("fpisa", "fpisa-a"))
                for k, p in enumerate((("staged", "lpm"), ("fused", "bits"))) for n, loss in enumerate((0, 0.05))]


def demo(net, *options):
    out = json.loads(net.agg.run(FPISA, "demo", "--json", *options))
    assert not set(KEYS) - set(out)
    return out


@pytest.mark.parametrize("mode, pipeline, clz, loss", COMBINATIONS)
def test_combinations(lab, mode, pipeline, clz, loss):
    out = demo(lab(workers=0), "--workers", 8, "--mode", mode, "--pipeline", pipeline, "--clz", clz,
               "--loss", loss)
    assert [out[k] for k in "workers mode pipeline clz format".split()] == [8, mode, pipeline, clz, "fp32"]
    assert out["mismatches"] == 0 and out["vector"] > 1000 and out["rounded"] > 0
    assert (out["overwritten"] > 0) == (mode == "fpisa-a")
    assert out["overflowed"] == 0 or mode == "fpisa-a"
    if loss:
        assert out["retransmits"] > 0


@pytest.mark.parametrize("options", [
    "--xdp skb", "--fanout unicast", "--rounding nearest", "--xdp skb --fanout unicast --pipeline staged",
    "--elements 832 --window 8", "--vector 1", "--vector 100001"])
def test_options(lab, options):
    assert demo(lab(workers=0), "--workers", 3, *options.split())["mismatches"] == 0


@pytest.mark.parametrize("options", ["", "--fanout unicast --window 256", "--elements 832", "--drop 0.02"])
def test_xsk(lab, options):
    """Workers over AF_XDP get the same bits. Lost frames are sent again over UDP."""
    out = demo(lab(workers=0), "--workers", 3, "--vector", 300_000, "--transport", "xsk", *options.split())
    assert out["transport"] == "xsk" and out["mismatches"] == 0 and out["passed"]
    assert (out["retransmits"] > 0) == ("--drop" in options) or out["retransmits"] < out["results"] / 10


def test_errors_are_those_of_analyze(lab):
    """ulp and "correctly rounded" mean the same as in analyze. If the order of arrival does not matter, the figures are equal."""
    out = demo(lab(workers=0), "--workers", 8, "--mode", "exact", "--rounding", "down")
    files = os.path.join(TOP, "data", "gradients", "epoch20.f32")
    one, = json.loads(subprocess.run([FPISA, "analyze", "--json", "--workers", "8", "--orders", "0", "--mode", "exact",
                                      "--rounding", "down", files], capture_output=True, check=True).stdout)["inputs"]
    mode, = one["modes"]
    assert out["vector"] == one["elements"] and 0.9 < out["max_ulp_error"] < 1
    mode["correctly_rounded"] /= one["elements"]
    for key in ("max_ulp_error", "max_abs_error", "correctly_rounded"):
        assert out[key] == pytest.approx(mode[key], rel=1e-8)


def test_faults(lab):
    """Duplicated, reordered, late or damaged frames cost time but do not change the bits."""
    out = demo(lab(workers=0), "--workers", 4, "--vector", 50000, "--window", 4, "--drop", 0.05,
               "--duplicate", 0.2, "--reorder", 0.2, "--delay", 0.1, "--corrupt", 0.05)
    assert out["mismatches"] == 0 and out["flag_mismatches"] == 0 and out["counts_agree"]
    assert out["retransmits"] > 0 and out["duplicates"] > 0


def test_npy_file(lab, tmp_path):
    """A .npy file of doubles gives the same output as the raw file of floats. Its number of rows comes from its header."""
    values = array.array("f", [(-1) ** i * 1.5 ** (i % 40) for i in range(5 * 333)])
    (tmp_path / "raw.f32").write_bytes(values.tobytes())
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 333), }\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header
                                     + array.array("d", values).tobytes())
    net = lab(workers=0)
    raw = demo(net, "--mode", "exact", "--file", tmp_path / "raw.f32", "--rows", 5)
    npy = demo(net, "--mode", "exact", "--file", tmp_path / "a.npy")
    assert npy["mismatches"] == 0 and npy["vector"] == 333
    assert npy["max_abs_error"] == raw["max_abs_error"] > 0


def test_above_sixteen_workers(lab):
    out = demo(lab(workers=0), "--workers", 17, "--vector", 1000)
    assert out["mismatches"] is None


def namespaces(pids):
    """Return the network namespaces of those processes that exist."""
    found = set()
    for p in pids:
        try:
            found.add(os.stat(f"/proc/{p}/ns/net").st_ino)
        except OSError:
            pass
    return found


WITHOUT_KILL = ["setpriv", "--bounding-set=-all,+net_admin,+sys_admin,+setuid,+setgid",
                "--inh-caps=-all,+net_admin,+sys_admin,+setuid,+setgid"]


@pytest.mark.parametrize("sig, before", [(signal.SIGINT, []), (signal.SIGTERM, []), (signal.SIGKILL, []),
                                         (signal.SIGTERM, WITHOUT_KILL), (signal.SIGKILL, WITHOUT_KILL),
                                         (signal.SIGTERM, ["colocated"])])
def test_interrupted(lab, sig, before):
    """After an interrupt no process, link or pin is left in any namespace, even if the demo may not send signals to its workers."""
    net = lab(workers=0)
    links, pins = net.agg.run("ip", "-o", "link"), os.listdir(BPFFS)
    more = ["--colocated"] if "colocated" in before else []
    p = net.agg.spawn(*(before if not more else ()), FPISA, "demo", "--workers", 8, "--vector", 6_000_000, "--loss", 0.05, *more)
    workers = []

    def stay():
        """Return whether all 8 workers run, each in its own network namespace. Ignore children that only query the kernel, because they end
        soon."""
        workers[:] = children(p.pid)
        time.sleep(0.3)
        return len(workers) == 8 and len(namespaces(workers) - namespaces([p.pid])) == 8 and all(map(alive, workers))

    wait_until("workers", stay, 60)
    with contextlib.ExitStack() as held:
        # Keep the namespaces open. The kernel would otherwise give the number of a namespace that is gone to a new namespace, perhaps of
        # another test.
        for w in (p.pid, *workers):
            held.enter_context(open(f"/proc/{w}/ns/net"))
        spaces = namespaces([p.pid, *workers])
        time.sleep(0.5)
        assert p.poll() is None and all(map(alive, workers))
        p.send_signal(sig)
        p.wait(timeout=60)
        assert p.returncode == (-sig if sig == signal.SIGKILL else 128 + sig)
        # After SIGKILL the kernel ends the workers. A worker appears dead before it has left its namespaces.
        wait_until("the workers' end", lambda: not spaces & namespaces(filter(str.isdigit, os.listdir("/proc"))))
    assert net.agg.run("ip", "-o", "link") == links and os.listdir(BPFFS) == pins


@pytest.mark.parametrize("links", [0, 4], ids=["before its link", "while the datapath is loaded"])
def test_worker_killed_in_setup(lab, links):
    """If a worker is killed in setup, its link disappears with it. The error reports the worker's end, not a consequence."""
    net = lab(workers=0)
    p = net.agg.spawn(FPISA, "demo", "--workers", 4)
    wait_until("workers", lambda: len(namespaces(children(p.pid))) == 4)

    def linked():
        found = 0
        for child in children(p.pid):
            # A child that only queries the kernel may have ended.
            with contextlib.suppress(OSError), open(f"/proc/{child}/net/fib_trie") as f:
                found += "/32 host LOCAL" in f.read()
        return found >= links
    wait_until("links", linked)
    os.kill(children(p.pid)[2], signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 1 and out == "" and \
        err == "fpisa: demo: rank 2: the worker process ended early; see its message above, or dmesg\n", err


@pytest.mark.parametrize("options", ["--vector 500000", "--workers 2 --mode exact --vector 100001",
                                     pytest.param("--workers 16 --vector 3000 --histogram", marks=pytest.mark.long),
                                     "--loss 0.1 --format bf16 --vector 100001"])
def test_colocated(lab, options):
    """If the workers' hosts are the only machines, all bits are correct. Each link carries as many bytes as in a ring, plus headers."""
    net = lab(workers=0)
    if "--loss" in options:
        out, _ = colocated(net, *options.split())
        assert out["retransmits"] > out["results"] / 10
    else:
        once_within(1, lambda: colocated(net, *options.split())[1])


def colocated(net, *options):
    """Run the demo. Return its output, and the largest difference of a link's bytes from those of a ring plus headers, as a share of the
    tolerance. A rank that waits for a CPU may send frames again."""
    out = demo(net, "--colocated", *options)
    n, ring = out["workers"], out["ring_bytes"]
    assert out["passed"] and out["mismatches"] == 0 and out["counts_agree"] and out["xdp"] == "skb" and out["fanout"] == "unicast"
    assert len({h["address"] for h in out["hosts"]}) == n and ring == 2 * (n - 1) / n * out["vector"] * (2 if out["format"] == "bf16" else 4)
    chunks = -(-out["vector"] // out["elements"])
    assert out["results"] == chunks
    # A frame is 118 bytes longer than its values. If the number of chunks is not a multiple of n, one host has one chunk more.
    carried = ring + 118 * chunks * 2 * (n - 1) / n
    print("bytes of a ring with headers:", carried, out["hosts"])
    return out, max(abs(h[way] - carried) for h in out["hosts"] for way in ("sent_bytes", "received_bytes")) / (n * 1130 + 8000)


def test_table(lab):
    net = lab(workers=0)
    text = net.agg.run(FPISA, "demo", "--workers", 2, "--vector", 5000)
    assert "2 workers sum 5000 values each" in text and "mode fpisa" in text

    def beside_a_ring():
        text = net.agg.run(FPISA, "demo", "--colocated")
        assert "no other machine is at their switch" in text and "PASS: 16384 elements are, bit for bit" in text
        return abs(float(re.search(r"a ring of these hosts sends 0.025 MB .* this run sent (\S+) times that", text)[1]) - 1.12)

    once_within(0.03, beside_a_ring)


def test_refusals(lab):
    net = lab(workers=0)
    for argv, says in (("--workers 65", "--workers"), ("--loss 2", "--drop"), ("x", "unexpected argument 'x'"),
                       ("--colocated --workers 17", "requires 2 to 16 --workers"), ("--colocated --xdp native", "native XDP cannot send to lo"),
                       ("--colocated --transport xsk", "requires --transport udp"), ("--colocated --fanout multicast", "lo does not carry multicast"),
                       ("--file /no/such", "/no/such"), ("--elements 33", "multiple of 32")):
        status, out, err = net.agg.try_run(FPISA, "demo", *argv.split())
        assert status in (1, 2) and out == "" and says in err.splitlines()[0], err
    status, out, err = net.agg.try_run(FPISA, "demo", uid=65534)
    assert status == 1 and "run as root" in err and len(err.splitlines()) == 1


def test_ends_without_cap_kill(lab):
    """Root in a container without CAP_KILL may not end processes of the user nobody. The demo fails with a sentence, and no process
    stays."""
    read_only = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec \"$@\""
    p = lab(workers=0).agg.spawn("unshare", "-m", "sh", "-c", read_only, "sh", *WITHOUT_KILL, FPISA, "demo", "--vector", 1024)
    out, err = p.communicate(timeout=60 * SLOW)
    assert p.returncode == 1 and "Read-only file system; mount /proc/sys writable" in err, (out, err)

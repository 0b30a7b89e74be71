# SPDX-License-Identifier: GPL-2.0-only
"""Run both measurements of bench/contenders briefly. Every contender sums right, no figure is missing, and nothing is left after an
interrupt. The test does not check the size of the figures. test_bench.py tests `fpisa bench wire`."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from lab import BUILD, children, wait_until

BENCH = os.path.join(BUILD, "bench", "contenders")
SHORT = ["--runs", "2", "--vector", "20000", "--window", "16"]
LIMIT_S = 300


def bench(name, *options):
    argv = [BENCH, name, *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)


def run(name, *options):
    p = bench(name, *SHORT, *options)
    assert p.returncode == 0, p.stderr
    return [json.loads(line) for line in p.stdout.splitlines()]


def is_spread(figure):
    return 0 <= figure["q1"] <= figure["median"] <= figure["q3"]


def test_wire():
    lines = run("wire", "--workers", "3", "--elements", "64,832")
    assert [(line["elements"], line["contender"]) for line in lines] == [
        (elements, contender) for elements in (64, 832) for contender in ("fpisa", "udp-avx2", "xdp-avx2")]
    for line in lines:
        assert (line["bench"], line["workers"], line["window"], line["runs"]) == ("wire", 3, 16, 2)
        assert line["vector"] % line["elements"] == 0 and line["vector"] >= 20000
        assert line["goodput_gbit"] > 0 and line["ratio"] > 0 and not line["gso"]
        assert all(is_spread(line[k]) for k in ("cpu_s_per_gb", "napi_s_per_gb", "process_s_per_gb"))
        # Every contender has a figure for the kernel's part. Only a contender with a server has one for a process.
        assert line["napi_s_per_gb"]["median"] > 0
        assert (line["process_s_per_gb"]["median"] > 0) == (line["contender"] != "fpisa")
        assert line["contender"] != "fpisa" or line["ratio"] == 1


def test_wire_with_gso():
    """The UDP server accepts several frames in one message, even if links deliver them merged."""
    lines = run("wire", "--workers", "2", "--elements", "256", "--gso")
    assert len(lines) == 3 and all(line["gso"] for line in lines)


def test_wire_with_loss():
    """The protocol of every contender gives right sums with lost, duplicated or reordered frames."""
    lines = run("wire", "--workers", "3", "--elements", "256", "--loss", "0.05")
    assert len(lines) == 3 and all(line["retransmit_share"] > 0.01 for line in lines)


def test_worker():
    lines = run("worker", "--elements", "32,832")
    names = ("switchml", "udp", "xsk", "udp-tags")
    assert [(line["elements"], line["contender"]) for line in lines] == [
        (elements, name) for elements in (32, 832) for name in names]
    for line in lines:
        assert (line["bench"], line["workers"], line["runs"]) == ("worker", 2, 2)
        assert is_spread(line["cpu_s_per_gb"]) and line["cpu_s_per_gb"]["median"] > 0
        assert line["goodput_gbit"] > 0 and line["ratio"] > 0
        assert line["contender"] != "switchml" or line["ratio"] == 1
        assert ("cpu_ratio_to_without" in line) == (line["contender"] == "udp-tags")


@pytest.mark.parametrize("name", ["wire", "worker"])
def test_wrong_options(name):
    wrong = ["--elements", "33"], ["--window", "3"], ["--workers", "17"], ["--runs", "0"], ["more"]
    for options in wrong:
        p = bench(name, *options)
        assert p.returncode == 2 and options[0] in p.stderr and not p.stdout


def threads_of(pid):
    """Return the kernel threads that poll the process's links. The names of the links contain the process number."""
    found = []
    for task in os.listdir("/proc"):
        try:
            with open(f"/proc/{task}/comm", encoding="ascii") as f:
                comm = f.read()
        except (OSError, UnicodeDecodeError):
            continue
        if re.match(rf"napi/w{pid}[aw]", comm):
            found.append(comm)
    return found


@pytest.mark.parametrize("name", ["wire", "worker"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_nothing(name, sent):
    # The parent may have started this background process with SIGINT ignored.
    p = subprocess.Popen([BENCH, name, "--runs", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        wait_until("its process", lambda: children(p.pid))
        master, = children(p.pid)
        wait_until("its links", lambda: threads_of(master))
        workers = children(master)
        assert len(workers) >= 2
        time.sleep(0.2)
        p.send_signal(sent)
        assert p.wait(LIMIT_S) == -sent
    finally:
        p.kill()
        p.wait()
    wait_until("an end of all", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in [master, *workers]))
    wait_until("an end of its links", lambda: not threads_of(master))

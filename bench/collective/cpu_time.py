#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure how the CPU time of an all-reduce over shaped links is distributed over the parties.

    cpu_time.py [--workers 8] [--rate 1000] [--bytes 16777216] [--seconds 8] [--mtu N,...] [--transports udp,xsk]

The network is the same as in collective.py, with FPISA alone. While sums run, `perf` samples all CPUs 997 times a second. A
sample belongs to the party whose function is innermost in its stack. So a copy that veth makes counts for veth:

    worker	the ranks' own code, and sending and receiving through their sockets
    bridge	forwarding, and other work at its ports
    shaper	tbf, and frames that wait in it
    veth	the ends of veth links, with the copy of a frame into a page for XDP
    datapath	the programs at the aggregator
    fan_out	copies of results, one per port, and their way to it
    other	interrupts, timers, scheduling

The output is a JSON line for each MTU and transport. `ns` is the CPU time by party, and of all parties, per contribution
with its results. `busy` is their share of the CPUs. `cpu_s_per_gb` is the CPU time of all parties per GB of contributions.
xsk bypasses the shaper at the worker's end, because it does not use that queue. Results are shaped.
"""
import argparse
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from collective import Setting, Stage, exit_on_signals, labs, numbers, own_mounts  # noqa: E402

HZ = 997
# The party of each function, innermost parties first. fan_out precedes veth, because functions of veth's ends call it.
PARTIES = (
    ("worker", r"xsk_|xp_"),
    ("fan_out", r"dev_map_|xdp_do_redirect|bq_|xdpf_clone|xdp_do_flush|bpf_prog_[0-9a-f]+_fpisa_egress"),
    ("datapath", r"bpf_prog_[0-9a-f]+_"),
    ("shaper", r"tbf_|qdisc_watchdog|__qdisc_run|net_tx_action|dequeue_skb|pfifo_|bfifo_"),
    ("bridge", r"br_"),
    ("veth", r"veth_"),
)
PARTY = [(name, re.compile(rf"(?:{pattern})")) for name, pattern in PARTIES]
IDLE = re.compile(r"default_idle|pv_native_safe_halt|intel_idle|cpuidle_enter|acpi_idle|do_idle|native_halt")


def party(comm, stack):
    """Return the party of a sample. `functions` lists the sample's functions, starting with the innermost."""
    for function in stack:
        for name, pattern in PARTY:
            if pattern.match(function):
                return name
    if comm.startswith("python") or comm.startswith("napi/eth0"):
        return "worker"
    return "bridge" if comm.startswith("napi/p") or comm.startswith("napi/uplink") else "other"


def samples(data):
    """Count samples by party. Skip samples of idle CPUs."""
    found = collections.Counter()
    script = subprocess.Popen(["perf", "script", "-i", data, "-F", "comm,ip,sym"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors="replace")
    comm, stack = None, []
    for line in [*script.stdout, "\n"]:
        if not line.strip():
            if comm is not None and not any(IDLE.match(f) for f in stack):
                found[party(comm, stack)] += 1
            comm, stack = None, []
        elif comm is None:
            comm = line.strip()
        else:
            stack.append(line.split(None, 1)[-1].strip())
    if script.wait():
        sys.exit("cpu_time: perf script failed; see its message above")
    return found


def measure(args, mtu, transport, folder):
    args.mtu, args.workers, args.window, args.udp_gro = mtu, [args.ranks], 64, "on"
    args.groups, args.topologies, at = False, ["switch"], Setting("switch", args.ranks, args.rate)
    Stage.transport = {"udp": labs.worker.UDP, "xsk": labs.worker.XSK}[transport]
    stage = Stage(args, folder)
    data = os.path.join(folder, "perf.data")
    try:
        ours, = stage.open(["fpisa"])
        stage.net.flood(args.ranks)
        stage.net.shape(args.rate)
        count = args.bytes // 4
        ours.run("allreduce", at, count, 0)
        before, sums, taken = stage.net.counters(0, labs.PIN)["packets"], 0, 0
        perf = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HZ), "-g", "-a", "-o", data],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        while time.monotonic() < began + args.seconds:
            taken += ours.run("allreduce", at, count, 0)[0]
            sums += 1
        elapsed = time.monotonic() - began
        perf.send_signal(signal.SIGINT)
        perf.wait()
        frames = stage.net.counters(0, labs.PIN)["packets"] - before
        found = samples(data)
    finally:
        stage.net.fpisa("unload")
        stage.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, "control"))
    ns = {name: round(found[name] / HZ / frames * 1e9) for name in [*dict(PARTIES), "other"]}
    total = sum(found.values()) / HZ
    print(json.dumps({"bench": "parties", "transport": transport, "workers": args.ranks, "rate_mbps": args.rate, "mtu": mtu,
                      "elements": stage.elements, "bytes": args.bytes, "sums": sums, "frames": frames, "udp_gro": stage.udp_gro,
                      "seconds": round(taken / sums, 4), "ns": {**ns, "all": round(total / frames * 1e9)},
                      "busy": round(total / elapsed / os.cpu_count(), 3),
                      "cpu_s_per_gb": round(total / (sums * args.bytes * args.ranks) * 1e9, 3)}), flush=True)


def main():
    p = argparse.ArgumentParser(prog="cpu_time", description=__doc__.splitlines()[0])
    p.add_argument("--workers", type=int, default=8, dest="ranks")
    p.add_argument("--rate", type=int, default=1000, help="Mbit/s")
    p.add_argument("--bytes", type=int, default=16 << 20, help="of a vector")
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--mtu", type=numbers, default=[3506, 1500], dest="mtus")
    p.add_argument("--transports", default="udp,xsk")
    args = p.parse_args()
    if not shutil.which("perf"):
        sys.exit("cpu_time: perf is not installed; run apt install linux-perf")
    exit_on_signals()
    own_mounts()
    for mtu in args.mtus:
        for transport in args.transports.split(","):
            with tempfile.TemporaryDirectory() as folder:
                measure(args, mtu, transport, folder)


if __name__ == "__main__":
    sys.exit(main())

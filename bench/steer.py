#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure how much load `fpisa load --cpus` takes off the receiving CPU.

    steer.py [--cpus LIST] [--elements N,...] [--workers N] [--rounds R] [--values N]

All workers are behind one port of the aggregator, a veth with one queue, which a kernel thread
polls (threaded NAPI). In each round the datapath is loaded once without and once with --cpus,
and sums the same values. Every sum is checked. The output is a JSON line for each packet size,
with and without --cpus. Figures are medians and quartiles:

    receive_ns	  CPU time of the polling thread per frame, which limits the rate of a queue
    owners_ns	  CPU time of the threads of the CPU map per frame
    cpu_s_per_gb  CPU time of all these threads per gigabyte of contributions
    goodput_gbit  goodput of contributions; workers and bridge use the same CPUs
    relief	  receive_ns without --cpus, divided by receive_ns in the same round

A veth copies each frame into a page before XDP sees it, and receive_ns includes that copy. The
driver of a NIC does not copy. A separate line has `handover_ns`, the CPU time per frame
of the steering program and of the enqueue into the CPU map, without the veth. It is measured on
one CPU with BPF_PROG_TEST_RUN in live-frames mode, while another CPU consumes the frames.
"""
import argparse
import contextlib
import ctypes
import json
import os
import statistics
import struct
import sys

sys.dont_write_bytecode = True

from common import HEADERS, exit_on_signals, labs, numbers, own_mounts, quartiles  # noqa: E402

JOB = 1
# SYS_BPF is the number of the system call on x86-64.
SYS_BPF, BPF_OBJ_GET, BPF_PROG_TEST_RUN, LIVE_FRAMES = 321, 7, 10, 2
LIVE = 16000  # frames in a run; the longest queue can hold them all
FIGURES = ("receive_ns", "owners_ns", "cpu_s_per_gb", "goodput_gbit")


def threads(prefix):
    """Return the kernel threads whose names have this prefix."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as f:
            if f.read().startswith(prefix):
                found.add(int(pid))
    return found


def run_ns(pids):
    """Return the CPU time that these processes have used."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def poll_by_thread(space, *devs):
    """Let a thread poll, because otherwise the work of NAPI is charged to the running process."""
    writes = "; ".join(f"echo 1 > /sys/class/net/{dev}/threaded" for dev in devs)
    space.run("unshare", "-m", "sh", "-ec", f"mount -t sysfs sysfs /sys; {writes}")


class Stage:
    """The network, with all workers behind the only port of the aggregator."""

    def __init__(self, args, elements):
        self.args, self.elements = args, elements
        self.net = labs.Lab(workers=args.workers, mtu=max(1500, HEADERS - 14 + 4 * elements), bridge=True)
        poll_by_thread(self.net.spaces[-1], "uplink")
        for w in self.net.worker:
            poll_by_thread(w, "eth0")

    def measure(self, cpus):
        """Load the datapath and measure one sum."""
        before = threads("napi/p0-")
        self.net.load(*(("--cpus", cpus) if cpus else ()))
        poll_by_thread(self.net.agg, "p0")
        polling = threads("napi/p0-") - before
        owners = set()
        if cpus:
            number = self.net.bpftool("map", "show", "pinned", labs.PIN + "/fpisa_cpumap")["id"]
            for cpu in numbers(cpus):
                owners |= threads(f"cpumap/{cpu}/map:{number}")
        if len(polling) != 1 or bool(owners) != bool(cpus):
            sys.exit("steer: cannot find the kernel threads that do the work; please report this bug")
        self.net.add_job(JOB, "--elements", self.elements)
        answers = self.net.check_sum(JOB, self.args.values)
        received, owned = run_ns(polling), run_ns(owners)
        frames = self.net.counters(JOB, labs.PIN)["packets"]
        values = 4 * self.args.values * self.args.workers
        self.net.fpisa("unload")
        return {"receive_ns": received / frames, "owners_ns": owned / frames,
                "cpu_s_per_gb": (received + owned) / values,
                "goodput_gbit": values * 8 / max(a["seconds"] for a in answers) / 1e9}

    def compare(self):
        """Measure all rounds, after a first round that is not counted."""
        rounds = []
        for i in range(self.args.rounds + 1):
            ways = [None, self.args.cpus][:: -1 if i % 2 else 1]
            rounds.append({cpus: self.measure(cpus) for cpus in ways})
            for one in rounds[-1].values():
                one["relief"] = rounds[-1][None]["receive_ns"] / one["receive_ns"]
        for cpus in (None, self.args.cpus):
            line = {"bench": "steer", "cpus": cpus, "elements": self.elements, "workers": self.args.workers,
                    "values": self.args.values, "rounds": self.args.rounds}
            for name in (*FIGURES, "relief"):
                of = [r[cpus][name] for r in rounds[1:]]
                line[name] = round(statistics.median(of), 3)
                line[name + "_quartiles"] = [round(q, 3) for q in quartiles(of)]
            print(json.dumps(line), flush=True)


def bpf(command, attr):
    """Make the bpf() system call. Return its result and attr, which the call may have changed."""
    buffer = ctypes.create_string_buffer(attr, len(attr))
    rc = labs.libc.syscall(SYS_BPF, command, buffer, len(attr))
    if rc < 0:
        labs.must(rc, "steer: bpf")
    return rc, buffer.raw


def live_frame(elements):
    """Return an ADD to slot 0 that passes only the first check, so that the owner of the slot spends no time on it."""
    values = bytes(4 * elements)
    fpisa = struct.pack("<2sBBBBBBIIIHHQ", b"FP", 1, 3, 0, 0, 1, 1, JOB, 0, 0, 0, elements, 0) + bytes(44)
    udp = struct.pack(">HHHH", labs.PORT, labs.PORT, 8 + len(fpisa) + len(values), 0)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp + fpisa + values), 0, 0, 64, 17, 0,
                       bytes([10, 99, 1, 2]), bytes([10, 99, 0, 1]))
    return bytes(12) + b"\x08\x00" + head + udp + fpisa + values


def handover(args, elements=256):
    """Print the CPU time per frame of a receiver, without the work of a veth. The size of the frame does not matter. Two CPUs
    are required.
    """
    here, there = sorted(os.sched_getaffinity(0))[:2]
    stage = Stage(args, elements)
    own = os.sched_getaffinity(0)
    runs = []
    try:
        stage.net.load("--cpus", there, "--cpu-queue", 16384)
        path = ctypes.create_string_buffer((labs.PIN + "/fpisa_steer").encode())
        program, _ = bpf(BPF_OBJ_GET, struct.pack("QII", ctypes.addressof(path), 0, 0) + bytes(16))
        frame = ctypes.create_string_buffer(live_frame(elements))
        os.sched_setaffinity(0, {here})
        for _ in range(args.rounds + 1):
            # prog_fd, retval, sizes and addresses of the data, repeat, duration, sizes and addresses of a context, flags, cpu,
            # batch
            attr = struct.pack("=IIIIQQIIIIQQIII", program, 0, len(frame) - 1, 0, ctypes.addressof(frame), 0,
                               LIVE, 0, 0, 0, 0, 0, LIVE_FRAMES, 0, 0) + bytes(4)
            runs.append(struct.unpack_from("=I", bpf(BPF_PROG_TEST_RUN, attr)[1], 36)[0])
            labs.wait_until("an empty queue", lambda: not stage.net.json("stats")["steering"][0]["left"])
    finally:
        os.sched_setaffinity(0, own)
        stage.net.close()
    low, high = quartiles(runs[1:])
    print(json.dumps({"bench": "steer", "elements": elements, "rounds": args.rounds,
                      "handover_ns": statistics.median(runs[1:]), "handover_ns_quartiles": [low, high]}),
          flush=True)


def main():
    p = argparse.ArgumentParser(prog="steer", description=__doc__.splitlines()[0])
    p.add_argument("--cpus", default="0,1", help="CPUs that own slots, such as 0,1")
    p.add_argument("--elements", type=numbers, default=[256, 832], help="elements per packet")
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--values", type=int, default=2 << 20, help="values per worker")
    args = p.parse_args()
    exit_on_signals()
    own_mounts()
    for elements in args.elements:
        stage = Stage(args, elements)
        try:
            stage.compare()
        finally:
            stage.net.close()
    if len(os.sched_getaffinity(0)) > 1:
        handover(args)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only
"""Networks for the tests: an aggregator, its workers, and their processes

Network namespaces are anonymous. Only a descriptor of this process refers to them, and every process that is started here dies with this
process. The mount namespace and its BPF filesystem are private (fixtures.py). So nothing outlives the run, and runs of several checkouts do
not see each other.
"""
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import worker
from seeds import draw_seed  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
FPISA = os.path.join(BUILD, "fpisa")
OBJECT = os.path.join(BUILD, "fpisa.o")
LIBRARY = os.path.join(BUILD, "libfpisa.so")
QUERY_LIBRARY = os.path.join(BUILD, "libfpisa-query.so")
WORKER = os.path.join(HERE, "worker.py")
INDEPENDENT_CLIENT = os.path.join(TOP, "tests", "interop", "independent_client.py")
BPFFS = "/sys/fs/bpf"
PIN = BPFFS + "/fpisa"		     # used by `fpisa load`
IP_PIN = BPFFS + "/xdp/globals"	     # used by iproute2
PORT = 18000
ADDRESS = "10.99.0.1"
ADDRESS6 = "2001:db8:99::1"
MTU = 1500
SLOW = float(os.environ.get("FPISA_SLOW", "1"))  # factor for time limits, for slow machines such as an emulated one
COMMAND_S = 60 * SLOW

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE, MNT_DETACH = 4096, 16384, 1 << 18, 1 << 19, 2
SIOCETHTOOL, ETHTOOL_SGRO = 0x8946, 0x2C

libc = ctypes.CDLL(None, use_errno=True)


def must(rc, what):
    if rc:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags=0, data=None):
    must(libc.mount(source, target.encode(), kind, flags, data), f"mount {target}")


def unmount(target):
    must(libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def own_mounts():
    """Enter a private mount namespace, which ends with this process."""
    must(libc.unshare(CLONE_NEWNS), "unshare (run as root)")
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def open_to_others(tree):
    """Let other users reach `tree` even if a directory above it, such as root's home, is closed to them. In the private mounts that
    directory contains only `tree`."""
    above = tree
    while os.path.dirname(above) != above:
        above = os.path.dirname(above)
        if not os.stat(above).st_mode & 0o001:
            kept = os.open(tree, os.O_PATH)
            mount(b"tmpfs", above, b"tmpfs", data=b"mode=0755")
            os.makedirs(tree)
            mount(f"/proc/self/fd/{kept}".encode(), tree, None, MS_BIND | MS_REC)
            os.close(kept)
            os.chdir(tree)
            return


def mount_tree(source, target):
    """Mount the tree at `source` at `target` too, with its mounts. The mounts end with the private mount namespace."""
    mount(source.encode(), target, None, MS_BIND | MS_REC)
    mount(None, target, None, MS_REC | MS_SLAVE)


def setting(name):
    """Return a variable of the Makefile."""
    return subprocess.run(["make", "-s", "--no-print-directory", "print-" + name], cwd=TOP, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def endpoint(address, port):
    """Return ADDR:PORT, with an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def listener(address, port, **options):
    """Return a TCP socket that listens at this address of either family."""
    return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET, **options)


class Netns:
    """A network namespace without a name. It is gone once it is closed and has no process."""

    def __init__(self):
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            must(libc.unshare(CLONE_NEWNET), "unshare")
            self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        finally:
            must(libc.setns(home, CLONE_NEWNET), "setns")
            os.close(home)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
        self.started = []
        with self.entered(), open("/proc/sys/net/ipv4/ip_forward", "w") as f:
            f.write("0")  # a new namespace inherits the machine's setting
        self.ip("link set lo up")

    @contextlib.contextmanager
    def entered(self):
        """Run the body with this thread in the namespace."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        must(libc.setns(self.fd, CLONE_NEWNET), "setns")
        try:
            yield
        finally:
            must(libc.setns(home, CLONE_NEWNET), "setns")
            os.close(home)

    def spawn(self, *argv, uid=0, **options):
        """Start a command in this namespace. The command does not outlive this process."""
        parent = os.getpid()

        def child():
            must(libc.setns(self.fd, CLONE_NEWNET), "setns")
            if uid:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            libc.prctl(worker.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        p = subprocess.Popen([str(a) for a in argv], preexec_fn=child, text=True, **{**pipes, **options})
        self.started.append(p)
        return p

    def try_run(self, *argv, timeout_s=COMMAND_S, **options):
        """Run a command in this namespace to its end. Return (status, stdout, stderr)."""
        p = self.spawn(*argv, **options)
        try:
            out, err = p.communicate(timeout=timeout_s)
        finally:
            end(p)
            self.started.remove(p)
        return p.returncode, out, err

    def run(self, *argv, **options):
        """Run a command that must succeed. Return its stdout."""
        status, out, err = self.try_run(*argv, **options)
        assert status == 0, f"{' '.join(map(str, argv))}: status {status}\n{out}{err}"
        return out

    def ip(self, *commands):
        for c in commands:
            self.run("ip", *c.split())

    def sysctl(self, name, value, family="ipv4"):
        with self.entered(), open(f"/proc/sys/net/{family}/{name}", "w") as f:
            f.write(str(value))

    def udp_counters(self, ipv6=False):
        """Return the kernel's counters of UDP over IPv4 or IPv6 in this namespace."""
        if ipv6:
            with self.entered(), open("/proc/thread-self/net/snmp6") as f:
                return {name[4:]: int(value) for name, value in map(str.split, f) if name.startswith("Udp6")}
        with self.entered(), open("/proc/thread-self/net/snmp") as f:
            names, values = [line.split()[1:] for line in f if line.startswith("Udp:")]
        return dict(zip(names, map(int, values)))

    def gro_on(self, dev):
        """Switch on GRO, which a veth needs to take redirected frames."""
        value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_SGRO, 1))
        request = struct.pack("16sP16x", dev.encode(), ctypes.addressof(value))
        with self.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCETHTOOL, request)

    def socket(self, ipv6=False):
        with self.entered():
            return socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM)

    def mac(self, dev):
        with self.entered(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
            s.bind((dev, 0))
            return s.getsockname()[4]

    def close(self):
        for p in self.started:
            end(p)
        os.close(self.fd)


def end(p):
    """Kill and reap a process that was started in this namespace, if it still runs."""
    if p.poll() is None:
        p.kill()
    p.wait()
    for pipe in (p.stdout, p.stderr):
        if pipe:
            pipe.close()


class Lab:
    """An aggregator and n workers

    star: each worker has a subnet of its own and a veth pair, p0.. at the aggregator and eth0 at the worker. bridge: all workers share the
    port p0. queues: the number of a worker's receive queues. Frames that CPU n sends arrive on queue n. ipv6: all addresses are IPv6
    addresses instead of IPv4 addresses, and an MTU is at least 1280, which IPv6 requires. load() shares a datapath with other tests
    (shared.py), if possible.
    """

    shared = None
    ipv6, address = False, ADDRESS

    def __init__(self, workers=2, mtu=MTU, bridge=False, rp_filter=None, queues=1, ipv6=False):
        self.spaces = []
        mtu = max(mtu, 1280) if ipv6 else mtu
        self.ipv6 = ipv6
        self.address = ADDRESS6 if ipv6 else ADDRESS
        self.agg = self.netns()
        self.worker = [self.netns() for _ in range(workers)]
        self.networks = [1 if bridge else r + 1 for r in range(workers)]
        self.addresses = [self.host(network, r + 2) for r, network in enumerate(self.networks)]
        self.ports = ["p0"] if bridge else [f"p{r}" for r in range(workers)]
        self.agg.ip(f"addr add {self.address}/{128 if ipv6 else 32} dev lo")
        middle = self.bridge(mtu) if bridge else self.agg
        for r, w in enumerate(self.worker):
            self.connect(r, w, middle, mtu, bridge, queues)
            if rp_filter is not None:
                w.sysctl("conf/all/rp_filter", rp_filter)
                w.sysctl("conf/eth0/rp_filter", rp_filter)

    def netns(self):
        ns = Netns()
        self.spaces.append(ns)
        if self.ipv6:  # addresses can be used at once
            ns.sysctl("conf/all/accept_dad", 0, family="ipv6")
            ns.sysctl("conf/default/accept_dad", 0, family="ipv6")
        return ns

    def host(self, network, number):
        return f"2001:db8:99:{network:x}::{number:x}" if self.ipv6 else f"10.99.{network}.{number}"

    def network(self, network, number):
        """Return that host's address with the length of its network's prefix."""
        return f"{self.host(network, number)}/{64 if self.ipv6 else 24}"

    def forward(self):
        """Let the hosts reach each other through the aggregator's host."""
        self.agg.sysctl("conf/all/forwarding" if self.ipv6 else "ip_forward", 1, family="ipv6" if self.ipv6 else "ipv4")
        for network, w in zip(self.networks, self.worker):
            w.ip(f"route add {'2001:db8:99::/48' if self.ipv6 else '10.99.0.0/16'} via {self.host(network, 1)}")

    def bridge(self, mtu):
        switch = self.netns()
        switch.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0",
                  f"link add uplink mtu {mtu} type veth peer name p0 mtu {mtu} netns {self.agg.path}",
                  "link set uplink master br0", "link set uplink up", "link set br0 up")
        self.agg.ip(f"addr add {self.network(1, 1)} dev p0", "link set p0 up")
        switch.gro_on("uplink")
        return switch

    def connect(self, rank, w, middle, mtu, bridge, queues=1):
        middle.ip(f"link add p{rank} mtu {mtu} type veth peer name eth0 mtu {mtu} "
                  f"numrxqueues {queues} numtxqueues 1 netns {w.path}")
        if bridge:
            middle.ip(f"link set p{rank} master br0")
        else:
            middle.ip(f"addr add {self.network(rank + 1, 1)} dev p{rank}")
        middle.ip(f"link set p{rank} up")
        network = 1 if bridge else rank + 1
        w.ip(f"addr add {self.network(network, rank + 2)} dev eth0", "link set eth0 up",
             f"route add {self.address} via {self.host(network, 1)}")
        w.gro_on("eth0")
        if queues > 1:
            w.run("ethtool", "-L", "eth0", "rx", queues)

    def slow(self, mbit):
        """Limit the workers' uplinks to this rate, so that a sum is still in progress when the test acts on it."""
        for w in self.worker:
            w.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{mbit}mbit", "burst", "32kb",
                  "latency", "1s")

    def close(self):
        if self.shared and self.shared.leave(PIN):
            self.agg.try_run(FPISA, "unload")  # after this process ends, the kernel removes the namespace and its links
        for ns in reversed(self.spaces):
            ns.close()

    # -- the aggregator ---------------------------------------------------

    def fpisa(self, *argv, **options):
        return self.agg.run(FPISA, *argv, **options)

    def json(self, *argv):
        return json.loads(self.fpisa(*argv, "--json"))

    def demo(self, *options):
        """Run `fpisa demo`, and check its bits, flags and counts against its oracle. Return its output."""
        out = self.json("demo", *options)
        assert [out[k] for k in ("mismatches", "disagreements", "flag_mismatches", "counts_agree", "passed")] == \
            [0, 0, 0, True, True]
        return out

    def ip_link(self, devs=None, mode="xdp"):
        """Attach the datapath with iproute2 alone."""
        for dev in devs or self.ports:
            self.agg.ip(f"link set dev {dev} {mode} obj {OBJECT}")

    def load(self, *options):
        def load():
            self.fpisa("load", *self.ports, *options)

        if self.shared:
            self.shared.load(PIN, options, load)
        else:
            load()

    def add_job(self, job, *options, workers=None):
        self.fpisa("job", "add", job, "--workers", ",".join(workers or self.addresses), "--address", self.address,
                   *options)

    def bpftool(self, *argv):
        out = self.agg.run("bpftool", "-j", *argv)
        return json.loads(out) if out.strip() else None

    def counters(self, job, pin):
        """Return the job's counters as bpftool names them, summed over CPUs. None is all jobs."""
        dump = self.bpftool("map", "dump", "pinned", pin + "/fpisa_counters")
        cpus = [v["value"] for e in dump if job in (e["formatted"]["key"], None) for v in e["formatted"]["values"]]
        return {name: sum(c[name] for c in cpus) for name in cpus[0]}

    def echo(self, address, port, *texts):
        """Send datagrams from worker 0 to a socket of the aggregator (port 0 is any port). Check that each comes back with its bytes
        reversed."""
        server, client = self.agg.socket(self.ipv6), self.worker[0].socket(self.ipv6)
        with server, client:
            server.bind((address, port))
            for s in (server, client):
                s.settimeout(5)
            for text in texts:
                client.sendto(text, server.getsockname())
                got, sender = server.recvfrom(MTU)
                assert got == text
                server.sendto(got[::-1], sender)
                assert client.recv(MTU) == text[::-1]

    # -- workers ----------------------------------------------------------

    def start(self, rank, job, *steps, address=None, cpu=None, **options):
        """Start a worker process. read_answers() reads its output."""
        plan = json.dumps({"options": options, "steps": steps, **({} if cpu is None else {"cpu": cpu})})
        return self.worker[rank].spawn(sys.executable, "-B", WORKER, LIBRARY, address or self.address, job, plan)

    def work(self, job, *steps, ranks=None, timeout_s=COMMAND_S, **options):
        """Run workers of all ranks to their end. Return their answers to the steps."""
        procs = [self.start(r, job, *steps, **options) for r in ranks or range(len(self.worker))]
        return [read_answers(p, timeout_s)[1:] for p in procs]

    def check_sum(self, job, count=1000, kind="integers", ranks=None, workers=None, timeout_s=COMMAND_S,
                  **more):
        """Let all ranks sum, and check that each has the exact sum. Return the answers."""
        step = {"count": count, "kind": kind}
        procs = [self.start(r, job, step, **more) for r in ranks or range(len(self.worker))]
        return self.check_answers(procs, workers or len(procs), count, kind, timeout_s)

    def check_answers(self, procs, workers, count, kind="integers", timeout_s=COMMAND_S):
        """Check that the single sum of each worker is exact. Return the answers."""
        expect = hashlib.sha256(worker.exact_sum(kind, workers, count)).hexdigest()
        answers = [read_answers(p, timeout_s)[-1] for p in procs]
        for a in answers:
            assert a["digest"] == expect, f"rank {a['rank']}: wrong sum of {count} {kind}"
        return answers


def read_answers(p, timeout_s=COMMAND_S):
    """Return all answers of a worker. The worker must succeed."""
    answers, status, err = read_all(p, timeout_s)
    assert status == 0, f"worker: status {status}: {answers} {err}"
    return answers


def read_all(p, timeout_s=COMMAND_S):
    """Return (answers, exit status, stderr) of a worker."""
    try:
        out, err = p.communicate(timeout=timeout_s)
    finally:
        end(p)
    return [json.loads(line) for line in out.splitlines()], p.returncode, err


def children(pid):
    """Return the processes whose parent is `pid`. Return an empty list if `pid` is gone."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(child) for child in f.read().split()]
    except FileNotFoundError:
        return []


def alive(pid):
    """Return whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read() != ""
    except OSError:
        return False


def waiters(fd):
    """Return the number of processes that wait for a lock on this file."""
    inode = os.fstat(fd).st_ino
    with open("/proc/locks") as f:
        return len(re.findall(rf"-> FLOCK .*:{inode} ", f.read()))


def wait_until(what, condition, timeout_s=60):
    """Poll until condition() is true. Return its value. The default limit is for a machine that is busy with other work."""
    deadline = time.monotonic() + timeout_s * SLOW
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(0.02)


def go_on(*procs):
    """Let workers continue that wait in the step {"go": true}."""
    for p in procs:
        p.send_signal(signal.SIGUSR1)


def once_within(limit_s, act):
    """Check that act() returns a time within the limit in one of three tries, because other work on the machine may delay it. For a tuple of
    limits act() returns as many numbers."""
    limits, took = limit_s if isinstance(limit_s, tuple) else (limit_s,), []
    for _ in range(3):
        took.append(act())
        numbers = took[-1] if isinstance(limit_s, tuple) else (took[-1],)
        if all(n < limit * SLOW for n, limit in zip(numbers, limits, strict=True)):
            return
    raise AssertionError(f"not within {limit_s} s: {took}")

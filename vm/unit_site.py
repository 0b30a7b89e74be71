# SPDX-License-Identifier: GPL-2.0-only
"""Functions that the guests of vm/unit share. The functions provide the network, control units with systemctl, and run ranks
that sum while units are restarted.

The guest itself is the aggregator, and runs the manager. Their packages were installed before the guest was booted. The
workers are in namespaces (tests/lib/lab.py). A second aggregator is also in a namespace, and runs the same two units with a
separate configuration and separate pins.
"""
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time

TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(TREE, "tests", "lib")
sys.path.insert(0, PROGRAMS)
import lab  # noqa: E402 - found by the line above
import worker  # noqa: E402

lab.FPISA = "/usr/sbin/fpisa"  # the program from the packages
FOLDER, SECOND = "/etc/fpisa", "/run/second"
SECOND_ADDRESS = "10.99.100.2"
COUNT, CALLS = 20000, 2000  # more calls than there is time for
SUMS, STEPS = 100, 2000  # number of sums in a step; more steps than there is time for, in an argument of valid length
HERE_TOO = """[Service]
NetworkNamespacePath={}
BindPaths={second}/fpisa:/etc/fpisa {second}/bpf:/sys/fs/bpf
""".replace("{second}", SECOND)


class Here(lab.Netns):
    """The network namespace of systemd."""

    def __init__(self):
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
        self.started = []


class Machine(lab.Lab):
    """A network whose aggregator is this machine, with another aggregator at the port a0."""

    def __init__(self):
        super().__init__()
        self.second = self.netns()
        self.agg.ip(f"link add a0 type veth peer name eth0 netns {self.second.path}", "addr add 10.99.100.1/24 dev a0", "link set a0 up")
        self.second.ip(f"addr add {SECOND_ADDRESS}/24 dev eth0", "link set eth0 up", "route add default via 10.99.100.1")
        self.agg.gro_on("a0")
        self.agg.sysctl("ip_forward", 1)
        for r, w in enumerate(self.worker):
            w.ip(f"route add 10.99.100.0/24 via 10.99.{r + 1}.1")

    def netns(self):
        if self.spaces:
            return super().netns()
        self.spaces.append(Here())
        return self.spaces[0]


def ready():
    """Tell systemd that the network is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])


def command(*argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    if p.returncode:
        log = subprocess.run(["journalctl", "-b", "--no-pager", "-n", "60"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        sys.exit(f"{' '.join(argv)}: status {p.returncode}\n{p.stdout}{log.stdout}")
    return p.stdout.strip()


def systemctl(*argv):
    return command("systemctl", *argv)


def shown(unit, name):
    return systemctl("show", "-P", name, unit)


def active(*units):
    for unit in units:
        try:
            lab.wait_until(unit, lambda unit=unit: shown(unit, "ActiveState") == "active", 60)
        except AssertionError as e:
            sys.exit(f"{e}\n{shown(unit, 'ActiveState')}, {shown(unit, 'SubState')}\n{journal(unit)[-3000:]}")


def write(path, text, mode=0o600):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", opener=lambda p, flags: os.open(p, flags, mode)) as f:
        f.write(text)


def configure(net, more):
    """Write the configuration files of both aggregators before systemd starts the units. The files have jobs 1 and 2, groups
    from job 32 on, and `more` in section [manager].
    """
    for key in "train", "aggs":
        command(lab.FPISA, "key", "new", key, FOLDER + "/keys")
    with open(FOLDER + "/keys") as f:
        train, aggs = f.read().splitlines(True)
    write("/run/train", train)
    write(SECOND + "/fpisa/keys", aggs)
    write(SECOND + "/fpisa/fpisa.conf", f"[interface eth0]\nmode = native\n[manager]\nkey-file = /etc/fpisa/keys\nmanager = {lab.ADDRESS}\nfanout = unicast\n")
    text = "".join(f"[interface {p}]\nmode = native\n" for p in net.ports)
    for job, how in ((1, "pipeline = staged\nclz = lpm\n"), (2, "mode = fpisa64\n")):
        text += f"[job {job}]\nworkers = {','.join(net.addresses)}\naddress = {lab.ADDRESS}\n{how}"
    write(FOLDER + "/fpisa.conf", text + "[manager]\nkey-file = /etc/fpisa/keys\nnetworks = 10.99.0.0/16\njobs = 32-63\n" + more)


def register(net):
    """Run the second aggregator on its host with the units of the packages."""
    os.makedirs(SECOND + "/bpf", exist_ok=True)
    lab.mount(b"bpf", SECOND + "/bpf", b"bpf")
    for name in "fpisa", "fpisa-manager":
        with open(f"/lib/systemd/system/{name}.service") as f:
            write(f"/run/systemd/system/second-{name}.service", f.read().replace("fpisa.service", "second-fpisa.service"), 0o644)
        write(f"/run/systemd/system/second-{name}.service.d/host.conf", HERE_TOO.format(net.second.path), 0o644)
    systemctl("daemon-reload")
    systemctl("start", "second-fpisa")
    systemctl("start", "second-fpisa-manager")
    active("second-fpisa", "second-fpisa-manager")
    lab.wait_until("the second aggregator", lambda: registered(net), 60)


def registered(net):
    return [a["address"] for a in net.json("status")["manager"]["aggregators"] if not a["gone"]]


TRIES = 5  # tries to join, because an emulated machine may present its key later than the manager waits for unauthenticated connections


def lines(files):
    """Return the complete lines of each file. Each line is JSON."""
    return [[json.loads(line) for line in open(f.name) if line.endswith("\n")] for f in files]


class Job:
    """Workers of job 1 that sum until they are ended. The workers use the library and test programs of any version."""

    def __init__(self, net, library=lab.LIBRARY, programs=PROGRAMS, timeout_ms=60000):
        self.net, self.files = net, [open(f"/run/worker{r}", "w+") for r in range(len(net.worker))]
        plan = {"options": {"timeout_ms": timeout_ms}, "steps": [{"count": COUNT, "kind": "integers"}] * CALLS}
        argv = [sys.executable, "-B", os.path.join(programs, "worker.py"), library, lab.ADDRESS, 1, json.dumps(plan)]
        self.procs = [w.spawn(*argv, stdout=f) for w, f in zip(net.worker, self.files)]
        self.goes_on()

    def said(self):
        """Return the output of each worker. The first line is about the connection, and there is a line for each sum."""
        return lines(self.files)

    def goes_on(self):
        """Check that each worker begins and completes a sum from now on."""
        seen = [len(answers) for answers in self.said()]

        def more():
            ended = [p.communicate()[1] for p in self.procs if p.poll() is not None]
            if ended:
                sys.exit(f"workers ended: {ended} {[a[-1:] for a in self.said()]}")
            return all(len(answers) > n + 1 for answers, n in zip(self.said(), seen))
        lab.wait_until("sums of the job", more, 120)

    def counted(self):
        """Return the number of sums, and the number of wrong sums."""
        expect = hashlib.sha256(worker.exact_sum("integers", len(self.procs), COUNT)).hexdigest()
        digests = [a["digest"] for rank in self.said() for a in rank[1:] if not a["rc"]]
        return len(digests), sum(d != expect for d in digests)

    def end(self):
        self.goes_on()
        for p in self.procs:
            lab.end(p)
        return self.counted()


class Sums:
    """A group of all workers. Its ranks sum until they are ended, and report the number of wrong sums."""

    def __init__(self, net, name, library=lab.LIBRARY, programs=PROGRAMS):
        self.net, self.name, self.library, self.programs = net, name, library, programs
        for _ in range(TRIES):
            self.start()
            lab.wait_until(f"group {name}", lambda: all(self.said()), 120)
            if not self.failed():
                break
            for p in self.ranks:
                lab.end(p)
        self.goes_on()

    def start(self):
        self.files, self.ranks = [], []
        steps = [{"check": "float32", "times": SUMS, "seed": s} for s in range(STEPS)]
        plan = json.dumps({"options": {"key_file": "/run/train", "join_timeout_ms": 60000}, "steps": steps})
        for r, w in enumerate(self.net.worker):
            self.files.append(open(f"/run/{self.name}{r}", "w+"))
            self.ranks.append(w.spawn(sys.executable, "-B", os.path.join(self.programs, "member.py"), self.library, lab.ADDRESS, self.name, r,
                                      len(self.net.worker), plan, stdout=self.files[-1]))

    def said(self):
        """Return the output of each rank. The first line is about the join, and there is a line for each step."""
        return lines(self.files)

    def failed(self):
        """Return the first error of each rank that has an error."""
        return [next(a for a in answers if a["rc"]) for answers in self.said() if any(a["rc"] for a in answers)]

    def goes_on(self):
        """Check that each rank begins and completes a step from now on."""
        seen = [len(answers) for answers in self.said()]

        def more():
            if self.failed():
                sys.exit(f"group {self.name}: {self.failed()}")
            return all(len(answers) > n + 1 for answers, n in zip(self.said(), seen))
        lab.wait_until(f"sums of group {self.name}", more, 120)

    def shares(self):
        """Return the aggregators of the group."""
        found, = [g["shares"] for g in self.net.json("group", "list") if g["name"] == self.name]
        return [a["address"] for a in found]

    def end(self):
        for p in self.ranks:
            lab.end(p)
        answers = [a for rank in self.said() for a in rank[1:]]
        return sum(a["calls"] for a in answers), sum(a["wrong"] for a in answers)


def journal(unit, *options):
    time.sleep(1)  # journald first reads all lines that were written before
    return subprocess.run(["journalctl", "-b", "--no-pager", "-o", "cat", *(["-u", unit] if unit else []), *options], text=True, stdout=subprocess.PIPE).stdout


def suppressed():
    """Return the number of lines of the manager's unit that journald reports as dropped."""
    return sum(map(int, re.findall(r"Suppressed (\d+) messages from fpisa-manager.service", journal(None))))

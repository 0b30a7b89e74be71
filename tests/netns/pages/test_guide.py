# SPDX-License-Identifier: GPL-2.0-only
"""Follow doc/guide.md as its reader does: an aggregator, two workers and a bridge as the switch, an installation with `make install`, and
every command of the page in order. Cause and fix every fault in its tables. tests/package/test_package.py tests section 1, the packages."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

import guide
import lab as labs
import mpi as mpis
from groups import MEMBER, Rank
from lab import BPFFS, BUILD, LIBRARY, MS_BIND, SLOW, end, libc, mount, read_all, unmount, wait_until

pytestmark = [pytest.mark.together, pytest.mark.early]  # these tests need the installed program

AGGREGATOR, WORKERS = "10.0.0.1", ("10.0.0.11", "10.0.0.12")
NOBODY = 65534
HAS_TORCH = os.path.exists(os.path.join(BUILD, "torch", "built"))
WAIT_MS = 2000	# timeout of a worker that must fail
# Debian's /etc/nftables.conf, changed to drop all input. Outgoing packets are not filtered.
FIREWALL = """flush ruleset
table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		meta l4proto { igmp, ipv6-icmp } accept
		iifname lo accept
	}
}
"""
# No systemd runs in a network namespace, so this function runs the commands of the installed units as systemd would. A process that stays
# (Type=notify) writes its number to a file next to its output.
SYSTEMCTL = r"""#!/usr/bin/python3
import os, re, shlex, signal, socket, subprocess, sys
verb, *rest = sys.argv[1:]
assert rest[-1] in ("fpisa", "fpisa-manager") and verb in ("start", "restart", "reload", "enable", "disable", "stop")
with open(f"/usr/lib/systemd/system/{rest[-1]}.service") as f:
    unit = re.findall(r"^(\w+)=(.*)$", f.read(), re.M)
assert ("WantedBy", "multi-user.target") in unit
now = "--now" in rest
stops, starts = verb in ("stop", "restart") or now and verb == "disable", verb in ("start", "restart") or now and verb == "enable"
stays, said = ("Type", "notify") in unit, os.path.expanduser("~/" + rest[-1])

def main_pid():
    with open(said + ".pid") as f:
        return int(f.read())

def run(key):
    for name, command in unit:
        if name == key:
            subprocess.run(shlex.split(command.lstrip("+").replace("$MAINPID", str(main_pid()) if stays else "")), check=True)

def start():
    ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ready.bind("\0" + rest[-1])
    ready.settimeout(60)
    with open(said + ".log", "w") as log:
        p = subprocess.Popen(shlex.split(dict(unit)["ExecStart"]), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             env={**os.environ, "NOTIFY_SOCKET": "@" + rest[-1]})
    with open(said + ".pid", "w") as f:
        f.write(str(p.pid))
    assert ready.recv(100) == b"READY=1"

if stops:
    run("ExecStop")
    if stays:
        os.kill(main_pid(), signal.SIGTERM)
if starts:
    start() if stays else run("ExecStart")
if verb == "reload":
    run("ExecReload")
"""
# No sshd runs in the namespaces. This stand-in for ssh gives its command and files to the test, which runs the command on the named
# machine.
SSH = r"""#!/usr/bin/python3
import os, socket, sys
argv = sys.argv[1:]
while argv[0].startswith("-"):
    del argv[0]
s = socket.socket(socket.AF_UNIX)
s.connect(os.path.expanduser("~/../ssh"))
socket.send_fds(s, ["\n".join((argv[0], " ".join(argv[1:]))).encode()], [0, 1, 2])
sys.exit(int(s.recv(16) or 255))
"""
CONFIG = "/etc/fpisa/fpisa.conf"
MPI_LIBRARY = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture(scope="module")
def installed(mounts):
    """Install with `make install PREFIX=/usr` over this machine's /usr and /etc, in private mounts only."""
    top, over = tempfile.mkdtemp(), []
    try:
        os.chmod(top, 0o755)
        parts = ["install", "install-python", *(["install-torch"] if HAS_TORCH else [])]
        subprocess.run(["make", *parts, f"B={BUILD}", f"DESTDIR={top}", "PREFIX=/usr"], cwd=guide.TOP, check=True,
                       stdout=subprocess.DEVNULL)
        if not mpis.lacking("openmpi"):
            subprocess.run(["make", "install-mpi", "MPIS=openmpi", f"B={BUILD}", f"DESTDIR={top}", f"LIBDIR={MPI_LIBRARY}"],
                           cwd=guide.TOP, check=True, stdout=subprocess.DEVNULL)
        os.makedirs(top + "/usr/bin", exist_ok=True)
        for name, program in ("systemctl", SYSTEMCTL), ("ssh", SSH):
            with open(f"{top}/usr/bin/{name}", "w") as f:
                f.write(program)
            os.chmod(f.name, 0o755)
        for target in ("/usr", "/etc"):
            if libc.mount(b"overlay", target.encode(), b"overlay", 1, f"lowerdir={top}{target}:{target}".encode()):
                pytest.skip("this kernel has no overlay filesystem over " + target)
            over.append(target)
        mount((top + "/etc/fpisa").encode(), "/etc/fpisa", None, MS_BIND)
        over.append("/etc/fpisa")
        yield
    finally:
        for target in reversed(over):
            unmount(target)
        shutil.rmtree(top)


class Site(labs.Lab):
    """The page's three machines and their switch. Every command runs as in a terminal on its machine. With `vlan`, the machines use the VLAN
    device eth0.7 on eth0, as section 3 describes, and the page's commands of fpisa name it. With `ipv6`, they have IPv6 addresses alone, which
    the page's commands name."""

    dev = "eth0"  # the interface that has the machine's address

    def __init__(self, home, vlan=False, ipv6=False):
        self.ipv6, self.dev = ipv6, "eth0.7" if vlan else self.dev
        self.spaces, self.ports, self.addresses, self.home = [], ["eth0"], [self.named(w) for w in WORKERS], home
        self.agg, self.switch = self.netns(), self.netns()
        self.worker = [self.netns() for _ in WORKERS]
        self.places = {"the aggregator": [self.agg], "each worker": self.worker, "the first worker": self.worker[:1]}
        # The switch floods multicast frames, as a switch without IGMP snooping does.
        self.switch.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0", "link set br0 up")
        for n, (ns, address) in enumerate(zip([self.agg, *self.worker], [self.named(AGGREGATOR), *self.addresses])):
            self.switch.ip(f"link add port{n} type veth peer name eth0 netns {ns.path}", f"link set port{n} master br0",
                           f"link set port{n} up")
            ns.ip("link set eth0 up")
            if vlan:
                status, _, err = ns.try_run("ip", "link", "add", "link", "eth0", "name", self.dev, "type", "vlan", "id", "7")
                if status:
                    pytest.skip(f"this kernel has no VLAN devices: {err.strip()}")
                ns.run("ethtool", "-K", "eth0", "rxvlan", "off")
            ns.ip(f"addr add {address}/{64 if ipv6 else 24} dev {self.dev}", f"link set {self.dev} up")
            ns.gro_on("eth0")
            self.switch.gro_on(f"port{n}")
            ns.home = os.path.join(home, str(n))
            os.mkdir(ns.home)
            os.chown(ns.home, NOBODY, NOBODY)
            if shutil.which("nft"):
                self.nft(ns)
        # This process lets doctor see the switch.
        self.switch.spawn("sleep", "600")
        self.sshd = socket.socket(socket.AF_UNIX)
        self.sshd.bind(os.path.join(home, "ssh"))
        os.chmod(os.path.join(home, "ssh"), 0o666)
        self.sshd.listen()
        threading.Thread(target=self.serve_ssh, daemon=True).start()

    def serve_ssh(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.ssh, args=[self.sshd.accept()[0]], daemon=True).start()

    def ssh(self, client):
        """Run a command on one of the machines as the workers' user, by the machine's name."""
        text, files, _, _ = socket.recv_fds(client, 1 << 16, 3)
        address, command = text.decode().split("\n", 1)
        ns = self.worker[self.addresses.index(address)]
        user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sh", "-c", command)
        p = ns.spawn("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', "worker" + address[-2:], *user, cwd=ns.home,
                     env={"PATH": "/usr/bin:/bin", "HOME": ns.home}, **dict(zip(("stdin", "stdout", "stderr"), files)))
        for f in files:
            os.close(f)
        client.sendall(str(p.wait()).encode())
        client.close()

    @staticmethod
    def nft(ns):
        """Check that a result passes only with the page's firewall rule."""
        read, write = os.pipe()
        os.write(write, FIREWALL.encode())
        os.close(write)
        try:
            ns.run("nft", "-f", "-", stdin=read)
        finally:
            os.close(read)

    def named(self, text):
        """Return the text with the machines' interface in place of eth0 where it stands for the network, not for the card, and with the
        addresses of the machines."""
        text = re.sub(r"^(fpisa (?!doctor)[^\n]*\b|\[interface |[^\n]*IFNAME=)eth0\b", rf"\g<1>{self.dev}", text, flags=re.M)
        return guide.over_ipv6(text) if self.ipv6 else text

    def start_text(self, ns, text, **options):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": ns.home, "TMPDIR": ns.home, "LC_ALL": "C.UTF-8"}
        if ns in self.worker:
            env["RANK"] = str(self.worker.index(ns))
        return ns.spawn("bash", "-ec", self.named(text), cwd=ns.home, stderr=subprocess.STDOUT, env={**env, **options.pop("env", {})},
                        **options)

    def finish(self, procs, must_succeed=True):
        outputs = []
        for p in procs:
            try:
                out, _ = p.communicate(timeout=labs.COMMAND_S)
            finally:
                end(p)
            outputs.append(out)
        assert not must_succeed or not any(p.returncode for p in procs), [(p.args, p.returncode, out) for p, out in zip(procs, outputs)]
        return outputs

    def hand_out(self, keys):
        """Give the file to the workers' user, as the page says."""
        for w in self.worker:
            copy = shutil.copy(keys, os.path.join(w.home, "keys"))
            os.chown(copy, NOBODY, NOBODY)
            os.chmod(copy, 0o600)

    def close(self):
        with contextlib.suppress(OSError, ValueError), open(os.path.join(self.agg.home, "fpisa-manager.pid")) as f:
            pid = int(f.read())
            with open(f"/proc/{pid}/cmdline") as command:
                if "serve" in command.read():
                    os.kill(pid, signal.SIGKILL)
        self.sshd.shutdown(socket.SHUT_RDWR)
        self.sshd.close()
        super().close()

    def at(self, place, text, **options):
        """Run the text on all machines of a place, at the same time. Return the output of each machine."""
        return self.finish([self.start_text(ns, text, **options) for ns in self.places[place]])

    def tell(self, text):
        """Run a command on the aggregator, which may fail."""
        return self.finish([self.start_text(self.agg, text)], False)[0]

    def start(self, rank, job, *steps, address=None, **options):
        return super().start(rank, job, *steps, address=address or self.named(AGGREGATOR), **options)

    def fails(self, *ranks, steps=({"count": 100, "kind": "integers"},), timeout_ms=WAIT_MS, **options):
        """Return the errors of the workers' calls."""
        procs = [self.start(r, 7, *steps, timeout_ms=timeout_ms, **options) for r in ranks]
        return "\n".join(a["error"] for p in procs for a in read_all(p)[0] if a.get("error"))


@contextlib.contextmanager
def in_a_home(make):
    """Yield the result of make() in a folder of its own. Then close the result and remove the folder."""
    home, made = tempfile.mkdtemp(), None
    os.chmod(home, 0o755)
    try:
        made = make(home)
        yield made
    finally:
        if made:
            made.close()
        shutil.rmtree(home)


@pytest.fixture
def site(installed, bpffs, request):
    with in_a_home(lambda home: Site(home, **getattr(request, "param", {}))) as made:
        yield made


def test_program_is_the_tree_s():
    program, = [b.text for b in guide.blocks() if b.kind == "c"]
    with open(guide.EXAMPLE) as f:
        assert program == f.read()
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fsyntax-only",
                    "-I" + os.path.join(guide.TOP, "include"), guide.EXAMPLE, guide.GROUP], check=True)


def test_every_block_has_its_place():
    found = guide.blocks()
    assert {b.section for b in found} == set(range(11)) and len(found) > 15
    assert {b.place for b in found if b.kind == "sh"} == set(guide.PLACES)


def follow(site, block):
    if block.kind == "c":
        for w in site.worker:
            for example in guide.EXAMPLE, guide.GROUP, guide.NORM, *guide.PYTHON:
                with open(example) as f, open(os.path.join(w.home, os.path.basename(example)), "w") as copy:
                    copy.write(site.named(f.read()))
    elif block.kind == "ini":
        with open(CONFIG, "w") as f:
            f.write(site.named(block.text))
    elif "mpirun" in block.text and (site.ipv6 or mpis.lacking("openmpi")):
        print(f"not run, {mpis.lacking('openmpi') or 'mpirun needs IPv4'}: {block.text}")
    elif "apt " not in block.text and (HAS_TORCH or "torchrun" not in block.text):
        digests, of_mpi = set(), "mpirun" in block.text
        before = counts(site) if of_mpi else {}
        for out in site.at(block.place, block.text, uid=NOBODY if block.user else 0):
            assert guide.missing(map(site.named, block.prints), out) == [], (block.text, out)
            # The job that served the call has the number and the counters of the previous job.
            assert not of_mpi or ("fpisa: " not in out and counts(site)["result"] != before["result"]), out
            if "--mode exact" in block.text:
                digests.update(re.findall(r", weights (\w+), ", out))
            if "fpisa stats 7\n" in block.text:
                assert "result 3907" in " ".join(out.split()) and "\n7 v_result 3907\n" in out, out
        assert len(digests) == ("--mode exact" in block.text), digests
        if "fpisa key new" in block.text:
            site.hand_out("/etc/fpisa/keys")


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
@pytest.mark.skipif(not shutil.which("ethtool"), reason="ethtool is not installed; make test installs it")
@pytest.mark.parametrize("site", [{}, {"vlan": True}, pytest.param({"ipv6": True}, marks=pytest.mark.long)], ids=["untagged", "vlan", "ipv6"],
                         indirect=True)
def test_page(site):
    """The page leads from an empty machine to an all-reduce, and back to an empty machine. In VLAN 7 and over IPv6 the same commands do."""
    for block in guide.blocks():
        if block.section > 1:
            follow(site, block)
        if block.section == 3 and block.kind == "sh":
            assert "no answer" in site.fails(0)	 # the firewall drops the answers
        if block.section == 7 and "systemctl" in block.text:
            site.check_sum(7)
    assert not [f for f in os.listdir(BPFFS) if "fpisa" in f] and "xdp" not in site.agg.run("ip", "link", "show", "eth0")


# -- the table of faults ---------------------------------------------------- Each function makes the row's fault and returns its symptom.

FAULTS, GROUP_FAULTS = "symptom", "error of a group's program"
ADD = f"fpisa job add 7 --workers {','.join(WORKERS)} --address {AGGREGATOR}"


def no_native_xdp(site):
    site.agg.ip("link set eth0 name eth9", "link add eth0 type ifb", "link set eth0 up")
    return site.tell("fpisa load eth0")


def too_large(site):
    return site.tell(f"fpisa job del 7; {ADD} --elements 416")


def not_loaded(site):
    site.agg.ip("link add eth1 type veth peer name far1", "link set eth1 up", "link set far1 up")
    return site.tell(f"fpisa load eth1; fpisa unload eth0; fpisa job del 7; {ADD}")


def no_job(site):
    site.tell(f"fpisa job del 7; {ADD.replace('add 7', 'add 8')}")
    return site.fails(0)


def unknown_peer(site):
    site.tell(f"fpisa job del 7; {ADD.replace('10.0.0.12', '10.0.0.13')}")
    return site.fails(1)


def wrong_destination(site):
    site.agg.ip("addr add 10.0.0.2/24 dev eth0")
    return site.fails(0, address="10.0.0.2")


def token(site):
    site.tell(f"fpisa job del 7; {ADD} --token 5a")
    return site.fails(0)


def other_vlan(site):
    site.switch.run("ethtool", "-K", "port0", "txvlan", "off")	# tags are in the frames, so their absence is seen
    site.tell(f"fpisa job del 7; {ADD} --vlan 7")
    return site.fails(0)


def not_asked(site):
    site.tell("sysctl -w net.ipv4.ip_forward=1; sysctl -w net.ipv4.ip_forward=0")
    return site.fails(0)


def forgotten(site):
    site.nft(site.agg)
    site.agg.run("ip", "neigh", "flush", "all")
    return site.fails(0)


def closed(site):
    for w in site.worker:
        site.nft(w)
    return site.fails(0)


def absent(site):
    return site.fails(0)


def silent(site):
    procs = [site.start(0, 7, {"count": 100, "kind": "integers"}, timeout_ms=2 * WAIT_MS),
             site.start(1, 7, timeout_ms=2 * WAIT_MS)]
    return "\n".join(a["error"] for p in procs for a in read_all(p)[0] if a.get("error"))


def no_group(site):
    for n in (1, 2):
        site.switch.run("bridge", "link", "set", "dev", f"port{n}", "mcast_flood", "off")
    site.check_sum(7, 3000)
    return ""


def same_port(site):
    first = site.start(0, 7, timeout_ms=20 * WAIT_MS)
    wait_until("its port to be taken", lambda: ":18000 " in site.worker[0].run("ss", "-Hlun"))
    said = site.fails(0)
    end(first)
    return said


def other_type(site):
    site.tell(f"fpisa job del 7; {ADD} --format bf16")
    return site.fails(0, 1, timeout_ms=20 * WAIT_MS)


def one_rank(site):
    site.check_sum(7, ranks=[0], timeout_s=labs.COMMAND_S)


def two_on_one_host(site):
    procs = [site.start(0, 7, {"count": 1000, "kind": "integers"}, local_port=p) for p in (18000, 18001)]
    site.check_answers(procs, 2, 1000)


def by_result(site):
    """Workers request only some of the results again."""
    before = counts(site)
    site.check_sum(7, 100000)
    after = counts(site)
    assert after["resent"] - before["resent"] < after["result"] - before["result"]


def generic(site):
    assert site.json("status")["interfaces"][0]["mode"] == "skb"


PROVOKED = [(no_native_xdp, generic), (too_large, None), (not_loaded, None), (no_job, None), (unknown_peer, None),
            (wrong_destination, None), (other_vlan, None), (token, None), (not_asked, None), (forgotten, None),
            (closed, None), (absent, one_rank), (silent, one_rank), (no_group, by_result),
            (same_port, two_on_one_host), (other_type, None)]


def counts(site):
    """Return the table of `fpisa stats`."""
    return {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)\b", site.tell("fpisa stats"), re.M)}


def test_tables_are_provoked():
    assert len(guide.faults(FAULTS)) == len(PROVOKED) and len(guide.faults(GROUP_FAULTS)) == len(PROVOKED_IN_GROUPS)


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
@pytest.mark.parametrize("row", range(len(PROVOKED)), ids=[p.__name__ for p, _ in PROVOKED])
def test_fault(site, row):
    """Each fault of the table shows its symptom, and its command fixes it."""
    (seen, (place, fix)), (provoke, works) = guide.faults(FAULTS)[row], PROVOKED[row]
    for b in guide.blocks():
        if b.section in (3, 4) and provoke is not no_native_xdp:
            follow(site, b)
    before = counts(site) if provoke is not no_native_xdp else {}
    said = provoke(site)
    assert guide.missing([s for s in seen if " " in s], said) == [], said
    after = counts(site) if before else {}
    for name in [s for s in seen if " " not in s]:
        assert after.get(name, 0) > before.get(name, 0), (name, after)
    if provoke is no_group:
        assert after["resent"] >= after["result"]
    site.at(place, fix)
    (works or (lambda s: s.check_sum(7)))(site)


# -- the table of groups' faults --------------------------------------------- Each function returns the errors of a group's members.

SUM = {"sum": "float32"}
ENDLESS = {**SUM, "times": 10**6}

def member(site, rank, *steps, name="sums", size=2, key=True, address=AGGREGATOR, **options):
    """Start a rank of a group, with a short timeout, on the worker of that number."""
    options = {"join_timeout_ms": int(5 * WAIT_MS * SLOW), "key_file": "/etc/fpisa/keys" if key else "", **options}
    plan = json.dumps({"options": options, "steps": steps, "hold": True})
    return Rank(site.worker[rank].spawn(sys.executable, "-B", MEMBER, LIBRARY, address, name, rank, size, plan))


def members(site, *steps, name="sums"):
    """Start both ranks with these steps, and wait until they have joined."""
    found = [member(site, r, *steps, name=name) for r in range(2)]
    assert [m.line()["rc"] for m in found] == [0, 0]
    return found


def said(*ranks):
    """Return the errors with which both ranks end."""
    found = []
    for rank in ranks:
        while not (answer := rank.line())["rc"]:
            pass
        found.append(answer["error"])
        rank.end()
    return "\n".join(found)


def configured(site, line):
    """Change a line in the manager's section of the configuration, and make the manager read it again."""
    key = line.split(" ")[0]
    with open(CONFIG) as f:
        text = re.sub(rf"^{key} = .*\n", "", f.read(), flags=re.M).replace("[manager]\n", f"[manager]\n{line}\n")
    with open(CONFIG, "w") as f:
        f.write(text)
    log = os.path.join(site.agg.home, "fpisa-manager.log")
    before = os.path.getsize(log)
    site.tell("systemctl reload fpisa-manager")
    wait_until("its word on it", lambda: os.path.getsize(log) > before)


def joins(site):
    return said(member(site, 0))


def sums(site):
    """Return both ranks' first sums."""
    return said(*members(site, SUM))


def no_manager(site):
    site.tell("systemctl stop fpisa-manager")
    return joins(site)


def no_way_in(site):
    site.nft(site.agg)
    return joins(site)


def other_networks(site):
    configured(site, "networks = 10.0.0.11/32")
    return said(member(site, 1))


def tentative(site):
    """Give the hosts IPv6 addresses. The kernel checks the worker's for five seconds."""
    w = site.worker[0]
    configured(site, "networks = 10.0.0.0/24,::/0")
    for ns in site.agg, w:
        ns.run("nft", "flush", "ruleset")
    site.agg.ip("addr add 2001:db8::1/64 dev eth0 nodad")
    for name, value in (("accept_dad", 1), ("dad_transmits", 5)):
        w.sysctl(f"conf/eth0/{name}", value, family="ipv6")
    w.ip("addr add 2001:db8::11/64 dev eth0")
    return said(member(site, 0, address="2001:db8::1"))


def without_a_key(site):
    return said(member(site, 0, key=False))


def not_told_of_a_key(site):
    site.tell("fpisa key new train /etc/fpisa/keys")
    site.hand_out("/etc/fpisa/keys")
    return joins(site)


def of_an_earlier_run(site):
    first = member(site, 0)
    wait_until("its join", lambda: site.json("group", "list"))
    texts = [said(member(site, 0)), said(member(site, 0, size=3))]
    second = member(site, 1)
    assert [first.line()["rc"], second.line()["rc"]] == [0, 0]
    return "\n".join([*texts, joins(site)])


def one_joins(site):
    return said(member(site, 0))


def other_formats(site):
    configured(site, "formats = fp64")
    return sums(site)


def one_job(site):
    configured(site, "jobs = 32")
    other = members(site, SUM, name="other")
    assert [m.line()["rc"] for m in other] == [0, 0]
    return sums(site)


def one_group(site):
    configured(site, "key-groups = 1")
    members(site, name="other")
    return joins(site)


def a_rank_dies(site):
    texts = []
    for kill in lambda m: m.kill(), lambda m: site.switch.ip("link set port2 down"):
        ranks = members(site, ENDLESS)
        kill(ranks[1])
        texts.append(said(ranks[0]))
    site.switch.ip("link set port2 up")
    return "\n".join(texts)


def fewer_calls(site):
    one, other = [member(site, r, SUM, last) for r, last in enumerate(({"leave": True}, SUM))]
    assert [one.line()["rc"] for _ in range(3)] == [0, 0, 0]
    return said(other)


def aggregator_down(site):
    ranks = members(site, SUM, ENDLESS)
    assert [r.line()["rc"] for r in ranks] == [0, 0]
    site.agg.ip("link set eth0 down")
    return said(*ranks)


PROVOKED_IN_GROUPS = [no_manager, no_way_in, other_networks, tentative, without_a_key, not_told_of_a_key, of_an_earlier_run, one_joins, other_formats,
                      one_job, one_group, a_rank_dies, fewer_calls, aggregator_down]


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
@pytest.mark.parametrize("row", range(len(PROVOKED_IN_GROUPS)), ids=[p.__name__ for p in PROVOKED_IN_GROUPS])
def test_group_fault(site, row):
    """Each fault of groups shows its symptom, and its command fixes it. The page's program then gets its sum."""
    seen, (place, fix) = guide.faults(GROUP_FAULTS)[row]
    with contextlib.suppress(FileNotFoundError):
        os.unlink("/etc/fpisa/keys")
    for b in guide.blocks():
        if b.section in (3, 4, 8) or b.kind == "c":
            follow(site, b)
        if b.section == 8 and "./group sums" in b.text:
            run = b
            break
    text = PROVOKED_IN_GROUPS[row](site)
    assert guide.missing(seen, text) == [], text
    wait_until("the end of those that have failed", lambda: "sums" not in str(site.json("group", "list")) or "kill" in fix)
    site.at(place, fix, uid=NOBODY if place == "each worker" else 0)
    wait_until("the end of the group before", lambda: "sums" not in str(site.json("group", "list")))
    follow(site, run)

# SPDX-License-Identifier: GPL-2.0-only
"""What the CLI refuses: one line that says why and what to try, a nonzero exit
status, and nothing half done."""
import json
import os
import re
import signal
import subprocess

import pytest

from lab import ADDRESS, BPFFS, COMMAND_S, FPISA, PIN, wait_until
from shared import copy_pin


CHANGED_BY_JOBS = ("fpisa_jobs", "fpisa_sessions", "fpisa_stages", "fpisa_control")


def state(net):
    """All that a command could leave: pins, links, and the programs and maps behind the pins."""
    pins = sorted(os.path.join(d, f) for d, dirs, files in os.walk(BPFFS) for f in files + dirs)
    links = re.sub(r"(state|qdisc) \w+", "", net.agg.run("ip", "-o", "link"))
    maps = [p for p in pins if p.rsplit("/", 1)[1] in CHANGED_BY_JOBS]
    contents = [net.agg.run("bpftool", "map", "dump", "pinned", p) for p in maps]
    return pins, links, contents


def refused(net, argv, says, status=1, usage=False, **options):
    """`fpisa argv` fails, says one line in which `says` occurs, and changes nothing."""
    before = state(net)
    got, out, err = net.agg.try_run(FPISA, *argv, **options)
    assert got == status and out == "", (got, out, err)
    lines = err.splitlines()
    assert len(lines) == 1 + usage, err
    assert lines[0].startswith("fpisa: ") and re.search(says, lines[0]), err
    assert not usage or lines[1].startswith("usage: fpisa " + argv[0]), err
    assert state(net) == before


def add(net, *options, job=1, workers=None):
    workers = workers or ",".join(net.addresses)
    return ["job", "add", job, "--workers", workers, "--address", ADDRESS, *options]


def test_load_refusals(lab):
    net = lab()
    refused(net, ["load", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["load", "p0", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["load", "p0", "p0"], "p0: named twice")
    refused(net, ["load"], "name at least one interface", status=2, usage=True)
    refused(net, ["load", "p0", "--mode", "hw"], "--mode: 'hw' is not native or skb", 2, usage=True)
    refused(net, ["load", "p0", "--port", "70000"], "--port: '70000' is not a number", 2, usage=True)
    refused(net, ["load", "p0", "--pin", "/dev/shm/fpisa"], "not on a BPF filesystem; mount -t bpf")
    assert not os.path.exists("/dev/shm/fpisa")
    refused(net, ["load", "p0", "--pin", BPFFS + "/no/such"], "/no: No such file or directory; make it with")
    refused(net, ["load", "p0"], "no privilege: run as root", uid=65534)


def test_load_twice(lab):
    net = lab()
    net.load()
    refused(net, ["load", "p0"], "p0: is loaded already, native, pinned in .*; fpisa unload p0")
    refused(net, ["load", "p0", "--mode", "skb"], "p0: is loaded already")
    refused(net, ["load", "p0", "--pin", BPFFS + "/other"], f"p0: runs the datapath that is pinned in {PIN}: give --pin {PIN}, or ")
    net.fpisa("unload", "p1")
    refused(net, ["load", "p1", "p0"], "p0: is loaded already")
    refused(net, ["load", "p1", "--port", "99"], "a datapath with port 18000 is loaded")
    net.fpisa("load", "p1")
    net.add_job(1)
    net.check_sum(1)


def test_load_fails_on_the_second_interface(lab):
    """A frame that no XDP buffer holds: what the first interface got is taken back."""
    net = lab()
    net.worker[1].ip("link set eth0 mtu 9000")
    net.agg.ip("link set p1 mtu 9000")
    refused(net, ["load", "p0", "p1"], "p1: attach native XDP: .*; try --mode skb")


def test_unload_refusals(lab):
    net = lab()
    refused(net, ["unload"], "nothing is loaded, nothing to unload")
    refused(net, ["unload", "p0"], "nothing is loaded")
    refused(net, ["unload", "--pin", BPFFS + "/other"], "/other: nothing is loaded")
    os.mkdir(BPFFS + "/other")  # empty, and somebody's
    refused(net, ["unload", "--pin", BPFFS + "/other"], "/other: nothing is loaded")
    os.rmdir(BPFFS + "/other")
    net.fpisa("load", "p0")
    refused(net, ["unload", "p1"], "p1: this datapath is not loaded on it")
    refused(net, ["unload", "p0", "p1"], "p1: this datapath is not loaded on it")
    refused(net, ["unload", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["unload", "p0"], "no privilege: run as root", uid=65534)
    assert net.fpisa("unload", "p0") == "last interface detached: datapath and its jobs removed\n"
    refused(net, ["unload"], "nothing is loaded")


def test_unload_while_another_namespace_runs_it(lab):
    """Pins are the BPF filesystem's, interfaces their namespace's: who unloads in one leaves what runs in another, and is
    told how to get there."""
    net = lab()
    other = net.netns()
    keeper = other.spawn("sleep", "600")
    other.ip("link add e0 type veth peer name e1", "link set e0 up", "link set e1 up")
    net.fpisa("load", *net.ports)
    net.add_job(1)
    other.run(FPISA, "load", "e0")
    there = rf"nsenter -t {keeper.pid} -n fpisa unload"
    said = rf"detached in this network namespace; datapath and jobs stay, for they run on e0 of another; {there}\n"
    assert net.fpisa("unload", "p0") == ""
    assert re.fullmatch(said, net.fpisa("unload", "p1"))
    assert [j["job"] for j in net.json("job", "list")] == [1]
    net.fpisa("load", *net.ports)
    net.check_sum(1)
    assert re.fullmatch(said, net.fpisa("unload"))
    refused(net, ["unload"], rf"{PIN}: runs on no interface of this network namespace, but on e0 of another; {there}")
    _, out, _ = net.agg.try_run(FPISA, "doctor")
    line, = [x for x in out.splitlines() if " datapath: " in x]
    assert re.fullmatch(rf"ok     datapath: attached: pinned in {PIN}, on no interface of this network namespace, but on e0 of "
                        rf"another; nsenter -t {keeper.pid} -n fpisa doctor looks there", line)
    assert net.agg.run("sh", "-ec", there.replace(" fpisa", " " + FPISA)) == "" and not os.path.exists(PIN)
    assert "xdp" not in other.run("ip", "link", "show", "e0")
    # Likewise the other way round.
    keeper = net.agg.spawn("sleep", "600")
    net.fpisa("load", "p0")
    other.run(FPISA, "load", "e0")
    assert f"run on p0 of another; nsenter -t {keeper.pid} -n fpisa unload" in other.run(FPISA, "unload")
    # A descriptor of ours alone leads to the first.
    keeper.kill()
    keeper.wait()
    other.run(FPISA, "load", "e0")
    out = other.run(FPISA, "unload", "e0")
    assert re.search(rf"run on p0 of another; nsenter --net=/proc/\d+/fd/\d+ fpisa unload", out), out
    net.fpisa("unload")
    assert not os.path.exists(PIN)


def test_unload_of_a_named_pin_that_runs_elsewhere(lab):
    """The command for there has the --pin too."""
    net, pin = lab(workers=1), BPFFS + "/mine"
    other = net.netns()
    keeper = other.spawn("sleep", "600")
    other.ip("link add e0 type veth peer name e1", "link set e0 up", "link set e1 up")
    net.fpisa("load", "p0", "--pin", pin)
    other.run(FPISA, "load", "e0", "--pin", pin)
    there = f"on e0 of another; nsenter -t {keeper.pid} -n fpisa unload --pin {pin}"
    assert net.fpisa("unload", "--pin", pin).endswith(f"run {there}\n")
    refused(net, ["unload", "--pin", pin], there + "$")
    net.agg.run("sh", "-ec", there.split("; ")[1].replace(" fpisa ", f" {FPISA} "))
    assert not os.path.exists(pin)


def test_many_pins(lab):
    """Jobs of many network namespaces have a map of ports each: all are given to the group, and removed."""
    net = lab(workers=1)
    net.fpisa("load", "p0", "--group", 64321)
    net.add_job(0)
    ports, = (f"{PIN}/{name}" for name in os.listdir(PIN) if name.startswith("fpisa_ports_"))
    for i in range(100):
        copy_pin(ports, f"{PIN}/fpisa_ports_{i}")
    net.add_job(1)
    assert {os.stat(f"{PIN}/fpisa_ports_{i}").st_gid for i in range(100)} == {64321}
    # A load that fails removes only what it made.
    refused(net, ["load", "p0"], "p0: is loaded already")
    assert net.fpisa("unload") == ""
    assert not os.path.exists(PIN)


def pin_map(net, path, name):
    net.agg.run("bpftool", "map", "create", path, "type", "array", "key", 4, "value", 4, "entries", 1, "name", name)


def test_pins_of_others(lab):
    """What is called as ours are, but was made under another name, stays, in every directory; so does its directory."""
    net, mine = lab(workers=1), BPFFS + "/fpisa_mine"
    pin_map(net, mine, "mine")
    refused(net, ["unload"], "nothing is loaded, nothing to unload")
    net.load()
    pin_map(net, PIN + "/fpisa_mine", "mine")
    net.fpisa("unload")
    assert os.path.exists(mine) and os.listdir(PIN) == ["fpisa_mine"]
    refused(net, ["unload"], "nothing is loaded, nothing to unload")


def test_unload_beside_remains(lab):
    """What a killed load left goes with a datapath that is pinned elsewhere."""
    net = lab(workers=1)
    net.ip_link()
    os.mkdir(PIN, 0o700)
    pin_map(net, PIN + "/fpisa_abi", "fpisa_abi")
    net.fpisa("unload")
    assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "link", "show", "p0")
    refused(net, ["unload"], "nothing is loaded, nothing to unload")


def test_unload_that_may_not_look_into_processes(lab):
    """Without CAP_SYS_PTRACE no other process says which network namespace it is in: what may run there keeps its pins."""
    net = lab(workers=1)
    other = net.netns()
    keeper = other.spawn("sleep", "600")
    other.ip("link add e0 type veth peer name e1", "link set e0 up", "link set e1 up")
    net.load()
    other.run(FPISA, "load", "e0")
    caps = "-all,+net_admin,+sys_admin"
    unload = ["setpriv", "--bounding-set", caps, "--inh-caps", caps, FPISA, "unload"]
    assert re.fullmatch("detached in this network namespace; datapath and jobs stay, for .*; run fpisa unload with CAP_SYS_PTRACE\n",
                        net.agg.run(*unload))
    assert os.path.exists(PIN)
    status, _, err = net.agg.try_run(*unload)
    assert status == 1 and re.search(f"{PIN}: .*; run fpisa unload with CAP_SYS_PTRACE$", err), err
    assert "nsenter" in net.agg.try_run(FPISA, "unload")[2]
    keeper.kill()
    other.run(FPISA, "unload")
    assert not os.path.exists(PIN)


@pytest.mark.parametrize("left", [[], ["fpisa_abi"], ["fpisa_abi", "fpisa_histogram", "fpisa_counters"], ["fpisa_lpm"]])
def test_unload_of_what_a_killed_one_left(lab, left):
    """Pins without fpisa_jobs, as a load or an unload that was killed leaves them, or the directory alone."""
    net = lab(workers=1)
    net.load()
    net.agg.ip("link set p0 xdp off")
    for name in set(os.listdir(PIN)) - set(left):
        os.unlink(f"{PIN}/{name}")
    if left:
        assert net.fpisa("unload") == ""
    else:
        assert "nothing is loaded, nothing to unload" in net.agg.try_run(FPISA, "unload")[2]
    assert not os.path.exists(PIN)
    # An interface that runs it is known by whichever map there is.
    for is_lost in (lambda name: name == "fpisa_jobs", lambda name: name != "fpisa_stages"):
        net.fpisa("load", "p0")
        for name in filter(is_lost, os.listdir(PIN)):
            os.unlink(f"{PIN}/{name}")
        net.fpisa("unload")
        assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "link", "show", "p0")


@pytest.mark.parametrize("verb", [["status"], ["job", "list"], ["stats"], ["slots"], ["job", "show", "1"]])
def test_readers_without_a_datapath(lab, verb):
    net = lab(workers=1)
    refused(net, verb, "no datapath is loaded .*; fpisa load DEV")
    net.load()
    refused(net, verb, "Permission denied; run as root", uid=65534)


BAD_JOBS = [
    (["--elements", "33"], "--elements: 33 is not a multiple of 32", 2),
    (["--elements", "864"], "--elements: '864' is not a number from 32 to 832", 2),
    (["--elements", "0"], "--elements: '0' is not a number", 2),
    (["--window", "48"], "--window: 48 is not a power of two", 2),
    (["--ports", "3"], "--ports: 3 is not a power of two", 2),
    (["--ports", "32"], "--ports: '32' is not a number from 1 to 16", 2),
    (["--ports", "8", "--window", "4"], "job 1: 8 ports for a window of 4 slots; at most --ports 4", 1),
    (["--window", "4096"], "--window: '4096' is not a number from 1 to 1024", 2),
    (["--mode", "exactly"], "--mode: 'exactly' is not fpisa or fpisa-a", 2),
    (["--rounding", "up"], "--rounding: 'up' is not", 2),
    (["--pipeline", "both"], "--pipeline: 'both' is not", 2),
    (["--clz", "table"], "--clz: 'table' is not", 2),
    (["--format", "fp24"], "--format: 'fp24' is not", 2),
    (["--fanout", "broadcast"], "--fanout: 'broadcast' is not", 2),
    (["--group", "10.0.0.1"], "--group: 10.0.0.1 is not a multicast address", 2),
    (["--group", "239.1.1.1", "--fanout", "unicast"], "--group: goes with multicast", 2),
    (["--token", "xyz"], "--token: 'xyz' is not 1 to 16 hexadecimal digits", 2),
    (["--debug-faults", "drop=0.1,loss=0.1"], "--debug-faults: 'loss=0.1' is not drop=P, duplicate=P, reorder=P,", 2),
    (["--debug-faults", "drop"], "--debug-faults: give drop= once, with a number", 2),
    (["--debug-faults", "drop=0.1,drop=0.2"], "--debug-faults: give drop= once, with a number", 2),
    (["--debug-faults", "drop=1"], "--debug-faults: '1' is not a number from 0 to 0.9", 2),
    (["--debug-faults", "seed=4294967296"], "--debug-faults: seed: '4294967296' is not a number from 0 to 4294967295", 2),
    (["--debug-faults", ""], "--debug-faults: say which, as in drop=0.01,delay=0.01,seed=1", 2),
    (["--address", "10.99.300.1"], "--address: is given twice", 2),
    (["--token", "0"], "--token: 0 means none; leave it out, or take another", 2),
    (["--elements", "512"], "make a frame of 2152 bytes, the MTU of p0 is 1500; try --elements 320", 1),
]


def test_bad_jobs(lab):
    net = lab()
    net.load()
    for options, says, status in BAD_JOBS:
        refused(net, add(net, *options), says, status, usage=status == 2)
    for mtu, fmt, says in ((120, "fp32", "the MTU of p0 is 120, too small for any job of this format: the fewest elements, 32, "
                                         "make a frame of 232 bytes; raise it"),
                           (300, "fp32", "try --elements 32$"), (200, "mxint8", "try --elements 64$")):
        net.agg.ip(f"link set p0 mtu {mtu}")
        refused(net, add(net, "--format", fmt, "--elements", 352), says)
    net.agg.ip("link set p0 mtu 1500")
    refused(net, add(net, job=64), "job: '64' is not a number from 0 to 63", 2, usage=True)
    a, b = net.addresses
    for workers, says, status in [
            (f"{a},{a}", f"ranks 0 and 1 are both {a}:18000", 1),
            (f"{a},{b}:1,{a}", f"ranks 0 and 2 are both {a}:18000", 1),
            (f"{a},10.1.2.300", "'10.1.2.300' is not an IPv4 address", 2),
            (f"{a}@nosuch0", "nosuch0: no such interface", 1),
            (f"{a},239.0.0.1", "239.0.0.1 is no machine's address", 2),
            ("10.99.1.1", "worker 10.99.1.1: is an address of this machine", 1),
            (ADDRESS, f"job 1: rank 0 has the aggregator's address {ADDRESS}", 1),
            (f"{a},10.99.2.255", "worker 10.99.2.255: is the broadcast address of a network", 1),
            (f"{a}@p0,10.99.2.255@p1", "worker 10.99.2.255: is the broadcast address of a network", 1),
            ("192.0.2.1", "worker 192.0.2.1: route: .*unreachable; add a route", 1),
            (",".join(f"10.99.1.{i}" for i in range(2, 67)), "--workers: more than 64", 2)]:
        refused(net, add(net, workers=workers), says, status, usage=status == 2)
    refused(net, add(net), "Permission denied; run as root", uid=65534)
    for verb in ("job del 1", "job show 1", "job shrink 1 0", "stats 1", "slots 1"):
        refused(net, verb.split(), "job 1: no such job; see fpisa job list")
    net.add_job(1)
    refused(net, add(net), "job 1: exists already; fpisa job del 1")
    refused(net, ["job", "shrink", "1", "5"], "not among the live ranks: 5")
    refused(net, ["job", "shrink", "1", "0", "1"], "no rank would be left")
    net.check_sum(1)


def test_job_made_but_not_shown(lab):
    """Output that cannot be written is an error, but the job is there."""
    net = lab()
    net.load()
    with open("/dev/full", "w") as full:
        status, _, err = net.agg.try_run(FPISA, *add(net, "--json"), stdout=full)
    assert (status, err) == (1, "fpisa: job 1 is made; stdout: No space left on device\n")
    assert [j["job"] for j in net.json("job", "list")] == [1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_load(lab, number):
    """It takes back what it made, and ends by the signal; one that is ignored does nothing."""
    net = lab(workers=1)
    before = state(net)
    p = net.agg.spawn("env", f"--default-signal={int(number)}", FPISA, "load", "p0")
    wait_until("the first pin", lambda: os.path.exists(PIN + "/fpisa_abi"))
    p.send_signal(number)
    _, err = p.communicate(timeout=COMMAND_S)
    assert (p.returncode, err) == (-number, "fpisa: load: interrupted; what it made is taken back\n")
    assert state(net) == before
    p = net.agg.spawn("env", f"--ignore-signal={int(number)}", FPISA, "load", "p0")
    wait_until("the first pin", lambda: os.path.exists(PIN + "/fpisa_abi"))
    p.send_signal(number)
    _, err = p.communicate(timeout=COMMAND_S)
    assert (p.returncode, err) == (0, "") and net.json("status")["interfaces"]
    net.fpisa("unload")


INTERRUPT = r"""
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
int bpf_xdp_attach(int ifindex, int fd, unsigned int flags, const void *opts)
{
	int (*attach)(int, int, unsigned int, const void *) = dlsym(RTLD_NEXT, "bpf_xdp_attach");
	int err = attach(ifindex, fd, flags, opts);

	kill(getpid(), SIGTERM);
	return err;
}
"""


def test_load_interrupted_while_it_attaches(lab, tmp_path):
    """The signal comes when the first of two interfaces has the program."""
    net, library = lab(), tmp_path / "interrupt.so"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-x", "c", "-o", library, "-", "-ldl"], input=INTERRUPT,
                   text=True, check=True)
    before = state(net)
    status, _, err = net.agg.try_run("env", "--default-signal=TERM", FPISA, "load", *net.ports,
                                     env={**os.environ, "LD_PRELOAD": str(library)})
    assert status == -signal.SIGTERM and err.splitlines()[-1] == "fpisa: load: interrupted; what it made is taken back"
    assert state(net) == before


def test_address_of_several_interfaces(lab):
    """Left to the routes, the address is that towards the first worker; one that is elsewhere is warned of, once."""
    net = lab(workers=3)
    net.load()
    status, out, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", ",".join(net.addresses))
    assert status == 0 and out == "" and len(err.splitlines()) == 1
    assert err.startswith("fpisa: warning: job 1: its address is 10.99.1.1, that of the route to the first worker, but "
                          "10.99.2.1 on the route to worker 10.99.2.3; ")
    for w in net.worker[1:]:
        w.ip("route add 10.99.1.1 via " + w.run("ip", "route", "get", ADDRESS).split()[2])
    net.check_sum(1, address="10.99.1.1")
    status, _, err = net.agg.try_run(FPISA, "job", "add", 2, "--workers", ",".join(net.addresses), "--address", ADDRESS)
    assert status == 0 and err == ""
    status, _, err = net.agg.try_run(FPISA, "job", "add", 3, "--workers", net.addresses[0] + "," + net.addresses[0] + ":18001")
    assert status == 0 and err == ""


def test_foreign_address(lab):
    """An address that nobody answers for here is refused, unless it is said to be meant."""
    net = lab()
    net.load()
    argv = ["job", "add", 1, "--workers", ",".join(net.addresses), "--address"]
    for foreign in ("192.0.2.1", "10.99.1.77"):
        refused(net, [*argv, foreign], f"job 1: {foreign} is no address of this machine.*"
                f"ip address add {foreign}/32 dev lo, or give --foreign-address")
    refused(net, [*argv, "10.99.1.77", "--foreign-address"], "job 1: .*ADDR@DEV")
    argv[4] = ",".join(f"{a}@p{r}" for r, a in enumerate(net.addresses))
    status, out, err = net.agg.try_run(FPISA, *argv, "10.99.1.77", "--foreign-address")
    assert status == 0 and out == err == "" and net.json("job", "show", 1)["address"] == "10.99.1.77"
    mac = {d["ifname"]: d["address"] for d in json.loads(net.agg.run("ip", "-j", "link"))}
    for r, w in enumerate(net.worker):
        gateway = net.addresses[r].rsplit(".", 1)[0] + ".1"
        w.ip(f"route add 10.99.1.77 {'dev eth0' if r == 0 else f'via {gateway}'}")
        w.ip(f"neigh add 10.99.1.77 lladdr {mac[f'p{r}']} dev eth0")
    net.check_sum(1, address="10.99.1.77")


def test_job_list(lab):
    """Its columns are its JSON, by the names of job add's options; so is what job show adds."""
    net = lab()
    net.load()
    net.add_job(3, "--elements", 64, "--mode", "exact", "--clz", "lpm-byte", "--format", "mxint8")
    net.add_job(4, "--rounding", "nearest", "--fanout", "unicast", "--pipeline", "staged", "--window", 4, "--ports", 2)
    heads, *rows = net.fpisa("job", "list").splitlines()
    for row, job in zip(rows, net.json("job", "list")):
        job["live"], job["joined"] = len(job["live"]), len(job["joined"])
        shown = net.json("job", "show", job["job"])
        for head, text in zip(heads.split(), row.split(), strict=True):
            assert str(job[head]) == text, head
            assert head in ("live", "joined") or shown[head] == job[head]
        assert row.index(job["format"]) == heads.index("format")
    assert len(rows) == 2
    options = net.fpisa("help", "job", "add").replace("--foreign-address", "")
    assert {o.replace("-", "_") for o in re.findall(r"^  --(\S+)", options, re.M)} <= shown.keys()
    assert (shown["window"], shown["ports"], shown["pipeline"], shown["fanout"]) == (4, 2, "staged", "unicast")


def test_job_flags(lab):
    """Options without an argument: shown where they are, refused where they mean nothing."""
    net = lab()
    net.load()
    flags = {"big_endian": "big-endian", "reciprocal": "averages by reciprocal", "histogram": "histogram",
             "no_statistics": "no statistics"}
    for n, (key, text) in enumerate(flags.items()):
        net.add_job(n + 1, "--" + key.replace("_", "-"))
        shown = net.json("job", "show", n + 1)
        assert [shown[k] for k in flags] == [k == key for k in flags]
        line = [s for s in net.fpisa("job", "show", n + 1).splitlines() if s.startswith("mode")][0]
        assert [t in line for t in flags.values()] == [k == key for k in flags]
    net.add_job(5, "--big-endian", "--reciprocal", "--histogram", "--format", "bf16")
    assert [net.json("job", "show", 5)[k] for k in flags] == [True, True, True, False]
    for options, says in (("--format e4m3 --big-endian", "values of one byte have no byte order"),
                          ("--format mxint8 --big-endian", "values of one byte have no byte order"),
                          ("--format int32 --histogram", "discard nothing; leave --histogram out"),
                          ("--mode exact --histogram", "discard nothing; leave --histogram out"),
                          ("--no-statistics --histogram", "leave --histogram or --no-statistics out"),
                          ("--format int32 --mode fpisa-a", "integers have no modes; leave --mode out")):
        refused(net, add(net, *options.split(), job=9), "job 9: .*" + says)
    refused(net, add(net, "--histogram=yes", job=9), "doesn't allow an argument", 2, usage=True)


def test_histogram_refusals(lab):
    net = lab()
    refused(net, ["histogram", "1"], "not loaded|nothing is loaded|fpisa load")
    net.load()
    net.add_job(1)
    refused(net, ["histogram", "1"], "job 1: keeps no histogram; make it with --histogram")
    refused(net, ["histogram", "2"], "job 2: no such job; see fpisa job list")
    refused(net, ["histogram"], "histogram: give one job number", 2, usage=True)
    refused(net, ["histogram", "1", "2"], "histogram: give one job number", 2, usage=True)
    refused(net, ["histogram", "64"], "job: '64' is not a number from 0 to 63", 2, usage=True)


def test_slot_space(lab):
    """2048 entries, 2 x window a job: the last that fits is taken, the next refused, a freed place used."""
    net = lab()
    net.load()
    for job in range(4):
        net.add_job(job, "--window", 256)
    refused(net, add(net, "--window", "1", job=9), "window 1 needs 2 of 2048 slot entries, 2048 are taken")
    net.fpisa("job", "del", 2)
    refused(net, add(net, "--window", "512", job=9), "window 512 needs 1024 of 2048")
    net.add_job(9, "--window", 256)
    net.check_sum(9, 5000)
    net.check_sum(3, 5000)


def test_usage(lab):
    net = lab(workers=1)
    assert net.agg.try_run(FPISA)[0] == 2
    assert net.agg.try_run(FPISA, "frobnicate")[0] == 2
    assert net.agg.try_run(FPISA, "job")[0] == 2
    assert net.agg.try_run(FPISA, "status", "--frob")[0] == 2
    assert re.match(r"fpisa \d+\.\d+\.\d+\n$", net.fpisa("--version"))
    text = net.fpisa("help")
    for verb in "load, unload, status, job add, job list, job show, job del, stats, slots, demo".split(", "):
        assert re.search(rf"^  {verb} +\w", text, re.M)
        assert f"usage: fpisa {verb}" in net.fpisa("help", *verb.split())


def test_interface_vanishes(lab):
    """A port that goes away takes its attachment along; what is left can be unloaded."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, workers=net.addresses[:2])
    net.agg.ip("link del p2")
    assert [i["name"] for i in net.json("status")["interfaces"]] == ["p0", "p1"]
    net.check_sum(1, ranks=[0, 1])
    net.fpisa("unload")
    assert not os.path.exists(PIN)

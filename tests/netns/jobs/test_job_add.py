# SPDX-License-Identifier: GPL-2.0-only
"""Test `fpisa job add`: refused arguments, after which no job exists, then addresses, flags, and the number of jobs that fit."""
import json

from doctor import fixes
from lab import ADDRESS, FPISA, PIN
from refusals import add, refused
from shared import opened

BAD_JOBS = [
    (["--elements", "33"], "--elements: 33 is not a multiple of 32", 2),
    (["--elements", "864"], "--elements: '864' is not a number from 32 to 832", 2),
    (["--elements", "0"], "--elements: '0' is not a number", 2),
    (["--window", "48"], "--window: 48 is not a power of two", 2),
    (["--ports", "3"], "--ports: 3 is not a power of two", 2),
    (["--ports", "32"], "--ports: '32' is not a number from 1 to 16", 2),
    (["--ports", "8", "--window", "4"], "job 1: 8 ports are too many for a window of 4 slots; give at most --ports 4", 1),
    (["--window", "4096"], "--window: '4096' is not a number from 1 to 1024", 2),
    (["--mode", "exactly"], "--mode: 'exactly' is not fpisa or fpisa-a", 2),
    (["--rounding", "up"], "--rounding: 'up' is not", 2),
    (["--pipeline", "both"], "--pipeline: 'both' is not", 2),
    (["--clz", "table"], "--clz: 'table' is not", 2),
    (["--format", "fp24"], "--format: 'fp24' is not", 2),
    (["--fanout", "broadcast"], "--fanout: 'broadcast' is not", 2),
    (["--group", "10.0.0.1"], "--group: 10.0.0.1 is not a multicast address", 2),
    (["--group", "239.1.1.1", "--fanout", "unicast"], "--group requires multicast", 2),
    (["--token", "xyz"], "--token: 'xyz' is not 1 to 16 hexadecimal digits", 2),
    (["--debug-faults", "drop=0.1,loss=0.1"], "--debug-faults: 'loss=0.1' is not drop=P, duplicate=P, reorder=P,", 2),
    (["--debug-faults", "drop"], "--debug-faults: give drop= once, with a number", 2),
    (["--debug-faults", "drop=0.1,drop=0.2"], "--debug-faults: give drop= once, with a number", 2),
    (["--debug-faults", "drop=1"], "--debug-faults: '1' is not a number from 0 to 0.9", 2),
    (["--debug-faults", "seed=4294967296"], "--debug-faults: seed: '4294967296' is not a number from 0 to 4294967295", 2),
    (["--debug-faults", ""], "--debug-faults: the list is empty; name the faults, as in drop=0.01,delay=0.01,seed=1", 2),
    (["--address", "10.99.300.1"], "--address is given twice", 2),
    (["--token", "0"], "--token: 0 means no token; leave this option out, or give another token", 2),
    (["--elements", "512"], "make a frame of 2152 bytes, but the MTU of p0 is 1500; try --elements 320", 1),
]


def test_bad_jobs(lab):
    net = lab()
    net.load()
    for options, says, status in BAD_JOBS:
        refused(net, add(net, *options), says, status, usage=status == 2)
    for mtu, fmt, says in ((120, "fp32", "the MTU of p0 is 120, too small for any job of this format: the fewest elements, 32, "
                                         "make a frame of 232 bytes; raise the MTU"),
                           (300, "fp32", "try --elements 32$"), (200, "mxint8", "try --elements 64$")):
        net.agg.ip(f"link set p0 mtu {mtu}")
        refused(net, add(net, "--format", fmt, "--elements", 352), says)
    net.agg.ip("link set p0 mtu 1500")
    refused(net, add(net, job=64), "job: '64' is not a number from 0 to 63", 2, usage=True)
    a, b = net.addresses
    for workers, says, status in [
            (f"{a},{a}", f"ranks 0 and 1 both have address {a}:18000", 1),
            (f"{a},{b}:1,{a}", f"ranks 0 and 2 both have address {a}:18000", 1),
            (f"{a},10.1.2.300", "'10.1.2.300' is not an IPv4 or IPv6 address", 2),
            (f"{a}@nosuch0", "nosuch0: no such interface", 1),
            (f"{a},239.0.0.1", "239.0.0.1 is not the address of a host", 2),
            ("10.99.1.1", "worker 10.99.1.1 is an address of this machine", 1),
            (ADDRESS, f"job 1: rank 0 has the aggregator's address {ADDRESS}", 1),
            (f"{a},10.99.2.255", "worker 10.99.2.255 is the broadcast address of a network", 1),
            (f"{a}@p0,10.99.2.255@p1", "worker 10.99.2.255 is the broadcast address of a network", 1),
            ("192.0.2.1", "worker 192.0.2.1: cannot find a route: .*unreachable; add a route", 1),
            (",".join(f"10.99.1.{i}" for i in range(2, 67)), "--workers: more than 64", 2)]:
        refused(net, add(net, workers=workers), says, status, usage=status == 2)
    refused(net, add(net), "Permission denied; run as root", uid=65534)
    for verb in ("job del 1", "job show 1", "job shrink 1 0", "stats 1", "slots 1"):
        refused(net, verb.split(), "job 1: no such job; see fpisa job list")
    net.add_job(1)
    refused(net, add(net), "job 1 already exists; run fpisa job del 1")
    refused(net, ["job", "shrink", "1", "5"], "these ranks are not live: 5")
    refused(net, ["job", "shrink", "1", "0", "1"], "no rank would be left")
    net.check_sum(1)


def test_job_made_but_not_shown(lab):
    """Output that cannot be written is an error, but the job exists."""
    net = lab()
    net.load()
    with open("/dev/full", "w") as full:
        status, _, err = net.agg.try_run(FPISA, *add(net, "--json"), stdout=full)
    assert (status, err) == (1, "fpisa: job 1 is created; cannot write to stdout: No space left on device\n")
    assert [j["job"] for j in net.json("job", "list")] == [1]


def test_done_but_not_shown(lab, tmp_path):
    """If a verb has made a change and cannot write its report, its error says that the change was made."""
    net = lab()
    with open(tmp_path / "conf", "w") as f:
        f.write(f"[interface p0]\n[job 3]\nworkers = {','.join(net.addresses)}\n")
    for argv, made in ((("load", "p0", "--json"), "load"), (("upgrade", "--json"), "upgrade"), (("job", "del", 1, "--json"), "job del"),
                       (("job", "shrink", 2, 1, "--json"), "job shrink"), (("job", "shrink", 3, 1), "job shrink"),
                       (("query", "del", 4, "--json"), "query del"), (("unload", "--json"), "unload"),
                       (("config", "apply", tmp_path / "conf"), "config apply"), (("config", "apply", tmp_path / "conf", "--json"), "config apply"),
                       (("unload", "p0"), "unload")):
        if made == "upgrade":
            for job in 1, 2, 3:
                net.add_job(job)
            net.fpisa("query", "add", 4, "--kind", "table", "--limit", 9, "--workers", net.addresses[0], "--master", net.addresses[1],
                      "--address", ADDRESS)
        with open("/dev/full", "w") as full:
            status, _, err = net.agg.try_run(FPISA, *argv, stdout=full)
        assert status == 1 and err.endswith(f"fpisa: {made} is done; stdout: No space left on device\n"), (argv, err)
    assert "no datapath is loaded" in net.agg.try_run(FPISA, "job", "list")[2]


def test_address_of_several_interfaces(lab):
    """The default address is the address of the interface towards the first worker. If other workers are behind other interfaces, one
    warning is printed."""
    net = lab(workers=3)
    net.load()
    status, out, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", ",".join(net.addresses))
    assert status == 0 and out == "" and len(err.splitlines()) == 1
    assert err.startswith("fpisa: warning: job 1: its address is 10.99.1.1, the source address of the route to the first worker, but "
                          "the route to worker 10.99.2.3 has 10.99.2.1; ")
    for w in net.worker[1:]:
        w.ip("route add 10.99.1.1 via " + w.run("ip", "route", "get", ADDRESS).split()[2])
    net.check_sum(1, address="10.99.1.1")
    status, _, err = net.agg.try_run(FPISA, "job", "add", 2, "--workers", ",".join(net.addresses), "--address", ADDRESS)
    assert status == 0 and err == ""
    status, _, err = net.agg.try_run(FPISA, "job", "add", 3, "--workers", net.addresses[0] + "," + net.addresses[0] + ":18001")
    assert status == 0 and err == ""


def test_foreign_address(lab):
    """An address that no interface of this host has is refused, unless an option confirms it."""
    net = lab()
    net.load()
    argv = ["job", "add", 1, "--workers", ",".join(net.addresses), "--address"]
    for foreign in ("192.0.2.1", "10.99.1.77"):
        refused(net, [*argv, foreign], f"job 1: {foreign} is not an address of this machine.*"
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


def test_job_flags(lab):
    """Options without an argument are shown if given, and refused where they do not apply."""
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
    for options, says in (("--format e4m3 --big-endian", "values of one byte do not have a byte order"),
                          ("--format mxint8 --big-endian", "values of one byte do not have a byte order"),
                          ("--format int32 --histogram", "discard nothing, so a histogram would be empty; leave --histogram out"),
                          ("--mode exact --histogram", "discard nothing, so a histogram would be empty; leave --histogram out"),
                          ("--no-statistics --histogram", "leave --histogram or --no-statistics out"),
                          ("--format int32 --mode fpisa-a", "int32 does not have modes; leave --mode out")):
        refused(net, add(net, *options.split(), job=9), "job 9: .*" + says)
    refused(net, add(net, "--histogram=yes", job=9), "doesn't allow an argument", 2, usage=True)


def test_trees_that_are_refused(lab):
    """Each refusal of a job of a tree says what to change, and the job that it then names is created."""
    net = lab()
    net.load()
    net.agg.ip("route add 192.0.2.1 dev p1")
    leaf, exact = ["--parent", "192.0.2.1/3"], ["--mode", "exact"]
    for options, says in ((leaf, "a tree needs mode exact, at all leaves and at their parent; give --mode exact"),
                          (["--leaves"], "a tree needs mode exact"),
                          ([*leaf, *exact, "--leaves"], "leave --leaves or --parent out"),
                          ([*leaf, *exact, "--pipeline", "staged"], "leave --pipeline out"),
                          ([*leaf, *exact, "--vlan", "7"], "the datapath does not support trees in a VLAN"),
                          ([*exact, "--leaves", "--fanout", "multicast"], "give --fanout unicast"),
                          (["--parent", f"{ADDRESS}/3", *exact], f"the parent {ADDRESS} is this machine.*different numbers; end --parent with"),
                          (["--parent", f"{ADDRESS}/3/9", *exact], f"the parent {ADDRESS} is this machine.*different numbers"),
                          (["--parent", "192.0.2.1/3/8", *exact], "the parent 192.0.2.1 is another machine.*or take number 8")):
        refused(net, add(net, *options, job=9), "job 9: .*" + says)
    refused(net, add(net, "--parent", "192.0.2.1", *exact, job=9), "rank at the parent: ADDR.:PORT./RANK", 2, usage=True)
    refused(net, add(net, "--parent", "192.0.2.1/64", *exact, job=9), "--parent: rank", 2, usage=True)
    refused(net, add(net, "--parent", "192.0.2.1/3/64", *exact, job=9), "--parent: job", 2, usage=True)
    net.add_job(9, *leaf, *exact)
    shown = net.json("job", "show", 9)
    assert shown["parent"] == "192.0.2.1:18000/3" and not shown["leaves"]
    net.add_job(8, "--leaves", *exact)
    assert net.json("job", "show", 8)["fanout"] == "unicast" and net.json("job", "show", 8)["leaves"]


def test_route_to_a_parent(lab):
    """A leaf's parent is found by its route, and its interface has the checks of a worker's."""
    net = lab()
    net.load()
    net.agg.ip("route add 192.0.2.1 dev p1")

    def leaf(*more, parent="192.0.2.1/3", worker=net.addresses[0], address=ADDRESS):
        return ["job", "add", 9, "--workers", worker, "--address", address, "--mode", "exact", "--parent", parent, *more]

    for parent, says in (("10.99.2.1", "the parent 10.99.2.1 is this machine"),
                         ("10.99.2.255", "the parent 10.99.2.255 is the broadcast address of a network"),
                         ("198.51.100.1", "cannot find a route to the parent 198.51.100.1: .*unreachable; add a route")):
        refused(net, leaf(parent=f"{parent}/3"), "job 9: " + says)
    refused(net, leaf("--foreign-address", worker=f"{net.addresses[0]}@p0", address="192.0.2.9"),
            "job 9: .*from 192.0.2.9 to the parent; a leaf's address must be an address of this machine, on an interface outside any VRF")
    for tree in leaf(), add(net, "--mode", "exact", "--leaves", job=9):
        refused(net, [*tree, "--format", "bf16", "--elements", 672],
                "672 elements make a frame of 2792 bytes, but the MTU of p0 is 1500; try --elements 320")
    net.agg.ip("link set p1 mtu 1000")
    refused(net, leaf(), "the MTU of p1 is 1000; try --elements 224")
    net.agg.ip("link set p1 mtu 1500")
    _, _, err = net.agg.try_run(FPISA, *leaf("--fanout", "unicast", worker=f"{ADDRESS}:18001"))
    assert "p1 is in native mode, which cannot send to lo, so rank 0 misses results" in err
    net.fpisa("job", "del", 9)
    _, _, err = net.agg.try_run(FPISA, *leaf("--fanout", "unicast", worker=net.addresses[1], parent=f"{ADDRESS}/3/8"))
    assert "p1 is in native mode, which cannot send to lo, so the parent misses results" in err
    net.fpisa("job", "del", 9)
    net.fpisa("unload", "p1")
    _, _, err = net.agg.try_run(FPISA, *leaf())
    assert "p1: this datapath is not loaded on it, so job 9 does not receive frames there; run fpisa load p1" in err
    assert fixes(net.agg, [], "job 9", "parent", says="behind p1: this datapath is not loaded on it") == "fpisa load p1"


def test_slot_space(lab):
    """A job takes 2 x window of 2048 entries. The last job that fits is accepted, the next is refused, and freed slots are used again."""
    net = lab()
    net.load()
    for job in range(4):
        net.add_job(job, "--window", 256)
    refused(net, add(net, "--window", "1", job=9), "window 1 needs 2 of 2048 slot entries, but 2048 are taken")
    net.fpisa("job", "del", 2)
    refused(net, add(net, "--window", "512", job=9), "window 512 needs 1024 of 2048")
    net.add_job(9, "--window", 256)
    net.check_sum(9, 5000)
    net.check_sum(3, 5000)


def test_what_a_deleted_job_leaves(lab):
    """After a job is deleted, late contributions find neither a generation nor a port. A lock that is never released does not stop a later
    job."""
    net = lab()
    net.load()
    net.add_job(1)
    net.check_sum(1, 5000)
    base = net.json("job", "show", 1)["slot_base"]
    with opened(PIN + "/fpisa_sessions") as sessions, opened(PIN + "/fpisa_slots") as slots, opened(PIN + "/fpisa_fanout") as fanout:
        assert any(sessions.get(1))
        net.fpisa("job", "del", 1)
        assert not any(sessions.get(1))
        ports = fanout.get(1)
        rows = net.bpftool("map", "dump", "id", int.from_bytes(ports[:4], "little"))
        assert all("error" in row["value"] for row in rows)
        sessions.put(1, (1).to_bytes(8, "little") + bytes(sessions.value_bytes - 8))
        slots.put(base, (1).to_bytes(8, "little") + bytes(range(1, slots.value_bytes - 7)))
        net.add_job(1)
        assert net.json("job", "show", 1)["slot_base"] == base
        assert not any(slots.get(base)) and fanout.get(1) == ports
    net.check_sum(1, 5000)

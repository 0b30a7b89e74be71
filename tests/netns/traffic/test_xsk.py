# SPDX-License-Identifier: GPL-2.0-only
"""Test workers over AF_XDP together with workers over UDP: refused arguments, and traffic that AF_XDP must not take. test_demo.py checks
the bits of AF_XDP against the oracle."""
import json
import os
import sys
import time

import pytest

from lab import BPFFS, FPISA, LIBRARY, PORT, WORKER, endpoint, go_on, read_all, read_answers, wait_until
from routers import reach, router
from worker import UDP, XSK

EPERM, ENXIO, EBUSY, EMSGSIZE, ENETDOWN, ENOBUFS = 1, 6, 16, 90, 100, 105
NOBODY = 65534


def attached(ns, dev="eth0"):
    """Return whether the device has an XDP program."""
    link, = json.loads(ns.run("ip", "-j", "link", "show", dev))
    return "xdp" in link


def answers_echo(net, ns, address):
    """Return whether a datagram from the aggregator reaches a port that no worker has, and whether the answer reaches the aggregator."""
    with ns.socket(net.ipv6) as there, net.agg.socket(net.ipv6) as here:
        there.bind((address, 5555))
        here.settimeout(5)
        there.settimeout(5)
        here.sendto(b"ping", (address, 5555))
        data, sender = there.recvfrom(100)
        there.sendto(data + b"pong", sender)
        return here.recv(100) == b"pingpong"


@pytest.mark.families(spread=True)
def test_beside_udp_and_other_traffic(lab):
    """Ranks of both transports sum in one job. When the handle is closed, the interface is as before."""
    net = lab(workers=3)
    net.load()
    net.add_job(1)
    step = {"count": 100000, "kind": "integers"}
    procs = [net.start(r, 1, {"go": True}, step, **({"transport": XSK} if r < 2 else {})) for r in range(3)]
    wait_until("the program", lambda: attached(net.worker[0]) and attached(net.worker[1]))
    assert not attached(net.worker[2])
    assert answers_echo(net, net.worker[0], net.addresses[0])
    wait_until("all ranks", lambda: net.json("job", "show", 1)["generation"])
    go_on(*procs)
    for answer in net.check_answers(procs, 3, 100000):
        assert answer["retransmits"] < 200  # half of the chunks
    assert not attached(net.worker[0])


def echoes(net, ns, address):
    """Return whether a datagram from the aggregator's address and port to the workers' port arrives at this host."""
    with ns.socket(net.ipv6) as there, net.agg.socket(net.ipv6) as here:
        there.bind((address, PORT))
        here.bind((net.address, PORT))
        there.settimeout(10)
        here.sendto(b"not ours", (address, PORT))
        try:
            return there.recv(100) == b"not ours"
        except TimeoutError:
            return False


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("fanout", ["unicast", "multicast"])
def test_another_host_behind_it(lab, fanout):
    """A host that is routed through the worker's host gets the aggregator's frames between the same ports, and the results of its own job.
    Results of the worker's job never come to the UDP socket."""
    net = lab(workers=1)
    net.load()
    net.add_job(1, "--fanout", fanout)
    host, inner = router(net.worker[0]), net.netns()
    host.ip(f"link add c0 type veth peer name eth0 netns {inner.path}", f"addr add {net.network(50, 1)} dev c0", "link set c0 up")
    inner.ip(f"addr add {net.network(50, 2)} dev eth0", "link set eth0 up")
    reach(net, inner, "default", net.host(50, 1))
    reach(net, net.agg, net.network(50, 0), net.addresses[0])
    net.worker.append(inner)
    net.add_job(2, "--fanout", "unicast", workers=[net.host(50, 2)])
    step = {"count": 200000, "kind": "integers"}
    p = net.start(0, 1, {"go": True}, step, transport=XSK)
    wait_until("the program", lambda: attached(host) and net.json("job", "show", 1)["generation"])
    before = host.udp_counters(net.ipv6)["InDatagrams"]
    assert echoes(net, inner, net.host(50, 2))
    net.check_answers([net.start(1, 2, {"count": 1000, "kind": "integers"})], 1, 1000)
    go_on(p)
    net.check_answers([p], 1, 200000)
    assert host.udp_counters(net.ipv6)["InDatagrams"] - before < 200


@pytest.mark.families(spread=True)
def test_next_generation(lab):
    """After a rejoin the same socket serves the next generation."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    steps = {"count": 3000, "kind": "integers"}, {"rejoin": True}, {"count": 3000, "kind": "integers"}
    first, second = net.work(1, *steps, transport=XSK)
    assert first[0]["digest"] == first[2]["digest"] == second[2]["digest"]
    assert first[2]["generation"] > first[0]["generation"]


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("change", ["fanout", "group"])
@pytest.mark.parametrize("transport", [UDP, XSK])
def test_job_made_anew(lab, transport, change):
    """If the job is created again with another fan-out, results arrive on another path. Over AF_XDP a rejoin does not need the privilege
    that connecting needed."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    step = {"count": 20000, "kind": "integers"}
    steps = [step, *([{"nobody": True}] if transport == XSK else []), {"go": True}, {"rejoin": True}, step, step]
    procs = [net.start(r, 1, *steps, timeout_ms=20000, transport=transport) for r in range(2)]
    for p in procs:
        assert [json.loads(p.stdout.readline())["rc"] for _ in range(2)] == [0, 0]
    net.fpisa("job", "del", 1)
    net.add_job(1, *{"fanout": ("--fanout", "unicast"), "group": ("--group", "ff15::123" if net.ipv6 else "239.1.2.3")}[change])
    go_on(*procs)
    for rejoined, *sums in map(read_answers, procs):
        assert rejoined["rc"] == 0 and sums[0]["digest"] == sums[1]["digest"]


def move(net):
    """Route frames between the aggregator and the worker through eth1, and create the job again for this route."""
    reach(net, net.worker[0], net.address, net.host(9, 1), "src", net.addresses[0])
    reach(net, net.agg, net.addresses[0], net.host(9, 2))
    assert answers_echo(net, net.worker[0], net.addresses[0])
    net.fpisa("job", "del", 1)
    net.add_job(1)
    return net.json("job", "show", 1)["generation"]


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("root", [True, False], ids=["root", "nobody"])
def test_another_interface(lab, root):
    """A new route needs a new socket. A user who may not open the socket gets the error before any rank waits for this rank."""
    net = lab(workers=1)
    net.agg.ip(f"link add q0 type veth peer name eth1 netns {net.worker[0].path}", f"addr add {net.network(9, 1)} dev q0",
               "link set q0 up")
    net.worker[0].ip(f"addr add {net.network(9, 2)} dev eth1", "link set eth1 up")
    net.worker[0].gro_on("eth1")
    net.ports.append("q0")
    net.load()
    net.add_job(1)
    step = {"count": 3000, "kind": "integers"}
    p = net.start(0, 1, step, *([] if root else [{"nobody": True}]), {"go": True}, {"rejoin": True}, step, {"go": True},
                  transport=XSK)
    first = [json.loads(p.stdout.readline()) for _ in range(2)][1]
    assert attached(net.worker[0]) and not attached(net.worker[0], "eth1")
    before = move(net)
    go_on(p)
    if root:
        again = [json.loads(p.stdout.readline()) for _ in range(2)][1]
        assert attached(net.worker[0], "eth1") and not attached(net.worker[0])
        go_on(p)
        assert read_answers(p) == [] and again["digest"] == first["digest"]
    else:
        (answer,), status, _ = read_all(p)
        assert status == 1 and answer["rc"] == -EPERM and "root" in answer["error"]
        assert net.json("job", "show", 1)["generation"] == before


@pytest.mark.families(spread=True)
def test_interface_is_free_late(lab):
    """If another program leaves the interface while the worker waits for its turn, no frame is lost, and the new socket sends and receives
    normally."""
    net = lab(workers=2)
    net.load()
    net.add_job(1, "--fanout", "unicast")
    host, step = net.worker[0], {"count": 100000, "kind": "integers"}
    host.run(FPISA, "load", "eth0", "--pin", BPFFS + "/other")
    procs = [net.start(0, 1, step, timeout_ms=20000, transport=XSK), net.start(1, 1, step, timeout_ms=20000)]
    json.loads(procs[1].stdout.readline())  # all ranks have joined
    host.ip("link set eth0 xdp off")
    for answer in net.check_answers(procs, 2, 100000):
        assert answer["retransmits"] < 200  # half of the chunks
    host.run(FPISA, "unload", "--pin", BPFFS + "/other")


@pytest.mark.families(spread=True)
def test_interface_is_taken(lab):
    net = lab(workers=1)
    net.load()
    net.add_job(1)
    net.add_job(2, workers=[endpoint(net.addresses[0], 18001)])
    holder = net.start(0, 1, {"sleep": 30}, transport=XSK)
    wait_until("the program", lambda: attached(net.worker[0]))
    (answer,), status, _ = read_all(net.start(0, 2, transport=XSK, local_port=18001))
    assert status == 1 and answer["rc"] == -EBUSY
    assert "eth0" in answer["error"] and "another worker" in answer["error"]
    holder.kill()
    wait_until("the kernel took the program off", lambda: not attached(net.worker[0]))
    read_answers(net.start(0, 2, {"count": 100, "kind": "integers"}, transport=XSK, local_port=18001))


def cpu_seconds(pid):
    """Return the CPU time of all threads."""
    with open(f"/proc/{pid}/stat") as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("how", ["blocking", "driving", "engine", "idle"])
def test_interface_that_goes(lab, how):
    """A caller or a progress thread that watches the socket of a vanished interface does not spin. It detects the end long before its
    deadline."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    step, progress = {"count": 1000, "kind": "integers"}, how != "blocking"
    last = {"sleep": 4} if how == "idle" else {**step, **({"compute": 4, "idle": True} if how == "engine" else {})}
    p = net.start(0, 1, step, last, step, timeout_ms=20000, transport=XSK, progress=progress)
    other = net.start(1, 1, step, {"sleep": 60}, timeout_ms=20000)
    assert [json.loads(p.stdout.readline())["rc"] for _ in range(2)] == [0, 0]
    time.sleep(1)
    net.worker[0].ip("link del eth0")
    before = cpu_seconds(p.pid)
    time.sleep(2)
    spent = cpu_seconds(p.pid) - before if p.poll() is None else 0
    answers, status, _ = read_all(p)
    other.kill()
    print(f"CPU time in 2 s: {spent:.2f} s;", answers[-1]["error"])
    assert spent < 0.2 and status == 1
    assert answers[-1]["rc"] in (-ENETDOWN, -ENXIO) and answers[-1].get("seconds", 0) < 15, answers[-1]


@pytest.mark.families(spread=True)
def test_without_privilege(lab):
    net = lab(workers=1)
    net.load()
    net.add_job(1)
    plan = json.dumps({"options": {"transport": XSK}})
    before = net.json("job", "show", 1)["generation"]
    p = net.worker[0].spawn(sys.executable, "-B", WORKER, LIBRARY, net.address, 1, plan,
                            uid=NOBODY)
    (answer,), status, _ = read_all(p)
    assert status == 1 and answer["rc"] == -EPERM
    assert "root" in answer["error"] and "udp" in answer["error"]
    # the other rank did not have to wait
    assert net.json("job", "show", 1)["generation"] == before


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("caps", ["net_raw,net_admin,bpf", "net_raw,net_admin,bpf,ipc_lock"], ids=["limit", "no_limit"])
def test_capabilities(lab, caps):
    """Three capabilities suffice up to the limit of locked memory. If memory is lacking, the error names the limit."""
    net = lab(workers=1)
    net.load()
    net.add_job(1, "--window", 64)
    net.add_job(2, "--window", 256)
    each = ",".join(["-all", *("+" + c for c in caps.split(","))])
    plan = json.dumps({"options": {"transport": XSK}, "steps": [{"count": 1000, "kind": "integers"}]})
    command = ["prlimit", f"--memlock={1 << 20}", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
               f"--inh-caps={each}", f"--ambient-caps={each}", sys.executable, "-B", WORKER, LIBRARY, net.address]
    read_answers(net.worker[0].spawn(*command, 1, plan))
    answers, status, _ = read_all(net.worker[0].spawn(*command, 2, plan))
    if "ipc_lock" in caps:
        assert status == 0
    else:
        assert answers[0]["rc"] == -ENOBUFS and "ulimit -l" in answers[0]["error"]


@pytest.mark.families(spread=True)
def test_no_room_for_the_frame(lab):
    """As over UDP, a chunk that makes a packet larger than the MTU gives an error. The call does not hang."""
    net = lab(workers=1, mtu=3000)
    net.load()
    net.add_job(1, "--elements", 640)
    net.worker[0].ip("link set eth0 mtu 1500")
    (_, answer), status, _ = read_all(net.start(0, 1, {"count": 640, "kind": "integers"}, transport=XSK))
    assert status == 1 and answer["rc"] == -EMSGSIZE and "MTU" in answer["error"]


@pytest.mark.families(spread=True)
def test_results_at_another_queue(lab):
    """A process that polls also gets frames of other queues than the socket's queue. The kernel passes these frames to the UDP socket."""
    net = lab(workers=1, queues=2)
    net.load()
    net.add_job(1, "--window", 8)
    for cpu in range(2):
        for poll in True, False:
            step = {"count": 20000, "kind": "integers", "poll": poll}
            net.check_answers([net.start(0, 1, step, cpu=cpu, transport=XSK, timeout_ms=3000)], 1, 20000)


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("leave", ["fork", "spawn"])
@pytest.mark.parametrize("transport", [UDP, XSK])
def test_fork(lab, transport, leave):
    """A child process, or a program started while the handle was open, does not keep the port or the queue of the handle."""
    net = lab(workers=1)
    net.load()
    net.add_job(1)
    step = {"count": 3000, "kind": "integers"}
    _, before, _, after = read_answers(net.start(0, 1, step, {leave: True}, {"reconnect": True}, step,
                                                 transport=transport))
    assert before["digest"] == after["digest"] and after["generation"] > before["generation"]

# SPDX-License-Identifier: GPL-2.0-only
"""With `fpisa load --cpus`, the receiving CPU passes the frames of each slot to the CPU that owns the slot."""
import hashlib
import json
import os
import re
import struct
import subprocess
import sys

import pytest

import worker
from doctor import examine
from lab import ADDRESS, COMMAND_S, FPISA, PIN, PORT, TOP, read_answers, wait_until

STAGED = ("--pipeline", "staged", "--clz", "lpm")
STEER = ("--cpus", "0,1")

two_cpus = pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1")


def steering(net):
    """Return the frames that were sent to each CPU and taken there, once no frame is in flight."""
    def settled():
        rows = {r["cpu"]: r for r in net.json("stats")["steering"]}
        return rows if all(r["left"] == 0 for r in rows.values()) else None
    return wait_until("empty queues", settled)


def taken_by(net, job):
    """Return {CPU: frames of the job that the datapath processed on this CPU}."""
    dump = net.bpftool("map", "dump", "pinned", PIN + "/fpisa_counters")
    cpus = [v for e in dump if e["formatted"]["key"] == job for v in e["formatted"]["values"]]
    return {v["cpu"]: v["value"]["packets"] for v in cpus}


def refused(net, says, *argv):
    status, out, err = net.agg.try_run(FPISA, *argv)
    lines = [x for x in err.splitlines() if not x.startswith("usage:")]
    assert status and out == "" and len(lines) == 1 and re.search(says, lines[0]), (status, out, err)


def test_one_cpu(lab):
    """With one CPU all frames go through the map, on any machine."""
    net = lab()
    net.load("--cpus", 0)
    net.add_job(1, *STAGED)
    net.add_job(2, "--mode", "exact", "--ports", 4)
    for job in (1, 2):
        net.check_sum(job, 5000)
        c = net.counters(job, PIN)
        assert c["v_result"] == 20 and c["v_busy"] == c["missed_tail_calls"] == 0
    row = steering(net)[0]
    assert row["sent"] == row["taken"] == sum(net.counters(job, PIN)["packets"] for job in (1, 2))


@two_cpus
def test_sums(lab):
    """Staged and fused jobs and a job of another family share two CPUs. No job waits for the slot of another job."""
    net = lab(workers=3)
    net.load(*STEER)
    status = net.json("status")
    assert status["cpus"] == [0, 1] and status["cpu_queue"] == 4096
    assert "steering    to CPUs 0,1" in net.fpisa("status")
    assert {(i["name"], i["mode"]) for i in status["interfaces"]} == {(p, "native") for p in net.ports}
    net.add_job(1, *STAGED)
    net.add_job(2)
    net.add_job(3, "--mode", "exact", "--fanout", "unicast")
    for job in (1, 2, 3):
        net.check_sum(job, 10000)
    seen = steering(net)
    c = {job: net.counters(job, PIN) for job in (1, 2, 3)}
    assert all(x["v_result"] == 40 and x["v_busy"] == x["missed_tail_calls"] == 0 for x in c.values())
    assert c[1]["mau0"] == c[1]["mau4"] == c[2]["fused"] == 120
    # There are 40 chunks of 3 ranks in 3 jobs, half of them in odd slots. HELLOs go to the first CPU.
    assert seen[1]["sent"] == seen[1]["taken"] >= 180 and seen[0]["sent"] == seen[0]["taken"] >= 180 + 9
    assert sum(r["sent"] for r in seen.values()) == sum(x["packets"] for x in c.values())


@two_cpus
@pytest.mark.parametrize("cpus", ["0,1", "1,0", "1"])
def test_a_slot_has_one_cpu(lab, cpus):
    """A window of one is slot 0 in both versions, so all frames go to the first CPU of the list."""
    net = lab()
    net.load("--cpus", cpus)
    net.add_job(1, "--window", 1)
    net.add_job(2, "--window", 2)
    net.check_sum(1, 5000)
    first = int(cpus.split(",")[0])
    packets = taken_by(net, 1)
    assert packets[first] == sum(packets.values()) >= 2 * 20
    net.check_sum(2, 5000)
    packets = taken_by(net, 2)
    if cpus == "1":
        assert packets[1] == sum(packets.values())
    else:
        assert packets[1 - first] >= 20 and packets[first] >= 20


@two_cpus
def test_answers_of_a_parent(lab):
    """The frames that a leaf gets from its parent go to the CPU that owns their slot."""
    net = lab()
    net.load(*STEER)
    net.add_job(1, "--mode", "exact", "--parent", f"{net.addresses[1]}/0", workers=net.addresses[:1])
    sent = {0: 0, 1: 0}
    with net.worker[1].socket() as s:
        for kind, slot in ((4, 2), (5, 3), (6, 6), (6, 4), (2, 0)):
            s.sendto(struct.pack("<2sBBIIIIHH", b"FP", 3, kind, 0, 1, 1, slot, 0, 32) + bytes(52), (ADDRESS, PORT))
            sent[(slot >> 1) % 2] += 1
    wait_until("the frames", lambda: net.counters(1, PIN)["v_parent"] == 5)
    assert taken_by(net, 1) == {**taken_by(net, 1), **sent}


@two_cpus
@pytest.mark.parametrize("options", [
    "", "--pipeline staged --clz lpm", "--mode exact --format e4m3", "--op avg --fanout unicast", "--transport xsk",
    "--window 4 --drop 0.05 --duplicate 0.1 --reorder 0.1", *[pytest.param(o, marks=pytest.mark.long) for o in (
        "--mode fpisa-a", "--mode fpisa64 --format bf16", "--format fp64 --pipeline staged", "--format mxint8",
        "--elements 832 --big-endian")]])
def test_bits(lab, options):
    """Each element equals the oracle's element."""
    out = lab(workers=0).demo("--workers", 4, "--vector", 20001, *STEER, *options.split())
    assert out["cpus"] == "0,1" and out["busy"] == 0


@two_cpus
def test_what_is_not_ours_passes(lab):
    """Foreign frames pass at the device, and no foreign frame goes to the queue of a CPU."""
    net = lab()
    net.load(*STEER)
    net.add_job(1)
    other = "10.99.1.1"	 # an address of the aggregator, but not of the job
    ours = struct.pack("<2sBBBBBBI", b"FP", 1, 3, 0, 0, 1, 1, 1) + bytes(64)
    net.echo(ADDRESS, 0, b"hello", b"FP" + bytes(200))
    net.echo(ADDRESS, PORT, b"x", bytes(1400))
    net.echo(other, PORT, ours, ours + bytes(range(256)) * 4)
    assert net.counters(64, PIN)["v_not_ours"] >= 4 and net.counters(1, PIN)["v_wrong_destination"] == 2
    assert [r["sent"] for r in net.json("stats")["steering"]] == [0, 0]
    net.check_sum(1)


@two_cpus
def test_bad_frames_are_dropped(lab):
    """Bad frames are dropped by the same checks, and counted under the same reasons, as without steering."""
    net = lab()
    net.load(*STEER)
    net.add_job(1)
    with net.worker[0].socket() as s:
        for text in (b"FP", b"FP" + bytes(20), b"FP" + bytes(74)):
            s.sendto(text, (ADDRESS, PORT))

    def drops():
        return [net.counters(64, PIN)[v] for v in ("v_truncated", "v_no_job")]
    wait_until("drops", lambda: drops() == [2, 1])
    assert net.counters(0, PIN)["packets"] == 0


@two_cpus
def test_full_queue(lab):
    """If only one frame may wait, further frames are dropped and counted, and their workers retransmit them."""
    net = lab(workers=3)
    net.load("--cpus", "0,1", "--cpu-queue", 1)
    net.add_job(1, "--window", 8)
    net.check_sum(1, 20000, timeout_ms=60000)
    rows = net.json("stats")["steering"]
    assert all(r["sent"] - r["taken"] == r["left"] for r in rows)
    left = sum(r["left"] for r in rows)
    assert 0 < left and net.counters(1, PIN)["retransmissions"] > 0
    assert "dropped because it was full" in re.sub(r"\s+", " ", net.fpisa("stats"))
    text = net.fpisa("stats", "--prometheus")
    metrics = dict(x.rsplit(" ", 1) for x in text.splitlines() if x[0] != "#")
    for r in rows:
        assert int(metrics[f'fpisa_steered_frames_total{{cpu="{r["cpu"]}"}}']) == r["sent"]
        assert int(metrics[f'fpisa_steered_taken_total{{cpu="{r["cpu"]}"}}']) == r["taken"]


def programs(net):
    status = net.json("status")
    for entry in net.bpftool("map", "dump", "pinned", PIN + "/fpisa_cpumap"):
        if "value" in entry:	# 8 bytes are the queue size and the program's number
            queue, number = struct.unpack("<II", bytes(int(b, 16) for b in entry["value"]))
            assert queue == 4096
            assert number in [p["id"] for p in status["programs"] if p["name"] == "fpisa_cpu"]
    return {p["name"]: p["id"] for p in status["programs"]}, {i["program_id"] for i in status["interfaces"]}


@two_cpus
def test_upgrade_under_traffic(lab):
    """After an upgrade under traffic every program is new and steers as before, and no sum is wrong."""
    net = lab()
    net.load(*STEER)
    net.add_job(1, *STAGED)
    net.add_job(2, "--mode", "fpisa64")
    net.slow(20)
    step, calls = {"count": 60000, "kind": "integers"}, 25
    running = [net.start(r, 1, *[step] * calls) for r in (0, 1)]
    wait_until("frames", lambda: net.counters(1, PIN)["v_result"] > 20)
    for _ in range(3):
        before, attached = programs(net)
        net.fpisa("upgrade")
        after, now = programs(net)
        assert before.keys() == after.keys() and not set(before.values()) & set(after.values())
        assert now == {after["fpisa_steer"]} and attached == {before["fpisa_steer"]}
    expect = hashlib.sha256(worker.exact_sum("integers", 2, 60000)).hexdigest()
    for p in running:
        assert [a["digest"] for a in read_answers(p)[1:]] == [expect] * calls
    net.check_sum(2, 5000)
    for job in (1, 2):
        c = net.counters(job, PIN)
        assert c["missed_tail_calls"] == c["v_family"] == c["v_busy"] == 0
    assert all(r["taken"] > 0 for r in steering(net).values())
    assert net.json("status")["cpus"] == [0, 1]


def threads():
    """Return the kernel threads of CPU maps, by name. The name contains the number of the map."""
    names = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                names.add(f.read().strip())
        except OSError:
            pass
    return {n for n in names if n.startswith("cpumap/")}


@two_cpus
@pytest.mark.cold
def test_unload_leaves_nothing(lab):
    net = lab()
    net.load(*STEER)
    net.add_job(1)
    net.check_sum(1)
    number = net.bpftool("map", "show", "pinned", PIN + "/fpisa_cpumap")["id"]
    mine = {f"cpumap/{cpu}/map:{number}" for cpu in (0, 1)}
    assert mine <= threads()
    net.fpisa("unload")
    assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "-o", "link")
    wait_until("the map's threads to end", lambda: not mine & threads())
    wait_until("the map to go", lambda: net.agg.try_run("bpftool", "map", "show", "id", number)[0])


@two_cpus
def test_further_interfaces(lab):
    """Loads of further interfaces may leave out --cpus, but may not change it."""
    net = lab(workers=3)
    net.fpisa("load", "p0", *STEER)
    net.fpisa("load", "p1")
    refused(net, "with --cpus 0,1 --cpu-queue 4096 is loaded", "load", "p2", "--cpus", "1")
    refused(net, "with --cpus 0,1 --cpu-queue 4096 is loaded", "load", "p2", *STEER, "--cpu-queue", 8)
    refused(net, "p2: --cpus requires native XDP", "load", "p2", "--mode", "skb")
    net.fpisa("load", "p2", *STEER)
    net.add_job(1)
    net.check_sum(1, 5000)
    net.fpisa("unload", "p0", "p1", "p2")
    assert not os.path.exists(PIN)


@two_cpus
def test_refused(lab):
    net = lab()
    for text in ("", "x", "0,", "1-0", "0-", "-1", "0 1", "70000"):
        refused(net, "--cpus: '.*' is not a list of CPUs", "load", "p0", f"--cpus={text}")
    refused(net, "--cpus: CPU 1 is given twice", "load", "p0", "--cpus", "0-1,1")
    refused(net, "--cpus: more than 64 CPUs", "load", "p0", "--cpus", "0-64")
    refused(net, "--cpus: CPU 60000 is not online; online: 0", "load", "p0", "--cpus", "0,60000")
    refused(net, "--cpu-queue requires --cpus", "load", "p0", "--cpu-queue", 9)
    refused(net, "--cpu-queue: '0' is not a number from 1 to 16384", "load", "p0", *STEER, "--cpu-queue", 0)
    refused(net, "p0: --cpus requires native XDP", "load", "p0", *STEER, "--mode", "skb")
    assert not os.path.exists(PIN)
    net.fpisa("load", "p0")
    refused(net, "a datapath without --cpus is loaded", "load", "p1", *STEER)
    status = net.json("status")
    assert [i["name"] for i in status["interfaces"]] == ["p0"] and status["cpus"] == []
    assert "steering" not in net.json("stats")


@two_cpus
def test_configured(lab, tmp_path):
    net = lab()
    path = tmp_path / "f.conf"

    def apply(cpus):
        interfaces = "".join(f"[interface {p}]\n" for p in net.ports)
        path.write_text(f"[datapath]\ncpus = {cpus}\ncpu-queue = 64\n{interfaces}")
        return net.agg.try_run(FPISA, "config", "apply", path)

    assert apply("0-1") == (0, "p0: loaded\np1: loaded\n", "")
    assert net.json("status")["cpus"] == [0, 1] and net.json("status")["cpu_queue"] == 64
    assert apply("0,1") == (0, "p0: already loaded\np1: already loaded\n", "")
    status, out, err = apply("1")
    assert status == 1 and out == "" and err.count("cpus: the loaded datapath sums on other CPUs") == 1
    net.add_job(1)
    net.check_sum(1)


@two_cpus
@pytest.mark.long
def test_soak(lab):
    """No sum is wrong under every fault at once, with upgrades, and with loaders that are killed or load again."""
    out = json.loads(lab(workers=0).agg.run(FPISA, "soak", "--seconds", 10, "--jobs", 3, *STEER, "--json"))
    assert out["passed"] and [out[k] for k in ("mismatches", "hangs", "leaks", "unexpected")] == [0] * 4
    assert out["rounds"] > 0 and out["upgrades"] + out["reloads"] + out["loader_kills"] > 0


@two_cpus
def test_bench():
    """bench/steer.py, at its shortest, prints a line without steering, a line with steering, and a line for the cost of entering the
    map."""
    script = os.path.join(TOP, "bench", "steer.py")
    command = [sys.executable, "-B", script, "--rounds", "1", "--values", "20000", "--elements", "256"]
    p = subprocess.run(command, text=True, capture_output=True, timeout=5 * COMMAND_S)
    assert p.returncode == 0, p.stderr
    plain, steered, live = map(json.loads, p.stdout.splitlines())
    assert (plain["cpus"], steered["cpus"]) == (None, "0,1") and plain["relief"] == 1
    assert plain["owners_ns"] == 0 < min(plain["receive_ns"], steered["receive_ns"], steered["owners_ns"])
    assert steered["goodput_gbit"] > 0 and live["handover_ns"] > 0


@two_cpus
def test_doctor(lab):
    """Doctor checks that the steering program belongs to this build. If the program is of another version, the fix loads this build with
    the same steering."""
    net = lab()
    net.load(*STEER)

    found = examine(net.agg)
    assert found["datapath", "build"]["level"] == "ok"
    assert "slots steered to CPUs 0,1" in found["p0", "queues"]["text"]
    net.fpisa("unload")
    net.load()
    assert "fpisa load --cpus 0-" in examine(net.agg)["p0", "queues"]["text"]
    net.fpisa("unload")
    net.load(*STEER)
    os.unlink(PIN + "/fpisa_counters")
    net.bpftool("map", "create", PIN + "/fpisa_counters", "type", "array", "key", 4, "value", 8, "entries", 65,
                "name", "fpisa_counters")
    fix = examine(net.agg)["datapath", "version"]["fix"]
    assert fix == "fpisa unload && fpisa load p0 p1 --cpus 0,1 --cpu-queue 4096"

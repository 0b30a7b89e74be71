# SPDX-License-Identifier: GPL-2.0-only
"""Test plain `ip link set dev DEV xdp obj fpisa.o`, without a step before it: real tail calls, empty slots in the program array, an upgrade
to stage programs, and jobs that only bpftool writes."""
import hashlib
import os
import socket
import struct

import pytest

import worker
from lab import ADDRESS, BPFFS, IP_PIN, PORT, read_answers, wait_until

STAGED = ("--pipeline", "staged", "--clz", "lpm")
STAGES = IP_PIN + "/fpisa_stages"
BANK_SIZE, BANKS = 16, 2


def check_stages(counters):
    """Check that MAU0..4 ran once per contribution and MAU5..8 once per result, through tail calls."""
    accepted = counters["v_accepted"] + counters["v_result"]
    read = counters["v_result"] + counters["v_resent"]
    assert counters["v_result"] > 0
    assert [counters[f"mau{k}"] for k in range(9)] == [accepted] * 5 + [read] * 4
    assert counters["fused"] == counters["fused_reads"] == 0


def test_sums_through_tail_calls(lab):
    net = lab(workers=4)
    net.ip_link()
    net.add_job(3, *STAGED)
    net.check_sum(3, 10000)
    c = net.counters(3, IP_PIN)
    assert c["v_result"] == 40 and c["v_accepted"] == 120  # 10000 values are 40 frames per worker
    assert c["elements"] == 4 * (39 * 256 + 32)  # the last frame is padded to 32
    assert c["packets"] >= 160 and c["bytes"] >= 4 * (40 * 118 + 4 * (39 * 256 + 32))
    assert c["missed_tail_calls"] == 0
    check_stages(c)


def test_trie_fills_itself(lab):
    net = lab()
    net.ip_link()
    assert net.json("status")["trie_entries"] == 0
    net.add_job(0, *STAGED)
    net.check_sum(0)
    assert net.json("status")["trie_entries"] == 32


def test_hole_in_the_program_array(lab):
    """A stage whose slot is empty runs inline from the current PHV, and is counted. Each of the nine stages is tested in its own job."""
    net = lab(workers=3)
    net.ip_link()
    for stage in range(9):
        net.add_job(stage, *STAGED)
        keys = [struct.pack("<I", bank * BANK_SIZE + stage).hex(" ").split() for bank in range(BANKS)]
        programs = [number(net.bpftool("map", "lookup", "pinned", STAGES, "key", "hex", *k)["value"]) for k in keys]
        for key in keys:
            net.bpftool("map", "delete", "pinned", STAGES, "key", "hex", *key)
        net.check_sum(stage, 5000)
        for key, program in zip(keys, programs):
            net.bpftool("map", "update", "pinned", STAGES, "key", "hex", *key, "value", "id", program)
        c = net.counters(stage, IP_PIN)
        accepted = c["v_accepted"] + c["v_result"]
        assert c["v_result"] == 20 and accepted == 60
        reads = c["v_result"] + c["v_resent"]
        assert c["missed_tail_calls"] == (accepted if stage < 5 else reads)
        # If the entry of a half is missing, the fused body does the work of the half. Within a half the chain continues.
        assert c["fused"] == (accepted if stage == 0 else 0)
        assert c["fused_reads"] == 0 or stage == 5
        adds, outs = 0 if stage == 0 else accepted, reads - c["fused_reads"]
        assert [c[f"mau{k}"] for k in range(9)] == [adds] * 5 + [outs] * 4


def number(value):
    """Return the number in the bytes of a map's value, as bpftool prints them."""
    return int.from_bytes(bytes(int(b, 16) for b in value), "little")


def test_all_slots_empty(lab):
    net = lab()
    net.ip_link()
    net.add_job(1, *STAGED)
    for key in range(BANK_SIZE * BANKS):
        net.agg.try_run("bpftool", "map", "delete", "pinned", STAGES, "key", *struct.pack("<I", key))
    net.check_sum(1, 5000)
    c = net.counters(1, IP_PIN)
    assert c["missed_tail_calls"] == c["fused"] + c["fused_reads"] == 40 + 20 + c["v_resent"]


def test_upgrade_to_stage_programs(lab):
    """`fpisa load` with the same pins fills the idle bank while frames flow, and switches to it."""
    net = lab(workers=3)
    net.ip_link(net.ports[:2])
    net.agg.ip("link set dev p2 down")  # this worker joins only after the upgrade
    before = net.json("status")["banks"]
    assert [b["stage_programs"] for b in before] == [False, False] and before[0]["in_use"]
    workers = net.addresses[:2]
    net.add_job(1, *STAGED, workers=workers)
    net.slow(10)
    running = [net.start(r, 1, *[{"count": 200000, "kind": "integers"}] * 5) for r in (0, 1)]
    wait_until("frames", lambda: net.counters(1, IP_PIN)["v_result"] > 100)
    net.fpisa("load", "p2", "--pin", IP_PIN)
    after = net.json("status")["banks"]
    assert after[1] == {**after[1], "filled": 9, "stage_programs": True, "in_use": True}
    assert len(set(after[1]["program_ids"])) == 9
    expect = hashlib.sha256(worker.exact_sum("integers", 2, 200000)).hexdigest()
    for p in running:
        assert [a["digest"] for a in read_answers(p)[1:]] == [expect] * 5
    c = net.counters(1, IP_PIN)
    assert c["missed_tail_calls"] == 0
    check_stages(c)
    net.agg.ip("link set dev p2 up")
    net.add_job(2, *STAGED)
    net.check_sum(2, 5000)


def test_off_and_remove(lab):
    """After `xdp off` the pins stay, as always with iproute2. `fpisa unload` removes the pins too."""
    net = lab()
    net.ip_link()
    assert os.path.exists(IP_PIN + "/fpisa_jobs")
    net.fpisa("unload")
    assert not [n for n in os.listdir(IP_PIN) if n.startswith("fpisa")]
    assert "xdp" not in net.agg.run("ip", "link", "show", "p0")
    net.ip_link()
    net.add_job(1, *STAGED)
    net.check_sum(1)


# -- jobs that only bpftool writes -------------------------------------------

SUM, FP32, FPISA, FPISA_A, DOWN = 0, 1, 1, 2, 1
PIPELINE_STAGED, FUSED, LPM, BITS, MULTICAST = 1, 2, 1, 2, 1
GROUP = "239.1.2.3"


def mapped(address):
    """Return struct fpisa_address of an IPv4 address."""
    return socket.inet_pton(socket.AF_INET6, "::ffff:" + address)


def job_bytes(addresses, mode, rounding, pipeline, clz, elements=256, window=16):
    """Return struct fpisa_job of include/fpisa/job.h."""
    n = len(addresses)
    head = struct.pack("<IIQQQ", 1, n, (1 << n) - 1, 0, 0)  # no token
    head += mapped(ADDRESS) + mapped(GROUP) + bytes([mode, rounding, pipeline, clz]) + bytes(4)
    head += struct.pack(">H", PORT) + struct.pack("<HHHII", elements, 0, 0, window, 0)  # no VLAN
    head += bytes([SUM, FP32, MULTICAST])
    head += bytes(5 + 16)  # guard, family, flags, ports, keyed; faults
    head += os.urandom(16)  # the key of the job's cookies
    head += bytes(24 + 16)  # parent, its rank and job, the leaf below; no second address
    ranks = b"".join(mapped(a) + struct.pack(">H", PORT) + struct.pack("<HI", 1, 0) for a in addresses)
    return head + ranks


def update(net, name, key, value):
    """Run `bpftool map update` with the value padded to the map's size."""
    size = net.bpftool("map", "show", "pinned", f"{IP_PIN}/{name}")["bytes_value"]
    net.bpftool("map", "update", "pinned", f"{IP_PIN}/{name}", "key", *struct.pack("<I", key), "value",
                *value.ljust(size, b"\0"))


@pytest.mark.parametrize("mode, pipeline, clz", [(FPISA, PIPELINE_STAGED, LPM), (FPISA_A, FUSED, BITS)])
def test_job_by_bpftool_alone(lab, mode, pipeline, clz):
    net = lab(workers=3)
    net.ip_link()
    job, ports = 9, BPFFS + "/ports"
    net.bpftool("map", "create", ports, *"type devmap key 4 value 8 entries 64 name ports".split())
    for r, dev in enumerate(net.ports):
        with net.agg.entered():
            ifindex = socket.if_nametoindex(dev)
        net.bpftool("map", "update", "pinned", ports, "key", *struct.pack("<I", r), "value",
                    *struct.pack("<II", ifindex, 0))
    net.bpftool("map", "update", "pinned", IP_PIN + "/fpisa_fanout", "key", *struct.pack("<I", job), "value",
                "pinned", ports)
    update(net, "fpisa_sessions", job, b"")
    update(net, "fpisa_jobs", job, job_bytes(net.addresses, mode, DOWN, pipeline, clz))
    answers = net.check_sum(job, 10000, kind="even")
    assert {a["elements"] for a in answers} == {256} and {a["window"] for a in answers} == {16}
    shown = net.json("job", "show", job)
    assert shown["group"] == GROUP and shown["workers"] == 3 and shown["joined"] == [0, 1, 2]
    c = net.counters(job, IP_PIN)
    assert c["v_result"] == 40 and c["missed_tail_calls"] == 0

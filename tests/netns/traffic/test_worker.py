# SPDX-License-Identifier: GPL-2.0-only
"""Test the worker's side: an ordinary user with an address and a job number, ranks that are absent, late or join again, an independent
client, and the bits."""
import array
import hashlib
import json
import os
import random
import re
import sys
import time
import zlib

import pytest

import rationals
import worker
from lab import (HERE, INDEPENDENT_CLIENT, LIBRARY, PIN, TOP, WORKER, draw_seed, go_on, read_all, read_answers,
                 wait_until)

pytestmark = pytest.mark.families()

MODES = {"fpisa": rationals.FPISA, "fpisa-a": rationals.FPISA_A}
ROUNDINGS = {"down": rationals.DOWN, "nearest": rationals.NEAREST}
EACCES, EINVAL, ETIMEDOUT, EPROTO, EADDRINUSE, ESTALE = 13, 22, 110, 71, 98, 116


def test_address_and_job_number_suffice(lab):
    """An address and a job number suffice, without options, privilege or configuration on the worker."""
    net = lab(workers=2)
    net.load()
    net.add_job(7)
    plan = json.dumps({"steps": [{"count": 777, "kind": "integers"}]})
    other = net.start(1, 7, {"count": 777, "kind": "integers"})
    p = net.worker[0].spawn(sys.executable, "-B", WORKER, LIBRARY, net.address, 7, plan)
    joined, summed = read_answers(p)
    assert joined["uid"] == 65534 and (joined["rank"], joined["workers"]) == (0, 2)
    assert joined["generation"] == net.json("job", "show", 7)["generation"]
    assert summed["digest"] == hashlib.sha256(worker.exact_sum("integers", 2, 777)).hexdigest()
    read_answers(other)


def test_absent_rank_at_connect(lab):
    net = lab(workers=4)
    net.load()
    net.add_job(1)
    t0 = time.monotonic()
    procs = [net.start(r, 1, timeout_ms=4000) for r in (0, 3)]
    for p in procs:
        (answer,), status, _ = read_all(p)
        assert status == 1 and answer["rc"] == -ETIMEDOUT
        assert "rank 1, rank 2 did not join in 4000 ms; " in answer["error"] and "On the aggregator, fpisa stats shows" in answer["error"]
    assert time.monotonic() - t0 > 4
    shown = net.json("job", "show", 1)
    assert shown["generation"] == 0 and shown["gathering"]
    net.check_sum(1)  # this sum does not include the ranks that gave up


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("transport", [worker.UDP, worker.XSK], ids=["udp", "xsk"])
def test_no_host_is_there(lab, transport):
    """A network's broadcast address, which only the routes reveal, is refused at once, as multicast addresses are. A blocked path is tried until
    the deadline."""
    net = lab(workers=1)
    net.worker[0].ip(f"route replace prohibit {net.address}")
    for address, rc, said in (*((a, -EINVAL, f"'{a}' is not the address of a host; pass an address") for a in
                                (["ff02::1", "ff0e::1"] if net.ipv6 else ["10.99.1.255", "127.255.255.255"])),
                              (net.address, -ETIMEDOUT, "Permission denied")):
        (answer,), _, _ = read_all(net.start(0, 1, address=address, timeout_ms=300, transport=transport))
        assert answer["rc"] == rc and said in answer["error"]


@pytest.mark.families(spread=True)
def test_port_cannot_be_had(lab):
    """A port that is taken, or needs root, gives an error that the header lists, with a remedy."""
    net = lab(workers=1)
    with open(os.path.join(TOP, "include", "fpisa.h")) as f:
        listed, = re.findall(r"Join job `job`((?:(?!\*/).)*)\*/\nint fpisa_connect\(", f.read(), re.S)
    with net.worker[0].socket(net.ipv6) as holder:
        holder.bind(("", 18000))
        for rc, name, said, options in ((-EADDRINUSE, "EADDRINUSE", "another worker", {}),
                                        (-EADDRINUSE, "EADDRINUSE", "another worker", {"transport": worker.XSK}),
                                        (-EACCES, "EACCES", "1024", {"local_port": 80})):
            (answer,), _, _ = read_all(net.start(0, 1, timeout_ms=300, **options))
            assert answer["rc"] == rc and said in answer["error"]
            assert re.search(rf"^ \* -{name}\t.*port\b", listed, re.M), listed


def test_rank_that_was_taken_out_connects(lab):
    net = lab()
    net.load()
    net.add_job(1)
    net.fpisa("job", "shrink", 1, 1)
    (answer,), status, _ = read_all(net.start(1, 1))
    assert status == 1 and answer["rc"] == -EACCES and "this rank was removed from the job" in answer["error"]


def test_absent_rank_in_a_call(lab):
    """Ranks 1 and 2 join and do not contribute. The error names both ranks. Then all ranks join again on the same handles."""
    net = lab(workers=3)
    net.load()
    net.add_job(1)
    step = {"count": 5000, "kind": "integers"}
    idle = [net.start(r, 1, {"go": True}, {"rejoin": True}, step) for r in (1, 2)]
    p = net.worker[0].spawn(sys.executable, "-B", "-c", LATE_SUM, HERE, LIBRARY, net.address, 1)
    joined, failed, again = [json.loads(p.stdout.readline()) for _ in range(3)]
    go_on(*idle)
    answers, status, err = read_all(p)
    assert status == 0, (answers, err)
    rejoined, summed = answers
    assert failed["rc"] == again["rc"] == -ETIMEDOUT and failed["missing"] == 0b110
    assert "rank 1, rank 2" in failed["error"] and again["error"] == failed["error"]
    assert rejoined["rc"] == 0 and rejoined["generation"] > joined["generation"]
    expect = hashlib.sha256(worker.exact_sum("integers", 3, 5000)).hexdigest()
    assert summed["digest"] == expect
    assert [read_answers(p)[-1]["digest"] for p in idle] == [expect] * 2


# Continue after errors, as a careful program does.
LATE_SUM = """
import sys
sys.path.insert(0, sys.argv[1])
import worker
w = worker.Worker(sys.argv[2])
worker.become_nobody()
w.connect(sys.argv[3], int(sys.argv[4]), {"timeout_ms": 2000})
w.allreduce(5000, "integers")
w.allreduce(5000, "integers")
w.answer(w.lib.fpisa_rejoin(w.handle))
sys.exit(1 if w.allreduce(5000, "integers") else 0)
"""


def test_cohorts(lab):
    """Processes that follow others on the same job begin a new generation."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, "--window", 8)
    generations = [net.check_sum(1, 3000 + n)[0]["generation"] for n in range(3)]
    assert generations == sorted(set(generations))
    assert net.counters(1, PIN)["v_result"] == 3 * 12


def test_killed_worker_is_replaced(lab):
    """If a worker dies in a call, the others get an error, and all join again together with its successor."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    victim = net.start(0, 1, {"sleep": 30})
    wait_until("its join", lambda: net.json("job", "show", 1)["joined"] == [0])
    step = {"count": 5000, "kind": "integers"}
    other = net.start(1, 1, step, timeout_ms=4000)
    wait_until("open rounds", lambda: net.json("slots", 1))
    victim.kill()
    answers, status, _ = read_all(other)
    assert status == 1 and answers[-1]["rc"] == -ETIMEDOUT and "rank 0" in answers[-1]["error"]
    net.check_sum(1, 5000)


def test_ranks_that_disagree(lab):
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    procs = [net.start(r, 1, {"count": 5000 + 1000 * r, "kind": "integers"}, timeout_ms=5000) for r in (0, 1)]
    answers = [read_all(p)[0][-1] for p in procs]
    assert -EPROTO in [a["rc"] for a in answers] and all(a["rc"] for a in answers)
    net.check_sum(1, 5000)


def test_job_made_anew(lab):
    """If the job is created again during a worker's call, the worker gets an error that its generation has ended."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    p = net.start(0, 1, {"sleep": 1}, {"count": 5000, "kind": "integers"}, timeout_ms=5000)
    read_answers(net.start(1, 1))
    net.fpisa("job", "del", 1)
    net.add_job(1)
    answers, status, _ = read_all(p)
    assert status == 1 and answers[-1]["rc"] == -ESTALE and "rejoin" in answers[-1]["error"]


def test_job_made_anew_with_another_list(lab):
    """A worker gets no answer if its rank now has another address."""
    net = lab(workers=2)
    net.load()
    a, b = net.addresses
    for workers, ends in (([b, a], [-ETIMEDOUT, -ETIMEDOUT]), ([a], [-ESTALE, -ETIMEDOUT])):
        net.add_job(1)
        step = {"count": 1000, "kind": "integers"}
        procs = [net.start(r, 1, step, {"go": True}, step, timeout_ms=3000) for r in (0, 1)]
        for p in procs:
            assert json.loads(p.stdout.readline())["rc"] == json.loads(p.stdout.readline())["rc"] == 0
        net.fpisa("job", "del", 1)
        net.add_job(1, workers=workers)
        go_on(*procs)
        assert [read_all(p)[0][-1]["rc"] for p in procs] == ends
        net.fpisa("job", "del", 1)


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("pipeline, clz", [("staged", "lpm"), ("fused", "bits")])
@pytest.mark.parametrize("mode, rounding", [("fpisa", "down"), ("fpisa", "nearest"), ("fpisa-a", "down")])
def test_bits_follow_from_the_order(lab, mode, rounding, pipeline, clz):
    """The bits of random values are those of rational numbers, added in the order of arrival that each result reports."""
    seed = draw_seed()
    net = lab(workers=4)
    net.load()
    net.add_job(1, "--mode", mode, "--rounding", rounding, "--pipeline", pipeline, "--clz", clz,
                "--elements", 64)
    count = 1000
    answers = net.work(1, {"count": count, "kind": "random", "seed": seed, "values": True}, order=True)
    inputs = [array.array("I", worker.data("random", r, count, seed)) for r in range(4)]
    got, = {a["values"] for a, in answers}
    got = array.array("I", zlib.decompress(bytes.fromhex(got)))
    chunks = sorted(answers[0][0]["chunks"])
    assert [c[0] for c in chunks] == list(range(0, count, 64)) and sum(c[1] for c in chunks) == count
    for offset, n, flags, ranks, order in chunks:
        assert ranks == 0b1111
        rank_at = sorted(range(4), key=lambda r: order >> 4 * r & 15)
        raised = 0
        for i in range(offset, offset + n):
            words = [inputs[r][i] for r in rank_at]
            case = rationals.Case(rationals.FP32, MODES[mode], ROUNDINGS[rounding], words)
            result, mine = rationals.element(case)[:2]
            assert got[i] == result, f"element {i} in order {rank_at}"
            raised |= mine
        assert flags == raised


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("ports", [1, 4])
def test_beside_an_independent_client(lab, ports):
    """A client written only from doc/wire.md gets the same bits as the workers of libfpisa, and these bits are correct."""
    net = lab(workers=3)
    net.load()
    count, seeds = 3000, {1: 5, 2: 6}
    net.add_job(1, "--pipeline", "staged", "--clz", "lpm", "--token", "beef", "--window", 8, "--ports", ports)
    step = {"count": count, "kind": "random", "seed": 3, "values": True}
    mine = net.start(0, 1, step, order=True, token=0xBEEF)
    clients = [net.worker[r].spawn(INDEPENDENT_CLIENT, net.address, 1, "--count", count, "--seed", seed, "--token", "beef")
               for r, seed in seeds.items()]
    answer = read_answers(mine)[-1]
    for p in clients:
        (said,), status, err = read_all(p)
        assert status == 0, err
        assert said["sha256"] == answer["digest"] and said["workers"] == 3
    inputs = [array.array("I", worker.data("random", 0, count, 3))]
    for seed in seeds.values():
        rng = random.Random(seed)
        floats = array.array("f", [rng.uniform(-1, 1) for _ in range(count)])
        inputs.append(array.array("I", floats.tobytes()))
    got = array.array("I", zlib.decompress(bytes.fromhex(answer["values"])))
    for offset, n, _, _, order in answer["chunks"]:
        rank_at = sorted(range(3), key=lambda r: order >> 4 * r & 15)
        for i in range(offset, offset + n):
            words = [inputs[r][i] for r in rank_at]
            case = rationals.Case(rationals.FP32, rationals.FPISA, rationals.DOWN, words)
            assert got[i] == rationals.element(case)[0]

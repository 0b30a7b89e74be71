# SPDX-License-Identifier: GPL-2.0-only
"""Several jobs on one datapath do not affect each other's slots, counters, settings, start or end."""
import hashlib

import worker
from lab import ADDRESS, FPISA, PIN, read_answers, wait_until

COUNT, CALLS = 40000, 6
PADDED = -(-COUNT // 32) * 32
JOBS = {
    0: ("--pipeline", "staged", "--clz", "lpm", "--elements", 64, "--window", 8),
    1: ("--mode", "fpisa64", "--elements", 96, "--window", 16, "--fanout", "unicast"),
    2: ("--mode", "exact", "--elements", 128, "--window", 4),
    3: ("--rounding", "nearest", "--elements", 256, "--window", 64, "--token", "c0ffee"),
}
FIXED = "mode rounding pipeline clz fanout elements window slot_base token workers live generation".split()


def addresses(net, job):
    return [f"{a}:{18000 + job}" for a in net.addresses]


def add(net, job, *options):
    net.add_job(job, *options, workers=addresses(net, job))


def refused(net, job, *options):
    status, out, err = net.agg.try_run(*command(net, job, *options))
    assert status == 1 and out == "" and len(err.splitlines()) == 1, err
    return err


def command(net, job, *options):
    return [FPISA, "job", "add", job, "--workers", ",".join(addresses(net, job)), "--address", ADDRESS, *options]


def settings(net, jobs):
    return {j: {k: net.json("job", "show", j)[k] for k in FIXED} for j in jobs}


def start_all(net, jobs, calls):
    step = {"count": COUNT, "kind": "integers"}
    return {j: [net.start(r, j, *[step] * calls, local_port=18000 + j, timeout_ms=60000,
                          token=0xC0FFEE if j == 3 else 0) for r in range(len(net.worker))] for j in jobs}


def check_all(procs, workers):
    expect = hashlib.sha256(worker.exact_sum("integers", workers, COUNT)).hexdigest()
    for job, ps in procs.items():
        for p in ps:
            assert {a["digest"] for a in read_answers(p)[1:]} == {expect}, f"job {job}"


def test_isolation(lab):
    """Four kinds of jobs sum at the same time on the same hosts, while a fifth job is repeatedly added, used and deleted."""
    net = lab(workers=2)
    net.load()
    for job, options in JOBS.items():
        add(net, job, *options)
    regions = sorted((s["slot_base"], s["slot_base"] + 2 * s["window"]) for s in settings(net, JOBS).values())
    assert all(a[1] <= b[0] for a, b in zip(regions, regions[1:]))
    procs = start_all(net, JOBS, CALLS)
    wait_until("all of them", lambda: all(net.counters(j, PIN)["v_result"] > 3 for j in JOBS))
    before = settings(net, JOBS)
    turns = 0
    while turns < 2 or any(p.poll() is None for ps in procs.values() for p in ps) and turns < 8:
        add(net, 63, *(("--format", "bf16", "--mode", "exact"), ("--window", 128))[turns % 2])
        fresh = net.counters(63, PIN)
        assert not any(fresh.values()), "counters of an earlier job of this number"
        if turns % 2:
            check_all(start_all(net, [63], 1), 2)
            assert net.counters(63, PIN)["v_result"] == -(-COUNT // 256)
        net.fpisa("job", "del", 63)
        turns += 1
    assert settings(net, JOBS) == before
    check_all(procs, 2)
    for job, options in JOBS.items():
        c, elements = net.counters(job, PIN), options[options.index("--elements") + 1]
        chunks = CALLS * -(-COUNT // elements)
        assert c["v_result"] == chunks and c["v_accepted"] == chunks and c["elements"] == CALLS * 2 * PADDED
        assert (c["mau0"] == 2 * chunks) == (job == 0) and (c["fused"] == 2 * chunks) == (job != 0)
        for reason in "unknown_peer rank token generation slot ahead mismatch no_job length checksum format".split():
            assert c["v_" + reason] == 0, (job, reason)


def test_exhaustion(lab):
    """If slots, slots of mode exact or job numbers run out, the error is one sentence, and running jobs are not disturbed."""
    net = lab(workers=2)
    net.load()
    add(net, 0, "--window", 64)
    add(net, 1, "--mode", "exact", "--window", 128)
    procs = start_all(net, [0, 1], CALLS)
    wait_until("both", lambda: all(net.counters(j, PIN)["v_result"] > 3 for j in (0, 1)))
    before = settings(net, [0, 1])

    add(net, 2, "--mode", "exact", "--window", 128)
    says = "of 512 slot entries of mode exact, but 512 are taken"
    assert says in refused(net, 4, "--mode", "exact", "--window", 1)
    text = refused(net, 4, "--format", "fp64", "--mode", "exact")
    assert says in text and "; its superaccumulators take 8320 KB" in text
    add(net, 4, "--format", "e4m3", "--mode", "exact", "--window", 1)  # e4m3 in mode exact uses the same registers as other modes
    net.fpisa("job", "del", 4)
    add(net, 4, "--window", 512)
    assert "window 256 needs 512 of 2048 slot entries, but 1664 are taken" in refused(net, 5, "--window", 256)
    add(net, 5, "--window", 128)
    add(net, 6, "--window", 64)
    assert "2048 are taken" in refused(net, 7, "--window", 1)
    for job in (2, 4, 5, 6):
        net.fpisa("job", "del", job)
    assert [j["job"] for j in net.json("job", "list")] == [0, 1]

    for job in range(2, 64):
        add(net, job, "--window", 1)
    assert "already exists" in refused(net, 63, "--window", 1)
    status, _, err = net.agg.try_run(*command(net, 64))
    assert status == 2 and "64" in err.splitlines()[0] and "63" in err.splitlines()[0]
    for job in range(2, 64):
        net.fpisa("job", "del", job)

    check_all(procs, 2)
    assert settings(net, [0, 1]) == before

# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa upgrade`: new programs in the place of running ones while frames flow; killed at any moment."""
import hashlib
import os
import random
import time

import pytest

import worker
from lab import BPFFS, FPISA, IP_PIN, PIN, end, read_answers, wait_until

COUNT, CALLS = 60000, 40


def programs(net):
    status = net.json("status")
    return {i["name"]: i["program_id"] for i in status["interfaces"]}, status["banks"]


@pytest.mark.parametrize("pin", [PIN, IP_PIN])
def test_under_traffic(lab, pin):
    """Two families, one staged: no stage is missed, no sum wrong, both banks come and go."""
    net = lab(workers=2)
    if pin == PIN:
        net.load()
    else:
        net.ip_link()
    net.add_job(1, "--pipeline", "staged", "--clz", "lpm")
    net.add_job(2, "--pipeline", "staged", "--mode", "fpisa64")
    net.slow(20)
    step = {"count": COUNT, "kind": "integers"}
    running = [net.start(r, 1, *[step] * CALLS) for r in (0, 1)]
    wait_until("frames", lambda: net.counters(1, pin)["v_result"] > 20)
    seen = set()
    for _ in range(3):
        before, banks = programs(net)
        net.fpisa("upgrade", "--pin", pin)
        after, now = programs(net)
        assert set(after) == set(net.ports) and not set(before.values()) & set(after.values())
        assert [b["in_use"] for b in banks] == [not b["in_use"] for b in now]
        used, idle = now[::-1 if now[1]["in_use"] else 1]
        # Frames that began before the switch still have the stages that they began with.
        assert idle["program_ids"] == [b for b in banks if b["in_use"]][0]["program_ids"]
        assert used["filled"] == 9 and used["stage_programs"] and not seen & set(used["program_ids"])
        seen |= set(used["program_ids"])
    expect = hashlib.sha256(worker.exact_sum("integers", 2, COUNT)).hexdigest()
    for p in running:
        assert [a["digest"] for a in read_answers(p)[1:]] == [expect] * CALLS
    net.check_sum(2, 5000)
    for job in (1, 2):
        c = net.counters(job, pin)
        assert c["missed_tail_calls"] == 0 and c["v_family"] == 0 and c["fused"] == 0


@pytest.mark.parametrize("options", [(), ("--cpus", "0")])
def test_killed(lab, options):
    """A loader that dies anywhere leaves a datapath that runs, and that the next one upgrades."""
    seed = int(os.environ.get("FPISA_SEED") or time.time_ns() % 10**9)
    print(f"FPISA_SEED={seed}")
    rng = random.Random(seed)
    net = lab(workers=2)
    net.load(*options)
    net.add_job(1, "--pipeline", "staged", "--clz", "lpm")
    net.add_job(2, "--format", "bf16", "--pipeline", "staged")
    t0 = time.monotonic()
    net.fpisa("upgrade")
    whole = time.monotonic() - t0
    for _ in range(8):
        p = net.agg.spawn(FPISA, "upgrade")
        time.sleep(rng.random() * whole)
        end(p)
        net.agg.started.remove(p)
        net.check_sum(1, 3000)
    net.fpisa("upgrade")
    used = [b for b in net.json("status")["banks"] if b["in_use"]]
    assert used[0]["filled"] == 9 and used[0]["stage_programs"]
    net.check_sum(1, 3000)
    c = net.counters(1, PIN)
    assert c["missed_tail_calls"] == 0 and c["fused"] == 0
    left = sorted(os.listdir(PIN))
    net.fpisa("unload")
    assert "fpisa" in left and not os.path.exists(PIN)


@pytest.mark.parametrize("options", [(), ("--cpus", "0")])
def test_load_killed(lab, options):
    """The first load dies anywhere: another one completes it, or says that nothing is left to do; unload removes all."""
    seed = int(os.environ.get("FPISA_SEED") or time.time_ns() % 10**9)
    print(f"FPISA_SEED={seed}")
    rng = random.Random(seed)
    net = lab(workers=2)
    pins = os.listdir(BPFFS)
    t0 = time.monotonic()
    net.load(*options)
    whole = time.monotonic() - t0
    for _ in range(8):
        net.fpisa("unload")
        assert os.listdir(BPFFS) == pins
        p = net.agg.spawn(FPISA, "load", *net.ports, *options)
        time.sleep(rng.random() * whole)
        end(p)
        net.agg.started.remove(p)
        status, _, err = net.agg.try_run(FPISA, "load", *net.ports, *options)
        if status:
            assert "is loaded already" in err
            attached = [i["name"] for i in net.json("status")["interfaces"]]
            for dev in set(net.ports) - set(attached):
                net.fpisa("load", dev)
        net.add_job(1)
        net.check_sum(1, 3000)

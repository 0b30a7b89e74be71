# SPDX-License-Identifier: GPL-2.0-only
"""Run `fpisa soak` briefly. All faults happen at once, every result is recomputed, and nothing is left afterwards."""
import json
import os
import re
import signal
import time

import pytest

from lab import BPFFS, FPISA, alive, children, draw_seed
from terminal import OnTerminal

LIMIT_S = 400
RATES = {"drop": 0.02, "duplicate": 0.03, "reorder": 0.05, "delay": 0.02, "corrupt": 0.02}


def soak(net, seconds):
    """Run the soak, and check that nothing was wrong. Return its output."""
    seed = draw_seed()
    links, pins = net.agg.run("ip", "-o", "link"), os.listdir(BPFFS)
    shares = [a for name, share in RATES.items() for a in ("--" + name, share)]
    p = OnTerminal(["nsenter", f"--net={net.agg.path}", FPISA, "soak", "--seconds", seconds, "--seed", seed, "--jobs", 3, "--json", *shares])
    status, stdout = p.wait(LIMIT_S)
    # a warning comes if the manager creates a job while the link of a rank is down
    unreachable = r"((soak: .*\n)?fpisa: worker [\d.]+: cannot find a route: Network is unreachable; .*\n)*"
    assert status == 0 and re.fullmatch(rf"soak: --seed {seed}\n{unreachable}", p.screen()), stdout + p.said
    assert re.search(r"\r\033\[Ksoak: faults at once: \d+ s left, [1-9]\d* sums\r", p.said), p.said
    out = json.loads(stdout)
    assert out["seed"] == seed and out["rates"] == RATES and out["passed"]
    assert [out[k] for k in ("mismatches", "hangs", "leaks", "unexpected")] == [0] * 4
    assert sum(out["operations"].values()) == sum(out["formats"].values()) == sum(out["completions"].values()) == out["rounds"]
    assert net.agg.run("ip", "-o", "link") == links and os.listdir(BPFFS) == pins
    return out


def lacking(out):
    """Return the names of the random choices that the run has not covered."""
    drawn = {"rounds": out["rounds"] > out["workers"], "elements": out["elements"] > 10000, "retransmits": out["retransmits"] > 0,
             "operations": sum(n > 0 for n in out["operations"].values()) > 2,
             "completions": all(n > 0 for n in out["completions"].values()), "computed": out["computed"] > 0,
             "in place": 0 < out["in_place"] < out["rounds"], "xsk": 0 < out["xsk"] < out["rounds"],
             "group joins": 0 < out["group_joins"] < out["joins"], "group rounds": 0 < out["group_rounds"] < out["rounds"],
             "broadcasts": out["broadcasts"] > 0, "faults": all(n > 0 for n in out["faults"].values()) and out["bad_frames"] > 0,
             "events": out["kills"] + out["links_down"] + out["jobs_deleted"] + out["shrinks"] > 0}
    return [name for name, happened in drawn.items() if not happened]


@pytest.mark.early
@pytest.mark.long
def test_short(lab):
    """A run draws everything that it can draw at random, or a longer run does."""
    net = lab(workers=0)
    for seconds in 12, 40, 120:
        missing = lacking(soak(net, seconds))
        print(f"not drawn in {seconds} s:", missing)
        if not missing:
            return
    raise AssertionError(missing)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_interrupted(lab, sig):
    net = lab(workers=0)
    links, pins = net.agg.run("ip", "-o", "link"), os.listdir(BPFFS)
    p = net.agg.spawn(FPISA, "soak", "--seconds", 60, "--seed", 3, "--jobs", 2)
    while len(children(p.pid)) < 4:
        assert p.poll() is None
        time.sleep(0.1)
    workers = children(p.pid)
    p.send_signal(sig)
    p.wait(timeout=60)
    assert p.returncode == (-sig if sig == signal.SIGKILL else 128 + sig)
    deadline = time.monotonic() + 60
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.05)
    assert net.agg.run("ip", "-o", "link") == links and os.listdir(BPFFS) == pins


def test_refusals(lab):
    net = lab(workers=0)
    for argv, says in (("--jobs 1", "--jobs"), ("--drop 1", "--drop"), ("--seconds 0", "--seconds"),
                       ("--ports 3", "--ports"), ("--ports 32", "--ports"), ("x", "'x'")):
        status, out, err = net.agg.try_run(FPISA, "soak", *argv.split())
        assert status == 2 and out == "" and says in err.splitlines()[0], err

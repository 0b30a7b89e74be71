# SPDX-License-Identifier: GPL-2.0-only
"""Reading verbs: JSON that parses and agrees with the text and with bpftool."""
import json
import signal
import time

import pytest

from lab import FPISA, PIN, read_all, read_answers, wait_until


def test_json_of_every_reader(lab):
    net = lab(workers=2)
    net.load()
    net.add_job(5, "--token", "abcdef0123456789", "--elements", 128, "--window", 8)
    net.check_sum(5, 4000, token=0xABCDEF0123456789)
    status = net.json("status")
    assert status["pinned"] == PIN and status["port"] == 18000 and status["jobs"] == 1
    assert {m["name"] for m in status["maps"]} >= {"fpisa_jobs", "fpisa_exponents", "fpisa_mantissas"}
    assert status["map_bytes"] == sum(m["bytes"] for m in status["maps"]) > 10 << 20
    listed, = net.json("job", "list")
    expect = {"job": 5, "workers": 2, "elements": 128, "window": 8, "live": [0, 1], "joined": [0, 1]}
    assert listed == {**listed, **expect}
    shown = net.json("job", "show", 5)
    assert shown["token"] == "abcdef0123456789" and shown["generation"] == listed["generation"] != 0
    assert [(m["address"], m["port"], m["dev"], m["state"]) for m in shown["members"]] == [
        (a, 18000, dev, "joined") for a, dev in zip(net.addresses, net.ports)]
    for r, m in enumerate(shown["members"]):
        assert m["mac"] in net.worker[r].run("ip", "link", "show", "eth0")
    c = net.counters(5, PIN)
    stats = net.json("stats", 5)
    assert {k: stats[k] for k in c} == c and stats["drops"] == 0 and c["v_result"] == 32
    # The stack's own frames (neighbours, groups) are not ours and may come at any time.
    before = net.counters(64, PIN)["v_not_ours"]
    everything = net.json("stats")
    assert everything["job"] is None and everything["v_result"] == 32
    assert before <= everything["v_not_ours"] <= net.counters(64, PIN)["v_not_ours"]
    assert net.json("slots") == [] == net.json("slots", 5)
    # It loads every object, which takes longest of all verbs.
    assert {"fpisa", "fpisa_mau0", "fpisa_mau8"} <= {p["name"] for p in net.json("resources")["programs"]}


def test_text_of_every_reader(lab):
    net = lab(workers=2)
    net.load()
    net.add_job(5)
    net.check_sum(5, 4000)
    assert "native" in net.fpisa("status") and PIN in net.fpisa("status")
    assert "joined" in net.fpisa("job", "show", 5) and "missing" not in net.fpisa("job", "show", 5)
    assert net.fpisa("job", "list").splitlines()[1].split()[0] == "5"
    text = net.fpisa("stats", 5)
    line = next(line for line in text.splitlines() if line.startswith("result "))
    assert line.split()[1] == "16" and "round complete" in line
    assert "no drops" in text
    assert net.fpisa("slots").splitlines()[1:] == []


def test_slots_name_the_missing(lab):
    """Two of three ranks contribute: every open round misses the third."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, "--window", 4)
    late = net.start(2, 1, {"sleep": 2.5}, {"count": 5000, "kind": "integers"})
    early = [net.start(r, 1, {"count": 5000, "kind": "integers"}) for r in (0, 1)]
    rows = wait_until("open rounds", lambda: [r for r in net.json("slots", 1) if r["arrived"] == 2])
    assert all(r["missing"] == [2] and r["of"] == 3 and r["job"] == 1 and r["chunk"] < 4 for r in rows)
    assert net.fpisa("slots").splitlines()[1].split("  ")[-1].split(";")[0].strip() == "2"
    for p in early + [late]:
        read_answers(p)
    assert net.json("slots") == []


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watch(lab, options):
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    p = net.agg.spawn(FPISA, "stats", 1, "--watch", "0.3", *options)
    net.check_sum(1, 20000)
    assert net.counters(1, PIN)["v_result"] == 79
    time.sleep(0.7)
    assert p.poll() is None
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=5)
    assert p.returncode == -signal.SIGTERM and err == ""
    if options:
        samples = [json.loads(line) for line in out.splitlines()]
        assert len(samples) >= 2 and samples[-1]["v_result"] == 79
        assert max(s["per_second"]["v_result"] for s in samples) > 0
    else:
        assert out.count("per second") >= 2 and "what became of the frames" in out


def test_shrink(lab):
    """A rank that never comes is taken out: its rounds finish without it."""
    net = lab(workers=3)
    net.load()
    net.add_job(1)
    quitter = net.start(2, 1)
    steps = [{"count": 3000, "kind": "integers"}]
    workers = [net.start(r, 1, *steps) for r in (0, 1)]
    read_answers(quitter)
    wait_until("open rounds", lambda: [r for r in net.json("slots") if r["arrived"] == 2])
    assert net.fpisa("job", "shrink", 1, 2) == "job 1 goes on with ranks 0,1\n"
    net.check_answers(workers, 2, 3000)
    assert net.json("job", "show", 1)["live"] == [0, 1]
    assert net.json("job", "show", 1)["members"][2]["state"] == "taken out"
    answers, status, _ = read_all(net.start(2, 1, timeout_ms=1000))
    assert status == 1 and answers[0]["rc"] == -13 and "taken out of the job" in answers[0]["error"]

# SPDX-License-Identifier: GPL-2.0-only
"""Test `fpisa job shrink` without calls in progress. ../faults/test_liveness.py tests it during calls."""
from lab import read_all, read_answers, wait_until


def test_shrink(lab):
    """If a rank that never joined is removed, the rounds of the job complete without it."""
    net = lab(workers=3)
    net.load()
    net.add_job(1)
    quitter = net.start(2, 1)
    steps = [{"count": 3000, "kind": "integers"}]
    workers = [net.start(r, 1, *steps) for r in (0, 1)]
    read_answers(quitter)
    wait_until("open rounds", lambda: [r for r in net.json("slots") if r["arrived"] == 2])
    assert net.fpisa("job", "shrink", 1, 2) == "job 1 continues with ranks 0,1\n"
    net.check_answers(workers, 2, 3000)
    assert net.json("job", "show", 1)["live"] == [0, 1]
    assert net.json("job", "show", 1)["members"][2]["state"] == "removed"
    answers, status, _ = read_all(net.start(2, 1, timeout_ms=1000))
    assert status == 1 and answers[0]["rc"] == -13 and "removed from the job" in answers[0]["error"]

# SPDX-License-Identifier: GPL-2.0-only
"""Run a group's threads under ThreadSanitizer, in processes over a network: the caller's threads, the progress thread, and the thread of
the manager's connection. In tests/tsan, test_progress, test_udp and test_mem test handles without a group."""
import os
import re
import subprocess
import sys
import time

import pytest

from groups import MEMBER, Groups
from lab import BUILD, SLOW, wait_until

pytestmark = pytest.mark.families(spread=True)

LIBRARY = os.path.join(BUILD, "tests", "tsan", "libfpisa.so")
FOR_EVER = 10**6


@pytest.fixture
def groups(lab, tmp_path):
    if not os.path.exists(LIBRARY):
        pytest.skip("the library with ThreadSanitizer is not built: make test-build")
    runtime = subprocess.run(["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.exists(runtime):
        pytest.skip("this gcc has no libtsan")
    net = lab(workers=3)
    net.load()
    g = Groups(net, str(tmp_path))
    # The sanitizer does not check Python, GnuTLS and other code that was compiled without it.
    g.member = ["setarch", "-R", sys.executable, "-B", MEMBER, LIBRARY]
    g.env.update(LD_PRELOAD=runtime, TSAN_OPTIONS="ignore_noninstrumented_modules=1:exitcode=66:log_path=" + str(tmp_path / "tsan"))
    try:
        g.serve()
        yield g
    finally:
        g.close()


def reports(folder):
    """Return the sanitizer's reports from all ranks."""
    return "".join((folder / name).read_text() for name in sorted(os.listdir(folder)) if name.startswith("tsan."))


def test_it_sees_a_race(groups, tmp_path):
    """The sanitizer reports a deliberate race, so it would report a race in the tests below."""
    source = tmp_path / "race.c"
    source.write_text("#include <pthread.h>\nstatic int n;\nstatic void *add(void *a) { for (int i = 0; i < 1000000; i++) n++; return a; }\n"
                      "void race(void) { pthread_t t; pthread_create(&t, 0, add, 0); add(0); pthread_join(t, 0); }\n")
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-fsanitize=thread", source, "-o", tmp_path / "race.so"], check=True)
    command = ["setarch", "-R", sys.executable, "-c", f"import ctypes; ctypes.CDLL('{tmp_path}/race.so').race()"]
    p = subprocess.run(command, env=groups.env, capture_output=True)
    assert p.returncode == 66 and "data race" in reports(tmp_path)


def test_calls_of_every_kind(groups, tmp_path):
    """No kind of call has a race: blocking calls, callbacks, computing meanwhile, several types, a barrier, a child process, leaving."""
    steps = ({"sum": "float32", "times": 50}, {"sum": "float64", "poll": True, "times": 20}, {"sum": "float64", "times": 20}, {"told": 30},
             {"sum": "float32", "count": 100000, "compute": 0.2}, {"barrier": True}, {"fork": True}, {"sum": "int32", "times": 20},
             {"threads": ["float32", "float64", "int32"], "times": 20}, {"within": "float32"}, {"broadcast": [1, 4000, 0, 100001]},
             {"leave": True})
    ranks = groups.group("train", range(3), *steps, restore=1)
    early = groups.group("early", range(3), {"sum": "float32"}, {"threads": ["float32", "float64", "int32"], "times": 20}, {"leave": True})
    for rank in ranks:
        for _ in range(len(steps) - 1):
            answer = rank.line()
            assert answer["rc"] == 0, answer
    for rank in [*ranks, *early]:
        assert rank.process.wait(60 * SLOW) == 0, reports(tmp_path)
    assert reports(tmp_path) == ""


def test_shared_connection(groups, tmp_path):
    """No race while threads join and leave groups that share a connection, which often ends with its last group."""
    rank = groups.start(0, "own", 0, 1, {"leave": True}, {"storm": 50, "threads": 4}, share=1)
    answers = [rank.line() for _ in range(3)]
    assert [a["rc"] for a in answers] == [0, 0, 0] and answers[2]["errors"] == [], answers
    assert rank.process.wait(60 * SLOW) == 0, reports(tmp_path)
    assert reports(tmp_path) == ""


def test_errors_of_every_kind(groups, tmp_path):
    """No kind of error has a race: the manager dies and is restarted, a rank is killed in a call, a name is taken, a rank never joins."""
    forever = {"sum": "float32", "times": FOR_EVER}
    ranks = groups.group("train", range(3), {"sum": "float32", "times": 100, "pause": 0.02}, forever, hold=True)
    groups.kill()
    time.sleep(0.3)
    groups.serve()
    assert groups.start(0, "train", 0, 3).line()["rc"] < 0
    assert groups.start(1, "other", 0, 2, join_timeout_ms=500).line()["rc"] < 0
    for rank in ranks:
        assert rank.line()["rc"] == 0
    time.sleep(0.5)
    ranks[0].kill()
    assert [rank.line()["missing"] for rank in ranks[1:]] == [1, 1]
    told = groups.group("told", range(3), {"told": FOR_EVER}, hold=True)
    time.sleep(0.5)
    told[1].kill()
    assert [told[r].line()["rc"] < 0 for r in (0, 2)] == [True, True]
    for rank in groups.ranks:
        rank.kill(15)
    wait_until("their end", lambda: all(rank.process.poll() is not None for rank in groups.ranks))
    found = reports(tmp_path)
    assert not re.search("WARNING: ThreadSanitizer", found), found


def test_again_after_an_error(groups, tmp_path):
    """A rank that learns about a death leaves while an in-place call is in progress, and joins the next group, as ranks of the soak test
    do."""
    steps = {"sum": "float32", "count": 3000, "poll": True, "times": 600}, {"broadcast": [5, 3000]}, {"leave": True}
    ranks = groups.group("train", range(3), *steps, again=20, restore=1)
    for _ in range(2):
        time.sleep(0.2)
        ranks[1].kill()
        ranks[1] = groups.start(1, "train", 1, 3, *steps, again=20, restore=1)
    for rank in ranks:
        assert rank.process.wait(60 * SLOW) == 0, reports(tmp_path)
    found = reports(tmp_path)
    assert not re.search("WARNING: ThreadSanitizer", found), found

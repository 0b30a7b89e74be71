# SPDX-License-Identifier: GPL-2.0-only
"""Test the privileged process of `fpisa serve` with requests from its network process, as if an attacker controlled the network process
(ask_helper.c). The privileged process does only what the policy allows, does not change objects of other owners, and ends if it reads
anything but a request."""
import os
import re
import signal
import socket
import subprocess

import pytest

import job_requests
from groups import Groups
from lab import ADDRESS, COMMAND_S, FPISA, PIN, PORT, TOP, end

SOURCE = os.path.join(os.path.dirname(__file__), "ask_helper.c")
TOKEN = "1234567890abcdef"
pytestmark = pytest.mark.families("ipv4", why="the helper checks an address as bytes, which have no family there")
OURS = 5
FORBIDDEN = "-13 the network process may not request this job; please report this bug"
UNANNOUNCED = "-13 the record of the group does not announce this job; please report this bug"
LIMITS = [f"-13 {says}" for says in ("the group has 4 ranks, but the manager allows 3; raise size in [manager]",
                                     "the manager does not offer format fp16; add the format to formats in [manager]",
                                     "the manager does not offer mode fpisa64; add the mode to modes in [manager]",
                                     "10.99.9.9 is not in a network that may ask for groups; add the network to networks in [manager]",
                                     "0.0.0.0 is not in a network that may ask for groups; add the network to networks in [manager]")]
NO_SLOTS = "-28 the job needs 64 slots, but the manager has given 64 of 100; raise slots in [manager] or end another job"
RECORDED = "-13 job 8 already has the requested job's token; please report this bug"
NO_NUMBER = "-2 all 8 job numbers of the manager are in use; raise jobs in [manager] or end another job"
JOBS = [FORBIDDEN, UNANNOUNCED, FORBIDDEN, *[UNANNOUNCED] * 5, FORBIDDEN, LIMITS[0], FORBIDDEN, FORBIDDEN, LIMITS[1], FORBIDDEN,
        LIMITS[2], FORBIDDEN, FORBIDDEN, "-22 ", *LIMITS[3:], NO_NUMBER, NO_NUMBER, "0 ", UNANNOUNCED, NO_SLOTS, RECORDED, RECORDED, NO_SLOTS]
FROM = " from the network process"
WRONG = {"place": "invalid request for place 64" + FROM, "kind": "invalid request of kind 99" + FROM,
         "answer": "invalid request of kind 6" + FROM, "byte": "invalid request of 1 bytes" + FROM,
         **dict.fromkeys(("short", "long", "double", "size 4097"), "invalid request of [0-9]+ bytes" + FROM),
         **dict.fromkeys(("size 0", "ranks", "name", "owner", "escape", "state", "number"),
                         "the network process sent an invalid record of group 40"),
         "forgets": "the network process sent a record of group 40 without job 9, which still exists"}


@pytest.fixture
def groups(lab, tmp_path):
    net = lab(workers=2)
    net.load()
    net.add_job(OURS, "--token", TOKEN)
    g = Groups(net, str(tmp_path), "slots = 100", "size = 3", "jobs = 8-15", "formats = fp32", "modes = fpisa", "networks = 10.99.1.0/24")
    g.asker = tmp_path / "ask_helper"
    subprocess.run(["gcc", "-Wall", "-Werror", "-O1", *(f"-I{TOP}/{d}" for d in ("include", "user")), "-o", g.asker, SOURCE],
                   check=True)
    yield g
    g.close()


def ask(g, case):
    """Return the helper's answer while the manager is stopped."""
    g.manager.send_signal(signal.SIGSTOP)
    try:
        return g.net.agg.run(g.asker, g.manager.pid, case, g.net.addresses[0], ADDRESS, OURS, "0x" + TOKEN).splitlines()
    finally:
        g.manager.send_signal(signal.SIGCONT)


def test_jobs_it_may_not_have(groups):
    groups.serve()
    said = ask(groups, "jobs")
    assert said.pop() == "done", said
    assert len(said) == len(JOBS), said
    for line, right in zip(said, JOBS):
        assert " " + right in line, (line, right)
    assert [j["job"] for j in groups.jobs()] == [OURS, 8]


def test_what_is_no_request(groups):
    """An invalid request ends the helper, and with it the manager. The next manager reads the records, also those of a group that sums
    meanwhile."""
    forever = {"sum": "float32", "times": 10**6, "pause": 0.01, "count": 8}
    groups.serve()
    ranks = groups.group("train", [0, 0], {"sum": "float32"}, forever, window=8, hold=True)
    assert [rank.line()["rc"] for rank in ranks] == [0, 0]
    for case, says in WRONG.items():
        said = ask(groups, case)
        assert said[-1] == "ended", (case, said)
        assert groups.manager.wait(COMMAND_S) == 1
        assert re.search(f"^fpisa: serve: {says}; please report this bug$", groups.manager.stderr.read(), re.M), case
        end(groups.manager)
        held = [j["job"] for j in groups.jobs()], [r["name"] for r in groups.net.json("group", "list")]
        assert held == (([OURS, 8, 9], ["train", "forged"]) if case == "forgets" else ([OURS, 8], ["train"])), (case, held)
        groups.serve()
    assert [rank.process.poll() for rank in ranks] == [None, None]


@pytest.mark.parametrize("says, config", [("No such file or directory", "key-file = /nonexistent"),
                                          ("does not exist", "without-key = yes\nuser = nosuchuser"),
                                          ("Address already in use", "without-key = yes")])
def test_refused_start(lab, tmp_path, says, config):
    """A manager that is refused at its start leaves no new pin. A manager that has served leaves its records."""
    net = lab(workers=1)
    net.load()
    before = sorted(os.listdir(PIN))
    (tmp_path / "conf").write_text(f"[manager]\n{config}\n")
    with net.agg.entered():
        other = socket.create_server((ADDRESS, PORT if says.startswith("Address") else 0))
    status, _, err = net.agg.try_run(FPISA, "serve", tmp_path / "conf")
    assert status == 1 and says in err, err
    assert sorted(os.listdir(PIN)) == before
    other.close()
    g = Groups(net, str(tmp_path), "without-key = yes")
    g.serve()
    job_requests.Group(net.worker, "one").leave()
    g.kill(signal.SIGTERM)
    assert set(os.listdir(PIN)) - set(before) >= {"fpisa_groups", "fpisa_manager"}

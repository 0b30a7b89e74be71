# SPDX-License-Identifier: GPL-2.0-only
"""Long verbs show their progress on a terminal, and erase it at the end."""
import os
import re
import signal
import subprocess

import pytest

from foreign import Workers
from lab import FPISA, SLOW, wait_until
from terminal import OnTerminal


def test_query_data(tmp_path):
    p = OnTerminal([FPISA, "query", "data", tmp_path, "--pages", 300_000, "--visits", 1_200_000])
    wait_until("a share of the rows", lambda: re.search(r"\r\033\[Kwriting rows: \d+%\r", p.said) or p.process.poll() is not None)
    status, out = p.wait(200 * SLOW)
    assert (status, out.count("\n")) == (0, 1)
    assert "\r\033[Kdrawing the links between 300000 pages\r" in p.said and p.screen() == ""
    shares = [int(x) for x in re.findall(r"writing rows: (\d+)%", p.said)]
    assert shares == sorted(shares) and shares[-1] <= 100


def test_analyze(tmp_path):
    """Progress is shown for each file in turn."""
    for name in "one", "two":
        (tmp_path / name).write_bytes(os.urandom(4 * 8 * 3000))
    p = OnTerminal([FPISA, "analyze", "--workers", 8, "--orders", 500, tmp_path / "one", tmp_path / "two"])
    status, out = p.wait(200 * SLOW)
    assert status == 0 and "one" in out and p.screen() == ""
    shares = [int(x) for x in re.findall(r"\r\033\[Kone: (\d+)%\r", p.said)]
    assert shares and shares == sorted(shares) and re.search(r"\r\033\[Ktwo: \d+%\r", p.said)


@pytest.fixture
def worker():
    w = Workers(1)
    yield w
    w.close()


@pytest.mark.parametrize("on_terminal", [False, True])
def test_query_run(worker, on_terminal):
    """Progress appears while a worker is stopped. Rows that go to the same terminal have no progress between them."""
    worker.table("t", ["k int32 not null"], [(i,) for i in range(5000)])
    os.kill(worker.processes[0].pid, signal.SIGSTOP)
    p = OnTerminal([FPISA, "query", "run", "t", "--workers", worker.addresses, "--key", worker.key_file, "--prune", "none", "--timeout", "60"],
                   stdout=None if on_terminal else subprocess.PIPE)
    try:
        wait_until("progress", lambda: re.search(r"\r\033\[Kwaiting for rows: [1-9]\d* s, rows received: 0\r", p.said))
    finally:
        os.kill(worker.processes[0].pid, signal.SIGCONT)
    status, out = p.wait()
    rows = "k\n" + "".join(f"{i}\n" for i in range(5000))
    assert status == 0
    assert (p.screen() if on_terminal else out).startswith(rows)
    assert re.fullmatch(r"rows: 5000 in the table, .*\n\d+\.\d+ s\n", p.screen()[len(rows) if on_terminal else 0:])
    assert not on_terminal or "\033" not in p.said.split("k\r\n0\r\n", 1)[1].split("4999\r\n")[0]

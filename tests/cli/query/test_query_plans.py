# SPDX-License-Identifier: GPL-2.0-only
"""Workers decide from their first rows whether to add rows by key, and the answer does not depend on the decision."""
import os
import random
import subprocess

import pytest

from foreign import FPISA, Workers
from seeds import draw_seed

ROWS = 150000


@pytest.fixture(scope="module")
def workers():
    """Serve tables whose rows have few keys, few keys only at the beginning, few rows of a key that follow each other, or a key each."""
    rng = random.Random(draw_seed())
    w = Workers(2)
    keys = {"few": lambda _: rng.randrange(1000), "many": lambda i: i, "several": lambda _: rng.randrange(ROWS // 2),
            "sorted": lambda i: i // 3, "late": lambda i: i % 500 if i < 30000 else i}
    for rank in range(2):
        for name, key in keys.items():
            with open(os.path.join(w.directory(rank), f"{name}.schema"), "w") as f:
                f.write("k int32 not null\nv double\nn int64\n")
            with open(os.path.join(w.directory(rank), f"{name}.csv"), "w") as f:
                f.write("k,v,n\n")
                f.writelines(f"{key(i)},{rng.choice(('', 1e30, -1e30, round(rng.random(), 3)))},{i}\n" for i in range(ROWS))
    yield w
    w.close()


def ask(w, table, *options):
    p = subprocess.run([FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, *options], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    sent = next(line for line in p.stderr.splitlines() if line.startswith("rows: "))
    plan = [line for line in p.stderr.splitlines() if line.startswith("plan: ")]
    return sorted(p.stdout.splitlines()), int(sent.split("sent ")[1].split(" ")[0]), plan


@pytest.mark.parametrize("value", ["v", "n,v", "v filter (n<70000),*"])
@pytest.mark.parametrize("table", ["few", "many", "several", "sorted", "late"])
def test_decision(workers, table, value):
    answer, sent, plan = ask(workers, table, "--by", "k", "--value", value)
    plain, all_rows, no_plan = ask(workers, table, "--by", "k", "--value", value, "--prune", "none")
    assert answer == plain and not no_plan
    if table == "few":
        assert plan == ["plan: each worker adds its rows by key, and sends the sums directly"] and sent < all_rows / 10
    else:
        assert plan == ["plan: 2 of 2 workers have stopped adding rows by key, because of too many keys, and send the others directly"]
    if table in ("many", "late"):
        assert sent < 0.95 * ask(workers, table, "--by", "k", "--value", value, "--prune", "workers")[1]


def test_other_answers(workers):
    """First rows and totals are pruned by the workers, and all rows are sent."""
    assert ask(workers, "few", "--value", "n", "--limit", "3")[1:] == (6, ["plan: each worker sends its own first rows directly"])
    assert ask(workers, "few", "--total", "--value", "n")[2] == ["plan: each worker adds its rows by key, and sends the sums directly"]
    assert ask(workers, "few", "--columns", "k")[1:] == (2 * ROWS, ["plan: workers send all rows directly"])

# SPDX-License-Identifier: GPL-2.0-only
"""An empty shell variable in a condition or a list is an error, not another question."""
import subprocess

import pytest

from foreign import Workers
from lab import FPISA


@pytest.fixture(scope="module")
def worker():
    w = Workers(1)
    w.table("t", ["k int32", "s text"], [(1, "a"), (2, ""), (3, "b")])
    yield w
    w.close()


def ask(w, *options):
    p = subprocess.run([FPISA, "query", "run", "t", "--workers", w.addresses, "--key", w.key_file, "--prune", "none", *options],
                       text=True, capture_output=True)
    return p.returncode, p.stdout, p.stderr


@pytest.mark.parametrize("where, rows", [("s=''", ["2"]), ("s<>''", ["1", "3"]), ("s='' , k=2", ["2"]), ("k>1,s text=b", ["3"])])
def test_empty_text(worker, where, rows):
    status, out, err = ask(worker, "--columns", "k", "--where", where)
    assert (status, out.split()) == (0, ["k", *rows]), err


@pytest.mark.parametrize("where, wrong", [("s=", "s="), ("s<>", "s<>"), ("s>= ", "s>= "), ("k=", "k="), ("s=,k=1", "s=,k=1"),
                                          ("k=1,s= ", "s= "), ("k=1,", "k=1,"), ("k=1 , ", "k=1 , "), ("s null,", "s null,"), (",k=1", ",k=1")])
def test_no_value(worker, where, wrong):
    status, out, err = ask(worker, "--where", where)
    assert status == 1 and not out and f"t.csv: '{wrong}' is not a list of conditions" in err, err


@pytest.mark.parametrize("columns", ["k,", ",k", ",", "k,,s"])
@pytest.mark.parametrize("option", ["--columns", "--by"])
def test_list_with_nothing(worker, option, columns):
    status, out, err = ask(worker, option, columns)
    assert status == 1 and not out and "t.csv: the schema has no column ''" in err, err

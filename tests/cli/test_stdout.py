# SPDX-License-Identifier: GPL-2.0-only
"""Output that cannot be written is an error with its reason, whichever write failed."""
import fcntl
import os
import subprocess

import pytest

from foreign import Workers
from lab import FPISA

ROWS = 50_000
FULL = "No space left on device"


def run_full(*argv):
    with open("/dev/full", "w") as full:
        p = subprocess.run([FPISA, *argv], stdout=full, stderr=subprocess.PIPE, text=True)
    return p.returncode, p.stderr


@pytest.fixture(scope="module")
def worker():
    w = Workers(1)
    w.table("t", ["k int32 not null"], [(i,) for i in range(ROWS)])
    yield w
    w.close()


def query(w, *options):
    return ["query", "run", "t", "--workers", w.addresses, "--key", w.key_file, "--prune", "none", *options]


@pytest.mark.parametrize("verb", ["--version", "help", "help load", "plan --workers 4 --rate 10G --aggregators 1 --json",
                                  "doctor lo --json", "resources --json", "query resources --json"])
def test_full(verb):
    """Output to a full device is an error, whether the output is larger or smaller than a buffer. With --json, the output is written in one
    call."""
    assert run_full(*verb.split()) == (1, f"fpisa: stdout: {FULL}\n")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_done(tmp_path, form):
    """If a verb has already changed something, its error message says so."""
    assert run_full("key", "new", "k", str(tmp_path / "keys"), *form) == (1, f"fpisa: key new is done; stdout: {FULL}\n")
    assert run_full("query", "data", str(tmp_path / "d"), "--pages", "9", "--visits", "9", *form) == (
        1, f"fpisa: query data is done; stdout: {FULL}\n")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_full_rows(worker, form):
    assert run_full(*query(worker, *form)) == (1, f"fpisa: query run: cannot write to stdout: {FULL}\n")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_reader_is_slow(worker, form):
    """A non-blocking pipe that is sometimes full loses no output if it has room again in the end."""
    out, end = os.pipe()
    os.set_blocking(end, False)
    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
    p = subprocess.Popen([FPISA, *query(worker, *form)], stdout=end, stderr=subprocess.PIPE, text=True)
    os.close(end)
    with p, open(out, "rb", buffering=0) as f:
        said = b"".join(iter(lambda: f.read(4096), b""))
        err = p.stderr.read()
    # Pass also if the reader was fast enough.
    assert (p.returncode, err) == (1, "fpisa: query run: cannot write to stdout: Resource temporarily unavailable\n") or (
        p.returncode == 0 and said.count(b"\n") > ROWS)

# SPDX-License-Identifier: GPL-2.0-only
"""The three programs act as one command: `fpisa VERB` runs the program that has the verb, from the directory of fpisa or from
../libexec/fpisa."""
import os
import shutil
import subprocess

import pytest

from lab import FPISA

OTHERS = ("fpisa-query", "fpisa-lab")
DEMO = "  query demo "  # a script in the source tree


def place(folder, where):
    """Copy fpisa into `folder`, and the other programs into the folder `where` relative to `folder`."""
    path = folder / "sbin"
    path.mkdir()
    shutil.copy(FPISA, path / "fpisa")
    if where is not None:
        (path / where).mkdir(parents=True, exist_ok=True)
        for name in OTHERS:
            shutil.copy(os.path.join(os.path.dirname(FPISA), name), path / where / name)
    return path / "fpisa"


def run(*argv):
    p = subprocess.run([str(a) for a in argv], text=True, capture_output=True)
    return p.returncode, p.stdout, p.stderr


@pytest.mark.parametrize("where", [".", "../libexec/fpisa"])
def test_found(tmp_path, where):
    fpisa = place(tmp_path, where)
    there, here = run(fpisa, "help")[1], run(FPISA, "help")[1]
    assert "  query run " in there and "  demo " in there
    assert set(here.splitlines()) - set(there.splitlines()) == {line for line in here.splitlines() if line.startswith(DEMO)}
    for verb in ("query add", "query worker", "demo", "bench arith"):
        assert run(fpisa, "help", *verb.split()) == run(FPISA, *verb.split(), "--help")
        assert run(fpisa, *verb.split(), "--version")[1] == run(fpisa, "-V")[1]
    assert run(fpisa, "query")[0] == 2 and run(fpisa, "help", "query")[0] == 0
    assert "'query demo'" in run(fpisa, "query", "demo")[2]


def test_arguments_and_status_go_through(tmp_path):
    fpisa = place(tmp_path, ".")
    status, out, err = run(fpisa, "query", "data", tmp_path / "a b", "--pages", "10", "--visits", "10")
    assert status == 0 and (tmp_path / "a b" / "0" / "rankings.csv").exists(), err
    status, out, err = run(fpisa, "query", "data", "--no-such-option")
    assert status == 2 and err.startswith("fpisa: unrecognized option '--no-such-option'\nusage: fpisa query data "), err


def test_not_installed(tmp_path):
    """Without the other programs, fpisa lists no verb that it cannot run, and its error names the program of a missing verb."""
    fpisa = place(tmp_path, None)
    status, out, err = run(fpisa, "help")
    assert status == 0 and "  job add " in out and "  query " not in out and "  demo " not in out
    for verb, name in ("query", "fpisa-query"), ("demo", "fpisa-lab"), ("tables", "fpisa-lab"):
        for argv in ([verb], ["help", verb]):
            assert run(fpisa, *argv) == (1, "", f"fpisa: {verb} is a verb of the program {name}, which is not installed; "
                                                f"install the package {name}\n")

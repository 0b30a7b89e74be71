# SPDX-License-Identifier: GPL-2.0-only
"""A worker's files while a query reads them: written, replaced, cut; and the process that reads Parquet, which may be slow,
hang or die"""
import os
import select
import signal
import time

import pytest

from lab import alive, children, end, wait_until
from queries import Queries, read_whole

GROUPS = "--by", "k", "--value", "v", "--prune", "none"


@pytest.fixture
def asked(lab, tmp_path):
    q = Queries(lab(workers=2), str(tmp_path))
    yield q
    q.close()


# -- Parquet ----------------------------------------------------------------------

def read_parquet_by(q, tmp_path, script):
    """Serve table t, whose Parquet a shell script in place of Python converts to CSV. Return the file with its process number."""
    directory, bin_ = q.directory(0), tmp_path / "bin"
    pid = tmp_path / "pid"
    q.close()
    q.workers.clear()
    if os.path.exists(pid):
        os.unlink(pid)
    q.table(0, [])
    os.replace(os.path.join(directory, "t.csv"), os.path.join(directory, "t.parquet"))
    bin_.mkdir(exist_ok=True)
    with open(bin_ / "python3", "w") as f:
        f.write(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}\n{script}\n")
    os.chmod(bin_ / "python3", 0o755)
    q.serve(env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"})
    return pid


def helper_of(pid):
    wait_until("a process that reads Parquet", lambda: os.path.exists(pid))
    with open(pid) as f:
        return int(f.read())


def test_parquet_takes_long(asked, tmp_path):
    """A query waits as long as rows come, whatever its timeout, and no longer."""
    q = asked
    read_parquet_by(q, tmp_path, "echo k,v; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; echo $i,1; done")
    rows, counts = q.run(*GROUPS, "--timeout", 2, network=False)
    assert len(rows) == counts["table"] == 10
    read_parquet_by(q, tmp_path, "echo k,v; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; echo $i,1; done")
    assert len(q.run(*GROUPS, "--timeout", 1, network=False)[0]) == 10
    pid = read_parquet_by(q, tmp_path, "echo k,v; exec sleep 1000")
    says = q.fails(*GROUPS, "--timeout", 2, network=False)
    assert f"worker {q.net.addresses[0]}:18001: t.parquet: the process that reads Parquet has written nothing in 2000 ms" in says
    wait_until("its end", lambda: not alive(helper_of(pid)))


def test_silence_beside_progress(lab, tmp_path):
    """A silent worker is named after the timeout and 5 s, also while another worker goes on."""
    q = Queries(lab(workers=3), str(tmp_path))
    try:
        read_parquet_by(q, tmp_path, "echo k,v; for i in $(seq 60); do sleep 0.2; echo $i,1; done")
        q.workers[1].send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        says = q.fails(*GROUPS, "--timeout", 1, network=False)
        assert f"worker {q.net.addresses[1]}:18001: no answer in 1000 ms" in says and time.monotonic() - begun < 11, says
    finally:
        q.close()


def test_parquet_process_ends_with_its_query(asked, tmp_path):
    q = asked
    pid = read_parquet_by(q, tmp_path, "echo k,v; while sleep 0.2; do echo 1,1; done")
    p = q.master.spawn(*q.argv(*GROUPS, network=False))
    helper = helper_of(pid)
    end(p)
    wait_until("its end with the master", lambda: not alive(helper) and not children(q.workers[0].pid))
    pid = read_parquet_by(q, tmp_path, "echo k,v; while sleep 0.2; do echo 1,1; done")
    p = q.master.spawn(*q.argv(*GROUPS, network=False))
    helper = helper_of(pid)
    q.workers[0].send_signal(signal.SIGKILL)
    wait_until("its end with the worker", lambda: not alive(helper))
    assert p.wait(30) == 1 and "the connection ended" in p.stderr.read()
    read_parquet_by(q, tmp_path, "echo k,v; kill -9 $$")
    assert "t.parquet: the process that reads Parquet was killed" in q.fails(*GROUPS, network=False)


def test_parquet_written_while_it_is_read(asked, tmp_path):
    q = asked
    path = os.path.join(q.directory(0), "t.parquet")
    read_parquet_by(q, tmp_path, f"echo k,v; echo 1,1; echo >> {path}")
    assert "t.parquet: was written while the query read it; ask again" in q.fails(*GROUPS, network=False)
    # Written in place, with its mtime restored
    read_parquet_by(q, tmp_path, f"echo k,v; echo 1,1; echo z | dd of={path} conv=notrunc 2>/dev/null; touch -d @1000000 {path}")
    os.utime(path, (1000000, 1000000))
    assert "t.parquet: was written while the query read it; ask again" in q.fails(*GROUPS, network=False)


def test_parquet_columns(asked, tmp_path):
    """The process is asked for exactly the columns that the query uses, in the schema's order."""
    q = asked
    schema = "x int32 not null", "k int32 not null", "y text not null", "v real", "z date"
    asked_for = tmp_path / "columns"

    def columns(*options):
        os.unlink(os.path.join(q.directory(0), "t.schema"))
        with open(os.path.join(q.directory(0), "t.schema"), "w") as f:
            f.write("\n".join(schema))
        rows = q.run(*options, "--prune", "none", network=False)[0]
        return asked_for.read_text().split(), rows

    # -I -B -c SCRIPT come before them; each column's value is its place.
    read_parquet_by(q, tmp_path, f'shift 4; echo "$@" > {asked_for}; echo "$@" | tr " " ","; n=0; '
                                 'for i; do n=$((n + 1)); printf "%s%s" "${c}" "$n"; c=,; done; echo')
    assert columns("--by", "k", "--value", "v") == (["k", "v"], [[1, 1, 2, 2, 2, 2]])
    assert columns("--by", "k", "--value", "v", "--where", "x=1,y not null") == (["x", "k", "y", "v"], [[2, 1, 4, 4, 4, 4]])
    assert columns("--columns", "y,x") == (["x", "y"], [["2", 1]])
    assert columns("--columns", "y", "--where", "z null") == (["y", "z"], [])


# -- rows -------------------------------------------------------------------------

LONG = "k int32 not null", "s text not null"


def stopped_scan(q, rows):
    """Return the stopped process of a query for all rows, of which the worker has read a part, because the master's output
    is not read."""
    q.table(0, rows, LONG)
    p = q.master.spawn(*q.argv("--json", network=False))
    assert select.select([p.stdout], [], [], 30)[0]
    time.sleep(0.5)
    p.send_signal(signal.SIGSTOP)
    assert p.poll() is None
    return p


def test_files_change(asked):
    """A file that is written while it is read gives no answer and an error that says why; a replaced file gives the old
    file's answer."""
    q = asked
    rows = [(i, "x" * 1000) for i in range(30000)]
    path = os.path.join(q.directory(0), "t.csv")
    os.makedirs(q.directory(0))
    q.serve()
    for change in "cut", "overwritten", "hidden", "replaced":
        p = stopped_scan(q, rows)
        if change == "hidden":
            # Its mtime is restored; a ctime change by another name does not hide the rest.
            before = os.stat(path)
            with open(path, "r+") as f:
                f.seek(before.st_size - 100)
                f.write("z")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if change in ("hidden", "replaced"):
            with open(path + ".new", "w") as f:
                f.write("k,s\n1,y\n")
            os.replace(path + ".new", path)
        else:
            size = os.path.getsize(path)
            with open(path, "r+") as f:
                f.truncate(size - 100 if change == "cut" else 0)
                f.write("" if change == "cut" else "z" * size)
        p.send_signal(signal.SIGCONT)
        answer, status, err = read_whole(p)
        if change == "replaced":
            assert status == 0 and [tuple(r) for r in answer["rows"]] == rows, err
        else:
            assert status == 1 and "t.csv: was written while the query read it; ask again" in err, err

# SPDX-License-Identifier: GPL-2.0-only
"""Test a worker's files while a query reads them: written, replaced, truncated. Test also the driver that reads Parquet, which may be slow,
hang or die."""
import os
import re
import select
import signal
import time

import pytest

import parquet
from lab import alive, children, end, wait_until
from queries import Queries, read_whole

GROUPS = "--by", "k", "--value", "v", "--prune", "none"


@pytest.fixture
def asked(lab, tmp_path):
    q = Queries(lab(workers=2), str(tmp_path))
    yield q
    q.close()


# -- Parquet ----------------------------------------------------------------------

def read_by_driver(q, tmp_path, **driver):
    """Serve table t, whose Parquet file a test driver reads. tests/lib/driver.c describes the driver's variables. Return the file."""
    path = os.path.join(q.directory(0), "t.parquet")
    q.close()
    q.workers.clear()
    q.table(0, [])
    os.replace(os.path.join(q.directory(0), "t.csv"), path)
    q.serve(env={**os.environ, "FPISA_DRIVER": parquet.driver(tmp_path), **{k: str(v) for k, v in driver.items()}})
    return path


def scan_of(q):
    """Return the process that serves the query."""
    wait_until("a process of the query", lambda: children(q.workers[0].pid))
    return children(q.workers[0].pid)[0]


@pytest.mark.long
def test_parquet_takes_long(asked, tmp_path):
    """A query waits as long as the driver computes, whatever the query's timeout is."""
    q = asked
    read_by_driver(q, tmp_path, ROWS=10, PAUSE_MS=500)
    rows, counts = q.run(*GROUPS, "--timeout", 2, network=False)
    assert len(rows) == counts["table"] == 10
    read_by_driver(q, tmp_path, ROWS=2, PAUSE_MS=3000)
    for options in GROUPS, (*GROUPS[:-1], "workers"):
        assert len(q.run(*options, "--timeout", 1, network=False)[0]) == 2


def test_silence_beside_progress(lab, tmp_path):
    """A silent worker is named after the timeout and 5 s, even while another worker makes progress."""
    q = Queries(lab(workers=3), str(tmp_path))
    try:
        read_by_driver(q, tmp_path, ROWS=200, PAUSE_MS=200)
        q.workers[1].send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        says = q.fails(*GROUPS, "--timeout", 1, network=False)
        assert f"worker {q.net.addresses[1]}:18001: no answer in 1000 ms" in says and time.monotonic() - begun < 30, says
    finally:
        q.close()


def test_driver_ends_with_its_query(asked, tmp_path):
    """A driver that hangs ends with the master's connection, or with the worker. A driver that dies or fails ends the query."""
    q = asked
    read_by_driver(q, tmp_path, ROWS=1, END="hang")
    for options in GROUPS, (*GROUPS[:-1], "workers"):
        p = q.master.spawn(*q.argv(*options, network=False))
        scan = scan_of(q)
        time.sleep(0.5)
        end(p)
        wait_until("its end with the master", lambda pid=scan: not alive(pid) and not children(q.workers[0].pid))
    p = q.master.spawn(*q.argv(*GROUPS, network=False))
    scan = scan_of(q)
    q.workers[0].send_signal(signal.SIGKILL)
    wait_until("its end with the worker", lambda: not alive(scan))
    assert p.wait(60) == 1 and "the peer closed the connection" in p.stderr.read()
    read_by_driver(q, tmp_path, END="kill")
    assert "the peer closed the connection" in q.fails(*GROUPS, network=False)
    read_by_driver(q, tmp_path, END="fail")
    assert "t.parquet: the driver fails\n" in q.fails(*GROUPS, network=False)
    read_by_driver(q, tmp_path, ROWS=1, FORMAT="l")
    assert "t.parquet: column 1 has Arrow's format 'l', which differs" in q.fails(*GROUPS, network=False)


def test_parquet_written_while_it_is_read(asked, tmp_path):
    q = asked
    path = read_by_driver(q, tmp_path, ROWS=40, PAUSE_MS=100)
    for hide in False, True:
        os.utime(path, (1000000, 1000000))
        time.sleep(0.1)
        p = q.master.spawn(*q.argv(*GROUPS, network=False))
        scan_of(q)
        time.sleep(1)
        with open(path, "r+") as f:
            f.write("z")
        if hide:
            os.utime(path, (1000000, 1000000))
        assert "t.parquet was written while the query read it; ask again" in read_whole(p)[2]


def test_parquet_columns(asked, tmp_path):
    """The worker asks the driver for exactly the columns that the query uses, and for the rows that the query selects."""
    q = asked
    statements = tmp_path / "statements"
    read_by_driver(q, tmp_path, ROWS=1, STATEMENTS=statements)
    rows = q.run(*GROUPS, "--where", "v real>=0.5,k not null,k<7", network=False)[0]
    assert [r[:3] for r in rows] == [[1, 1, 1]]
    said = statements.read_text().splitlines()
    # DuckDB before version 2 has no async_threads.
    assert said[:3] == ["threads", "async_threads", "threads"]
    assert said[3:5] == ["SET streaming_buffer_size = '128KB'", "SET TimeZone = 'UTC'"]
    said = said[said.index("SET enable_external_access = false") - 1:]
    at = said[0].split("'")[1]
    assert re.fullmatch(r"/proc/self/fd/\d+", at)
    assert said[:4] == [f"SET allowed_paths = ['{at}']", "SET enable_external_access = false",
                        f"DESCRIBE SELECT * FROM read_parquet('{at}')", f"SELECT count(*) FROM read_parquet('{at}')"]
    assert said[4:] == [f'SELECT CAST("k" AS INTEGER), CAST("v" AS FLOAT) FROM read_parquet(\'{at}\') WHERE CASE WHEN random() < 2 THEN '
                        'CAST(CAST("v" AS FLOAT) AS DOUBLE) ELSE CAST(\'NaN\' AS DOUBLE) END >= CAST(\'0.5\' AS DOUBLE) AND "k" IS NOT NULL AND (CAST("k" AS INTEGER)) < CAST(\'7\' AS BIGINT)']


# -- rows -------------------------------------------------------------------------

LONG = "k int32 not null", "s text not null"


def stopped_scan(q, rows):
    """Return the stopped process of a query for all rows. Because the master's output is not read, the worker has read only some of the
    rows."""
    q.table(0, rows, LONG)
    p = q.master.spawn(*q.argv("--json", network=False))
    assert select.select([p.stdout], [], [], 30)[0]
    time.sleep(0.5)
    p.send_signal(signal.SIGSTOP)
    assert p.poll() is None
    return p


def test_files_change(asked):
    """If a file is written while it is read, the query returns only an error that says why. If a file is replaced, the answer comes from
    the old file."""
    q = asked
    rows = [(i, "x" * 1000) for i in range(30000)]
    path = os.path.join(q.directory(0), "t.csv")
    os.makedirs(q.directory(0))
    q.serve()
    for change in "cut", "overwritten", "hidden", "replaced":
        p = stopped_scan(q, rows)
        if change == "hidden":
            # Restore the file's mtime. A change of its ctime by another hard link does not hide the write.
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
            assert status == 1 and "t.csv was written while the query read it; ask again" in err, err

# SPDX-License-Identifier: GPL-2.0-only
"""Groups beyond work_mem go to a sort of PostgreSQL, and the results have the same bits as without the sort."""
import random
import re
import struct

from lab import draw_seed


def reals(rng, n):
    """Return numbers below 2 with random bits, numbers that cancel, and specials. No sum is beyond the range."""
    others = -1.0, 1e-30, 1e30, -1e30, None, float("inf"), float("nan")
    return [struct.unpack("<f", struct.pack("<I", rng.getrandbits(32) & ~(1 << 30)))[0] if rng.random() < 0.5 else rng.choice(others) for _ in range(n)]


def table(workers, far, name, rng, rows, keys):
    """Create a table with rows in random order, so that a key has rows before and after a spill."""
    values = reals(rng, rows)
    workers.table(name, ("k int32", "d date", "x real"), [(rng.choice((None, rng.randrange(keys))), f"2024-02-{1 + rng.randrange(28):02}", x) for x in values])
    far(f"IMPORT FOREIGN SCHEMA x LIMIT TO ({name}) FROM SERVER far INTO public")


def peak(said):
    return int(re.search(r"VmHWM:\s+(\d+)", "\n".join("|".join(r) for r in said)).group(1))


def test_same_bits(far, workers):
    """With any work_mem the digest of the keys and of the bits of all aggregates is the same. PostgreSQL's own grouping gives the same
    digest."""
    rng = random.Random(draw_seed())
    table(workers, far, "spilled", rng, 60000, 9000)
    query = ("SELECT count(*), md5(string_agg(t, ',' ORDER BY t)) FROM (SELECT concat_ws('/', k, d, count(x), float4send(max(x)), float4send(min(x)), "
             "float4send(fpisa_sum(x)), float8send(fpisa_avg(x))) AS t FROM spilled GROUP BY k, d) s")
    right = far(f"SET fpisa.pushdown = off; SET work_mem = '1GB'; {query}")
    assert int(right[0][0]) > 20000
    for work_mem, multiplier in (("64kB", 1), (f"{rng.randrange(64, 4096)}kB", rng.choice((1, 2.5))), ("4MB", 1), ("1GB", 2)):
        for preaggregate in ("on", "off"):
            setting = f"SET fpisa.pruning = none; SET fpisa.preaggregate = {preaggregate}; SET work_mem = '{work_mem}'; SET hash_mem_multiplier = {multiplier};"
            assert far(f"{setting} {query}") == right, setting
    explained = "\n".join(r[0] for r in far("SET fpisa.pruning = none; SET work_mem = '64kB'; EXPLAIN (ANALYZE) SELECT k, d, max(x) FROM spilled GROUP BY k, d"))
    assert int(re.search(r"Groups Spilled: (\d+)", explained).group(1)) >= 20000, explained


def test_memory(far, workers):
    """With 200,000 groups of about 40 MB, the peak memory of the session is below that of a session that keeps them."""
    rng = random.Random(draw_seed())
    n = 200000
    workers.table("wide", ("k int32 not null", "x real"), [(i, rng.random()) for i in range(n)])
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (wide) FROM SERVER far INTO public")
    query = "SELECT count(*), sum(c) FROM (SELECT k, count(*) AS c, max(x) FROM wide GROUP BY k) s"
    hwm = "SELECT pg_read_file('/proc/self/status')"
    none = peak(far(f"SET fpisa.pruning = none; SELECT count(*) FROM (SELECT k, max(x) FROM wide WHERE k < 5 GROUP BY k) s; {hwm}"))
    used = {}
    for work_mem in ("64kB", "1MB", "4MB", "1GB"):
        said = far(f"SET fpisa.pruning = none; SET hash_mem_multiplier = 1; SET work_mem = '{work_mem}'; {query}; {hwm}")
        assert said[0] == (str(n), str(n))
        used[work_mem] = peak(said) - none
    assert used["1GB"] > 30000, used
    # Allow for the groups, and for the sort after them, which may not reuse their memory. Allow also for the memory of libfpisa and of the
    # server in any statement that sorts.
    for work_mem, kb in (("64kB", 64), ("1MB", 1024), ("4MB", 4096)):
        assert used[work_mem] < 3 * kb + 6000, used


def test_files_go(far, workers):
    """The temporary files of a statement are removed when it ends, is stopped early and read again, or fails."""
    rng = random.Random(draw_seed())
    table(workers, far, "ended", rng, 20000, 9000)
    setting = "SET fpisa.pruning = none; SET hash_mem_multiplier = 1; SET work_mem = '64kB';"
    groups = "SELECT k, d, max(x) FROM ended GROUP BY k, d"
    files = "SELECT count(*) FROM pg_ls_tmpdir()"
    assert far(f"{setting} SELECT count(*) FROM ({groups} LIMIT 5) s; {files}") == [("5",), ("0",)]
    assert far(f"{setting} BEGIN; DECLARE a CURSOR FOR {groups}; MOVE 5 IN a; CLOSE a; COMMIT; {files}")[-1] == ("0",)
    loop = f"SET enable_material = off; SELECT count((SELECT count(*) FROM ({groups} OFFSET g % 2) s)) FROM generate_series(1, 3) g"
    assert far(f"{setting} {loop}; {files}") == [("3",), ("0",)]
    assert far(f"{setting} SET temp_file_limit = '16kB'; DO $$ BEGIN PERFORM count(*) FROM ({groups}) s; EXCEPTION WHEN configuration_limit_exceeded "
               f"THEN PERFORM set_config('a.b', 'stopped', false); END $$; SELECT current_setting('a.b'); {files}") == [("stopped",), ("0",)]


def test_first_rows(far, workers):
    """Memory for foreign groups counts as well. The planner lets PostgreSQL group if the groups would take more than work_mem. Rows that
    the statement does not need then still stay with the workers."""
    rng = random.Random(draw_seed())
    rows = [(i, rng.random()) for i in range(40000)]
    workers.table("first", ("k int32 not null", "x real not null"), rows)
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (first) FROM SERVER far INTO public")
    setting = "SET fpisa.pruning = none; SET hash_mem_multiplier = 1;"
    right = far("SET fpisa.pushdown = off; SELECT sum(k) FROM (SELECT k FROM first ORDER BY x LIMIT 9000) s")
    for work_mem, refused in (("64kB", True), ("4MB", False)):
        there = f"{setting} SET work_mem = '{work_mem}';"
        said = "\n".join(r[0] for r in far(f"{there} EXPLAIN SELECT k FROM first ORDER BY x LIMIT 9000"))
        assert ("the first rows take about" in said and "more than work_mem * hash_mem_multiplier, 64 kB" in said) == refused, said
        assert far(f"{there} SELECT sum(k) FROM (SELECT k FROM first ORDER BY x LIMIT 9000) s") == right
        assert far(f"{there} SELECT count(*), sum(k) FROM first") == [("40000", str(sum(r[0] for r in rows)))]


def test_first_rows_are_long(far, workers):
    """If texts are longer than the planner guesses, the statement needs no more memory than with PostgreSQL's sort, gives the same answer,
    and EXPLAIN shows the sort."""
    n = 400
    workers.table("long", ("x real", "t text"), [(float(i), f"{i:06}" + "w" * 100000) for i in range(n)])
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (long) FROM SERVER far INTO public")
    setting = "SET fpisa.pruning = none; SET hash_mem_multiplier = 1; SET work_mem = '1MB';"
    query, hwm = f"SELECT t FROM long ORDER BY x LIMIT {n - 1}", "SELECT pg_read_file('/proc/self/status')"
    used = {}
    for pushdown in "off", "on":
        said = far(f"{setting} SET fpisa.pushdown = {pushdown}; SELECT count(*), sum(left(t, 6)::int) FROM ({query}) s; {hwm}")
        assert said[0] == (str(n - 1), str((n - 1) * (n - 2) // 2))
        used[pushdown] = peak(said)
    assert used["on"] < used["off"] + 4000, used
    said = "\n".join(r[0] for r in far(f"{setting} EXPLAIN (ANALYZE) {query}"))
    assert f"the first {n - 1} rows take more than work_mem * hash_mem_multiplier, 1024 kB" in said and "Remote Query: all rows" in said, said
    # Read the groups again, as the inner side of a loop. The workers still compute groups that fit into memory.
    assert far(f"{setting} SET enable_material = off; SELECT sum((SELECT count(t) FROM ({query} OFFSET g) s)) FROM generate_series(1, 2) g") == [(str(2 * n - 3),)]
    assert "first 5 rows by x" in "\n".join(r[0] for r in far(f"{setting} EXPLAIN (ANALYZE) SELECT t FROM long ORDER BY x LIMIT 5"))

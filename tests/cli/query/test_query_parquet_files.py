# SPDX-License-Identifier: GPL-2.0-only
"""Workers read Parquet files of every encoding, codec and page version that PyArrow writes, and every file of Apache's parquet-testing that
DuckDB reads. FPISA_PARQUET_TESTING names a checkout of github.com/apache/parquet-testing, which is not part of this tree."""
import csv
import datetime
import decimal
import glob
import io
import os
import random
import re
import shutil
import subprocess

import pytest

import parquet
from foreign import FPISA, Workers
from queries import real
from seeds import draw_seed

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
NESTED = re.compile(r"STRUCT|MAP|UNION|VARIANT|.*\]$")
COLUMNS = 64
# why a worker refuses a value of a file that DuckDB reads
REFUSED = "a text has a zero byte", "is not in the years 1 to 9999", "does not have its checksum"

WRITE = """
import pickle, sys, pyarrow as pa, pyarrow.parquet as pq
rows, ways = pickle.load(sys.stdin.buffer)
schema = pa.schema([("i", pa.int32()), ("l", pa.int64()), ("u", pa.uint8()), ("f", pa.float32()), ("d", pa.float64()), ("c", pa.decimal128(9, 2)),
                    ("e", pa.decimal128(38, 10)), ("s", pa.string()), ("b", pa.bool_()), ("day", pa.date32()), ("t", pa.timestamp("us")),
                    ("n", pa.list_(pa.int32()))])
table = pa.Table.from_pylist(rows, schema)
for name, (groups, options) in ways.items():
    with pq.ParquetWriter(f"{sys.argv[1]}/{name}.parquet", schema, **options) as writer:
        for begin, end in groups:
            writer.write_table(table.slice(begin, end - begin))
sys.stdout.buffer.write(pickle.dumps(None))"""

ROWS = 500
WHOLE, PARTS = [(0, ROWS)], [(0, 1), (1, 1), (1, 300), (300, ROWS)]  # row groups; one is empty
PLAIN = {"use_dictionary": False}
DELTA = {**PLAIN, "column_encoding": {"i": "DELTA_BINARY_PACKED", "l": "DELTA_BINARY_PACKED", "f": "BYTE_STREAM_SPLIT", "d": "BYTE_STREAM_SPLIT",
                                      "s": "DELTA_BYTE_ARRAY", "b": "RLE", "t": "DELTA_BINARY_PACKED"}}
WAYS = {
    **{f"{codec}_{version}": (WHOLE, {"compression": codec, "data_page_version": f"{version}.0"})
       for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4") for version in (1, 2)},
    "plain": (PARTS, PLAIN), "delta": (PARTS, DELTA), "delta_2": (WHOLE, {**DELTA, "data_page_version": "2.0"}),
    "delta_length": (PARTS, {**PLAIN, "column_encoding": {"s": "DELTA_LENGTH_BYTE_ARRAY"}}),
    "checksums": (PARTS, {"write_page_checksum": True}), "int96": (WHOLE, {"use_deprecated_int96_timestamps": True}),
    "decimals_as_integers": (WHOLE, {"store_decimal_as_integer": True}), "version_1": (WHOLE, {"version": "1.0"}),
    "index": (PARTS, {"write_page_index": True}), "tiny_pages": (PARTS, {"data_page_size": 1, "write_batch_size": 8}),
    "no_statistics": (PARTS, {"write_statistics": False}), "empty": ([(0, 0)], {}), "no_groups": ([], {}),
}


@pytest.fixture(scope="module")
def duckdb():
    return parquet.engine()


@pytest.fixture(scope="module")
def worker(duckdb):
    w = Workers(1, before=("env", f"FPISA_DRIVER={duckdb[1]['FPISA_DRIVER']}"))
    yield w
    w.close()


def ask(w, *options, table="t"):
    """Return (rows as texts, stderr). Each byte of a text is a character, and NULL is an empty text."""
    p = subprocess.run([FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, "--prune", "none", *options], capture_output=True)
    assert p.returncode in (0, 1), p.stderr
    return [r or [""] for r in csv.reader(io.StringIO(p.stdout.decode("latin-1"), newline=""))][1:], p.stderr.decode(errors="replace")


# -- PyArrow -----------------------------------------------------------------------

def draw(rng):
    """Return a random row. Half of the texts occur often."""
    def some(value):
        return None if rng.random() < 0.1 else value
    text = rng.choice(("", "a", "é", "long " * 20)) if rng.random() < 0.5 else f"{rng.getrandbits(64):x}"
    return {"i": some(rng.choice((-2 ** 31, 2 ** 31 - 1, rng.randrange(9)))), "l": some(rng.choice((-2 ** 63, 2 ** 63 - 1, rng.randrange(-9, 9)))),
            "u": some(rng.randrange(256)), "f": some(rng.choice((1.5, -0.25, 2.0 ** 100))), "d": some(rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300)),
            "c": some(decimal.Decimal(rng.randrange(-10 ** 9 + 1, 10 ** 9)).scaleb(-2)), "e": some(decimal.Decimal(rng.randrange(10 ** 15)).scaleb(-10)),
            "s": some(text), "b": some(rng.random() < 0.5), "day": some(datetime.date(rng.randrange(1, 9999), 2, 28)),
            "t": some(datetime.datetime(rng.randrange(1900, 2200), 1, 2, 3, 4, 5, rng.randrange(10 ** 6))), "n": some([1, None])}


def shown(column, value):
    """Return a value as the worker writes it. Numbers of floating point are compared as numbers."""
    if value is None:
        return ""
    if column == "b":
        return str(value).lower()
    if column == "t":
        return value.isoformat(" ").rstrip("0") if value.microsecond else value.isoformat(" ")
    return value.encode().decode("latin-1") if column == "s" else format(value, "f") if column in "ce" else str(value)


def test_pyarrow_writes(worker, tmp_path):
    rng = random.Random(draw_seed())
    rows = [draw(rng) for _ in range(ROWS)]
    import pickle
    parquet.with_pyarrow(WRITE, worker.directory(0), input=pickle.dumps((rows, WAYS)))
    columns = [c for c in rows[0] if c != "n"]
    for name, (groups, _) in WAYS.items():
        there = [row for begin, end in groups for row in rows[begin:end]]
        got, said = ask(worker, "--columns", ",".join(columns), table=name)
        assert len(got) == len(there), (name, said)
        for c, at in ((c, i) for i, c in enumerate(columns)):
            if c in "fd":
                of = real if c == "f" else float
                assert [of(float(r[at])) if r[at] else None for r in got] == [r[c] for r in there], (name, c)
            else:
                assert [r[at] for r in got] == [shown(c, r[c]) for r in there], (name, c)
        for c in "l", "c", "e":
            values = [r[c] for r in there if r[c] is not None]
            total = ask(worker, "--total", "--value", c, table=name)[0][0]
            with decimal.localcontext(decimal.Context(prec=60)):
                assert total[:2] == [str(len(values)), f"{sum(map(decimal.Decimal, values)):f}" if values else ""], (name, c)


# -- checksums ----------------------------------------------------------------------

DAMAGE = """
import pickle, random, sys, pyarrow as pa, pyarrow.parquet as pq
folder, seed, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, found = random.Random(seed), []
ways = [{"compression": c, "data_page_version": v, "use_dictionary": d, "row_group_size": 150, "data_page_size": 512}
        for c in ("none", "snappy", "zstd") for v in ("1.0", "2.0") for d in (True, False)]
def read(path, column):
    with pq.ParquetFile(path, page_checksum_verification=True) as f:
        return f.read(columns=[column])[column].to_pylist()
for i in range(n):
    x, y = [rng.uniform(-1, 1) for _ in range(400)], [rng.randrange(50) for _ in range(400)]
    path = f"{folder}/d{i}.parquet"
    pq.write_table(pa.table({"x": pa.array(x), "y": pa.array(y, pa.int64())}), path, write_page_checksum=True, **rng.choice(ways))
    data = bytearray(open(path, "rb").read())
    if i:
        pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        at = rng.randrange(4, len(data) if i % 10 == 0 else pages)
        data[at] ^= 1 << rng.randrange(8)
        open(path, "wb").write(data)
    for column, values in ("x", x), ("y", y):
        try:
            found.append((i, column, "equal" if read(path, column) == values else "other"))
        except Exception as e:
            found.append((i, column, "crc" if "CRC" in str(e) else "refused"))
sys.stdout.buffer.write(pickle.dumps(found))"""


def test_damaged_pages(worker):
    """A page that does not have its checksum is refused if a query uses its column, as PyArrow refuses it. Damage elsewhere ends no worker."""
    n, refused, named = 80, 0, 0
    found = parquet.with_pyarrow(DAMAGE, worker.directory(0), str(draw_seed()), str(n))
    for i, column, verdict in found:
        rows, said = ask(worker, "--columns", column, table=f"d{i}")
        sums, why = ask(worker, "--total", "--value", column, table=f"d{i}")
        assert all("rows:" in s or s.count("\n") == 1 and "connection" not in s for s in (said, why)), (i, column, said, why)
        refused += verdict == "crc"
        if verdict == "crc":  # the error names no page if the damage is in the page's length
            named += f"d{i}.parquet: column {column}: the page at byte" in said and "does not have its checksum" in why
            assert not rows and not sums, (i, column, said, why)
        elif verdict == "equal":  # DuckDB refuses more metadata than PyArrow
            assert "checksum" not in said + why and ("rows:" not in said or len(rows) == 400 and sums[0][0] == "400"), (i, column, said, why)
    assert [(v, len(ask(worker, table=f"d{i}")[0])) for i, _, v in found[:2]] == [("equal", 400)] * 2
    assert refused > n / 4 and named > 0.9 * refused


WRITE_PARTS = """
import os, pickle, random, sys, pyarrow as pa, pyarrow.parquet as pq
folder, damaged = sys.argv[1], ["x"] * 3 + ["p"] * 3 + [None] * 6
random.Random(int(sys.argv[2])).shuffle(damaged)
for p, damage in enumerate(damaged):
    path = f"{folder}/parts/p={p}/a.parquet"
    os.makedirs(os.path.dirname(path))
    pq.write_table(pa.table({"x": pa.array([p] * 100), "y": pa.array([1] * 100), "p": pa.array(["other"] * 100)}), path, write_page_checksum=True)
    with pq.ParquetFile(path) as f:
        columns = [f.metadata.row_group(0).column(i) for i in range(3)]
    data = bytearray(open(path, "rb").read())
    for c in columns:
        if c.path_in_schema == damage:
            data[c.dictionary_page_offset + c.total_compressed_size - 1] ^= 1
    open(path, "wb").write(data)
sys.stdout.buffer.write(pickle.dumps(damaged))"""

CONDITIONS = {"<": int.__lt__, "<=": int.__le__, "=": int.__eq__, "<>": int.__ne__, ">=": int.__ge__, ">": int.__gt__}


def test_damaged_pages_not_read(worker):
    """Damage is no error in a file that --where excludes by its directory, or in a column that a directory's value replaces."""
    seed, refused, answered = draw_seed(), 0, 0
    rng = random.Random(seed)
    damaged = parquet.with_pyarrow(WRITE_PARTS, worker.directory(0), str(seed))
    for _ in range(40):
        terms = [(rng.choice(list(CONDITIONS)), rng.randrange(12)) for _ in range(rng.randint(1, 2))]
        where = [f"p{op}{value}" for op, value in terms] + ["y=1"]
        read = [p for p in range(12) if all(CONDITIONS[op](p, value) for op, value in terms)]
        rng.shuffle(where)
        if rng.random() < 0.1:  # the conditions after this one do not decide which files are read
            where, files = ["p never null", *where], range(12)
        else:
            files = read
        bad = [p for p in files if damaged[p] == "x"]
        rows, said = ask(worker, "--by", "p", "--value", "x", "--where", ",".join(where), table="parts")
        if bad:
            assert not rows and any(f"parts/p={p}/a.parquet: column x: the page at byte" in said for p in bad), (where, bad, said)
        else:
            assert sorted((int(r[0]), int(r[1])) for r in rows) == [(p, 100) for p in read], (where, said)
        refused, answered = refused + bool(bad), answered + (not bad and bool(read))
    assert refused and answered
    assert len(ask(worker, "--by", "p", "--value", "y", table="parts")[0]) == 12  # no query uses column p of the files


# -- parquet-testing ----------------------------------------------------------------

def same(x, y, type_):
    """Return whether these texts are the same number or date, or both are empty."""
    if x.lower() == y.lower() or not x or not y or type_ == "DATE":
        return x.lower() == y.lower()
    of = real if type_ == "FLOAT" else float if type_ == "DOUBLE" else decimal.Decimal
    return of(float(x) if of is real else x) == of(float(y) if of is real else y)


def as_text(value):
    return "" if value is None else (value if isinstance(value, bytes) else value.encode()).decode("latin-1")


def check(w, db, path):
    """Compare all rows, and the numbers of each column. Return why the worker or DuckDB refuses the file, or None."""
    source = f"read_parquet('{path}')"
    shutil.copy(path, os.path.join(w.directory(0), "t.parquet"))
    try:
        described = db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        columns = [(c[0], c[1]) for c in described if NAME.fullmatch(c[0]) and not NESTED.match(c[1])]
        texts = ", ".join(f'"{c}"' if t in ("VARCHAR", "BLOB") else f'"{c}"::VARCHAR' for c, t in columns) or "1"
        want = [list(map(as_text, r)) if columns else [] for r in db.execute(f"SELECT {texts} FROM {source}").fetchall()]
    except Exception as e:
        got, said = ask(w)
        assert said.count("\n") == 1 and not got, (path, said)
        return str(e)
    got, said = ask(w)
    if not columns or len(columns) > COLUMNS:
        assert "has no column that can be queried" in said or "has more than" in said, (path, said)
        return said
    if "fpisa: " in said and "rows:" not in said:
        assert any(why in said for why in REFUSED), (path, said)
        return said
    assert got == want, path
    for c, type_ in columns:
        if not re.match(r"U?(TINY|SMALL|BIG)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL|DATE$", type_):
            continue
        n, least, most = db.execute(f'SELECT count("{c}"), min("{c}")::VARCHAR, max("{c}")::VARCHAR FROM {source}').fetchone()
        count, _, low, high, _ = ask(w, "--total", "--value", c)[0][0]
        assert int(count) == n and same(low, least or "", type_) and same(high, most or "", type_), (path, c, low, least, high, most)
    return None


def test_parquet_testing(worker, duckdb):
    folder = os.environ.get("FPISA_PARQUET_TESTING")
    if not folder:
        pytest.skip("FPISA_PARQUET_TESTING does not name a checkout of apache/parquet-testing")
    files = sorted(glob.glob(f"{folder}/*data/**/*.parquet", recursive=True))
    assert len(files) > 50
    db = duckdb[0].connect()
    db.execute("SET TimeZone = 'UTC'")
    read = 0
    for path in files:
        why = check(worker, db, path)
        read += not why
        print(os.path.relpath(path, folder), why.strip() if why else "equal", sep=": ")
    assert read > 40

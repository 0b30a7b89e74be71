# SPDX-License-Identifier: GPL-2.0-only
"""For random statements over random Parquet files, DuckDB selects the same rows, and aggregates equal those of rational arithmetic."""
import decimal
import fractions
import json
import math
import os
import random
import subprocess

import parquet
from foreign import FPISA, Workers
from queries import exact_sum, place, real, rounded
from seeds import draw_seed

REALS = [0.0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, 1e30, -1e30, 1.0, math.inf, -math.inf, math.nan]
DOUBLES = [*REALS[:2], 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 1e200, -1e200, 0.1, *REALS[-3:]]
TEXTS = ["", " ", "a", "é", "x" * 31, 'a "b", c', "line\nline", "'", "\\x41", "NULL", "z" * 40, "Ω" * 900]
DAYS = ["0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31"]
ENDS = {"TINYINT": 2 ** 7, "SMALLINT": 2 ** 15, "INTEGER": 2 ** 31, "BIGINT": 2 ** 63}
# DuckDB's types, and the types that the worker gives them without a schema
TYPES = {"TINYINT": "int32", "SMALLINT": "int32", "INTEGER": "int32", "BIGINT": "int64", "UINTEGER": "int64", "UBIGINT": "decimal", "FLOAT": "real",
         "DOUBLE": "double", "DECIMAL(9,2)": "decimal", "DECIMAL(18,0)": "decimal", "DECIMAL(38,10)": "decimal", "DATE": "date", "VARCHAR": "text",
         "BLOB": "text", "BOOLEAN": "text", "TIMESTAMP": "timestamp"}
OPERATORS = "<", "<=", "=", "<>", ">=", ">"
TABLES, STATEMENTS, ROWS = int(os.environ.get("FPISA_ROUNDS") or 6), 40, 150


def decimal_text(rng, type_):
    digits, scale = map(int, type_[8:-1].split(","))
    n = rng.choice((0, 1, 10 ** digits - 1, rng.randrange(10 ** digits), rng.randrange(1000)))
    return format(decimal.Decimal((rng.choice((0, 1)), tuple(map(int, str(n))), -scale)), "f")


def draw(rng, type_):
    """Return a random value as SQL text, or None."""
    if rng.random() < 0.15:
        return None
    if type_ in ENDS:
        return str(rng.choice((-ENDS[type_], ENDS[type_] - 1, 0, rng.randrange(-5, 5))))
    if type_.startswith("U"):
        return str(rng.choice((0, 2 ** (32 if type_ == "UINTEGER" else 64) - 1, rng.randrange(9))))
    if type_.startswith("DECIMAL"):
        return decimal_text(rng, type_)
    if type_ in ("FLOAT", "DOUBLE"):
        x = rng.choice((rng.choice(REALS if type_ == "FLOAT" else DOUBLES), rng.uniform(-1e6, 1e6), rng.randrange(4) / 2))
        return repr(real(x) if type_ == "FLOAT" else x)
    if type_ == "DATE":
        return rng.choice(DAYS)
    if type_ == "TIMESTAMP":
        return rng.choice(("1970-01-01 00:00:00", "2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "0001-01-01 00:00:00", "9999-12-31 12:00:00"))
    return rng.choice(("true", "false")) if type_ == "BOOLEAN" else rng.choice(TEXTS)


def quoted(text):
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def canonical(kind, value):
    """Return a value of DuckDB, or of an answer, in a common form."""
    if value is None:
        return None
    if kind in ("real", "double"):
        x = float(value)
        return "NaN" if math.isnan(x) else (real(x) if kind == "real" and math.isfinite(x) else x) + 0.0
    if kind in ("int32", "int64", "decimal"):
        return decimal.Decimal(value)
    if kind == "timestamp":
        whole, _, fraction = str(value).partition(".")
        return f"{whole}.{fraction}".rstrip("0").rstrip(".") if fraction else whole
    return value.decode() if isinstance(value, bytes) else str(value)


class Table:
    """A table in two copies: as Parquet at a worker, and in DuckDB"""

    def __init__(self, db, rng, worker, number):
        self.db, self.rng, self.worker, self.name = db, rng, worker, f"t{number}"
        # Two numbers and a key are in every table.
        types = ["FLOAT", rng.choice(("DOUBLE", "BIGINT", "DECIMAL(38,10)")), rng.choice(("VARCHAR", "INTEGER")), *rng.sample(list(TYPES), 4)]
        self.columns = {f"c{i}": t for i, t in enumerate(types)}
        rows = [[draw(rng, t) for t in types] for _ in range(ROWS)]
        columns = ", ".join(f"{'encode' if t == 'BLOB' else ''}({c}){'' if t == 'BLOB' else '::' + t} AS {c}" for c, t in self.columns.items())
        values = ", ".join(f"({', '.join(map(quoted, r))})" for r in rows)
        db.execute(f"CREATE TABLE {self.name} AS SELECT {columns} FROM (VALUES {values}) v({', '.join(self.columns)})")
        db.execute(f"COPY {self.name} TO '{worker.directory(0)}/{self.name}.parquet' (ROW_GROUP_SIZE 2048)")

    def kind(self, column):
        return TYPES[self.columns[column]]

    def numbers(self):
        return [c for c in self.columns if self.kind(c) in ("int32", "int64", "real", "double", "decimal", "date", "timestamp")]

    def condition(self):
        """Return a random condition, for fpisa and for DuckDB."""
        rng, column = self.rng, self.rng.choice(list(self.columns))
        type_, kind = self.columns[column], self.kind(column)
        if rng.random() < 0.2:
            word = rng.choice(("null", "not null"))
            return f"{column} {word}", f"{column} IS {word.upper()}"
        value, operator = draw(rng, type_) or "0", rng.choice(OPERATORS)
        if kind in ("date", "timestamp") and value == "0":
            value = DAYS[2]
        ours = quoted(value)
        if kind == "text":
            # Texts are compared by their bytes.
            left = column if type_ == "BLOB" else f"encode({column}::VARCHAR)"
            return f"{column} {operator} {ours}", f"{left} {operator} encode({quoted(value)})"
        if kind == "real":
            return f"{column} {operator} {ours}", f"{column}::DOUBLE {operator} {ours}::DOUBLE"
        return f"{column} {operator} {ours}", f"{column} {operator} {ours}::{type_}"

    def where(self):
        terms = [self.condition() for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3)))]
        return (("--where", ",".join(t[0] for t in terms)) if terms else ()), " AND ".join(t[1] for t in terms) or "true"

    def rows(self, columns, where):
        """Return the rows that DuckDB selects."""
        listed = ", ".join(c if self.columns[c] in ("BLOB", "DATE") or self.kind(c) != "text" else f"{c}::VARCHAR" for c in columns)
        listed = listed.replace("DATE", "VARCHAR") or "1"
        got = self.db.execute(f"SELECT {listed} FROM {self.name} WHERE {where}").fetchall()
        return [tuple(canonical(self.kind(c), v) for c, v in zip(columns, r)) for r in got]

    def ask(self, *options, fails=None):
        w = self.worker
        p = subprocess.run([FPISA, "query", "run", self.name, "--workers", w.addresses, "--key", w.key_file, "--json", *options],
                           capture_output=True, text=True)
        if fails:
            assert p.returncode == 1 and fails in p.stderr, (options, p.stderr)
            return None
        assert p.returncode == 0, (options, p.stderr)
        said = json.loads(p.stdout, parse_float=str, parse_int=str)
        assert said["counts"]["table"] == str(ROWS)
        return said["rows"]


def key_bytes(kinds, key):
    """Return the number of bytes of a key whose columns may be NULL. The types are DuckDB's."""
    def of(type_, value):
        if TYPES[type_] == "text":
            return 1 + len((value or "").encode())
        if type_.startswith("DECIMAL(38") or type_ == "UBIGINT":
            return 16
        return 4 if TYPES[type_] in ("int32", "real", "date") else 8
    return sum(1 + of(t, v) for t, v in zip(kinds, key))


def exact(values, kind):
    """Return the sum of the values, rounded as the column's type requires."""
    if kind == "real":
        return canonical("real", exact_sum([math.nan if v == "NaN" else v for v in values])[0])
    if kind in ("date", "timestamp"):
        return None
    if kind != "double":
        with decimal.localcontext(decimal.Context(prec=80)):
            return sum(values, decimal.Decimal(0))
    special = {v for v in values if v == "NaN" or not math.isfinite(v)}
    if special:
        return special.pop() if len(special) == 1 else "NaN"
    total = sum(map(fractions.Fraction, values), fractions.Fraction(0))
    if abs(total) >= 2 ** 1024 - 2 ** 970:
        return math.inf if total > 0 else -math.inf
    return float(rounded(total, 53, -1074)) + 0.0


def order(kind):
    return (lambda v: place(math.nan if v == "NaN" else v)) if kind in ("real", "double") else lambda v: v


def check_groups(t, prune):
    rng = t.rng
    keys = rng.sample(list(t.columns), rng.choice((0, 1, 1, 2)))
    value = rng.choice(t.numbers())
    where, sql = t.where()
    options = (*(("--by", ",".join(keys)) if keys else ("--total",)), "--value", value, *where, *prune)
    groups, kind = {} if keys else {(): []}, t.kind(value)
    for *key, v in t.rows([*keys, value], sql):
        groups.setdefault(tuple(key), []).append(v)
    if any(key_bytes([t.columns[k] for k in keys], key) > 32 for key in groups):
        return t.ask(*options, fails="the key needs")
    got = t.ask(*options)
    assert len(got) == len(groups), options
    for row in got:
        key = tuple(canonical(t.kind(c), v) for c, v in zip(keys, row))
        there = [v for v in groups[key] if v is not None]
        count, total, least, most = row[len(keys):len(keys) + 4]
        assert int(count) == len(there), (options, key)
        want = (exact(there, kind), min(there, key=order(kind)), max(there, key=order(kind))) if there else (None,) * 3
        assert tuple(canonical(kind, v) for v in (total, least, most)) == want, (options, key, row)


def check_filters(t, prune):
    """Aggregate rows that meet conditions beside all rows, and count such rows."""
    rng = t.rng
    keys = rng.sample(list(t.columns), rng.choice((0, 1)))
    where, sql = t.where()
    entries = []
    for _ in range(rng.randrange(1, 4)):
        column = rng.choice([*t.numbers(), "*"])
        terms = [t.condition() for _ in range(rng.choice((0, 1, 1, 2)))]
        entries.append((column, ",".join(c[0] for c in terms), " AND ".join(c[1] for c in terms) or "true"))
    groups = {} if keys else {(): []}
    for key in t.rows(keys, sql):
        groups.setdefault(key, [])
    if any(key_bytes([t.columns[k] for k in keys], key) > 31 for key in groups):
        return
    values = ",".join(f"{column} filter ({ours})" if ours else column for column, ours, _ in entries)
    rows = t.ask(*(("--by", ",".join(keys)) if keys else ("--total",)), "--value", values + (",*" if len(entries) == 1 else ""), *where, *prune)
    assert len(rows) == len(groups), values
    got = {tuple(canonical(t.kind(c), v) for c, v in zip(keys, row)): row[len(keys) + 1:] for row in rows}
    for column, ours, theirs in entries:
        there = {key: [] for key in groups}
        for row in t.rows([*keys, *([column] if column != "*" else [])], f"({sql}) AND ({theirs})"):
            there[row[:len(keys)]].append(row[len(keys):])
        for key, row in got.items():
            found = [v for v, in there[key] if v is not None] if column != "*" else there[key]
            assert int(row[0]) == len(found), (values, key, column, ours)
            if column != "*":
                is_a = t.kind(column)
                want = (exact(found, is_a), min(found, key=order(is_a)), max(found, key=order(is_a))) if found else (None,) * 3
                assert tuple(canonical(is_a, v) for v in row[1:4]) == want, (values, key, column, row)
            del row[:1 if column == "*" else 5]


def check_distinct(t, prune):
    """Count distinct values of up to two columns, half of the time beside other aggregates, and of rows that meet conditions."""
    rng = t.rng
    keys = rng.sample(list(t.columns), rng.choice((0, 1, 2)))
    columns, where, (ours, theirs) = rng.sample(list(t.columns), rng.choice((1, 1, 2))), t.where(), t.condition()
    other = rng.choice(t.numbers()) if rng.random() < 0.5 else None
    groups = {} if keys else {(): ([], [])}
    for i, sql in enumerate((where[1], f"({where[1]}) AND ({theirs})")):
        for row in t.rows([*keys, *columns, *([other] if other else [])], sql):
            groups.setdefault(row[:len(keys)], ([], []))[i].append(row[len(keys):])
    options = (*(("--by", ",".join(keys)) if keys else ("--total",)), *where[0], *prune)
    filtered = rng.random() < 0.5
    values = [*([other] if other else []), *([f"count(distinct {columns[0]}) filter ({ours})"] if filtered else [])]
    options += (*(("--value", ",".join(values)) if values else ()), "--distinct", ",".join(columns))
    if any(key_bytes([t.columns[k] for k in (*keys, c)], (*key, row[i])) - 1 > 31
           for key, there in groups.items() for row in there[0] for i, c in enumerate(columns) if row[i] is not None) or \
            any(key_bytes([t.columns[k] for k in keys], key) > 31 for key in groups):
        return t.ask(*options, fails="the key needs")
    rows = t.ask(*options)
    assert len(rows) == len(groups), options
    for row in rows:
        every, some = groups[tuple(canonical(t.kind(c), v) for c, v in zip(keys, row))]
        want = [str(len(every))]
        if other:
            found, kind = [r[-1] for r in every if r[-1] is not None], t.kind(other)
            count, total, least, most = row[len(keys) + 1:len(keys) + 5]
            sums = (exact(found, kind), min(found, key=order(kind)), max(found, key=order(kind))) if found else (None,) * 3
            assert int(count) == len(found) and tuple(canonical(kind, v) for v in (total, least, most)) == sums, (options, row)
            want += row[len(keys) + 1:len(keys) + 6]
        want += [str(len({r[0] for r in some if r[0] is not None}))] if filtered else []
        want += [str(len({r[i] for r in every if r[i] is not None})) for i in range(len(columns))]
        assert row[len(keys):] == want, (options, row)


def check_several(t, prune):
    """Aggregate columns in one statement, half of the time floating-point numbers beside others."""
    rng = t.rng
    floats, others = ("real", "double"), ("int32", "int64", "decimal", "date", "timestamp")
    kinds = rng.choice((floats, others, floats + others, floats + others))
    values = [c for c in t.columns if t.kind(c) in kinds]
    values = rng.sample(values, rng.randrange(1, len(values) + 1)) if values else []
    values += values[:1] if len(values) == 1 else []
    keys = rng.sample(list(t.columns), rng.choice((0, 1)))
    where, sql = t.where()
    groups = {} if keys else {(): []}
    for row in t.rows([*keys, *values], sql):
        groups.setdefault(tuple(row[:len(keys)]), []).append(row[len(keys):])
    if not values or any(key_bytes([t.columns[k] for k in keys], key) > 31 for key in groups):
        return
    got = t.ask(*(("--by", ",".join(keys)) if keys else ("--total",)), "--value", ",".join(values), *where, *prune)
    assert len(got) == len(groups)
    for row in got:
        key = tuple(canonical(t.kind(c), v) for c, v in zip(keys, row))
        assert int(row[len(keys)]) == len(groups[key]), (values, key)
        for i, value in enumerate(values):
            kind, there = t.kind(value), [r[i] for r in groups[key] if r[i] is not None]
            count, total, least, most = row[len(keys) + 1 + 5 * i:][:4]
            want = (exact(there, kind), min(there, key=order(kind)), max(there, key=order(kind))) if there else (None,) * 3
            assert int(count) == len(there), (values, key)
            assert tuple(canonical(kind, v) for v in (total, least, most)) == want, (values, value, key, row)


def check_count(t, prune):
    where, sql = t.where()
    assert t.ask("--total", *where, *prune) == [[str(len(t.rows([], sql)))]], where


def check_first(t, prune):
    column = t.rng.choice(t.numbers())
    where, sql = t.where()
    limit, up = t.rng.choice((1, 7, 400)), t.rng.random() < 0.5
    rows = t.rows(list(t.columns), sql)
    at = list(t.columns).index(column)
    got = [tuple(canonical(t.kind(c), v) for c, v in zip(t.columns, r)) for r in
           t.ask("--value", column, "--limit", str(limit), *(("--ascending",) if up else ()), *where, *prune)]
    there = sorted((r[at] for r in rows if r[at] is not None), key=order(t.kind(column)), reverse=not up)
    assert [r[at] for r in got] == [*there, *[None] * (len(rows) - len(there))][:limit]
    for r in got:
        rows.remove(r)


def check_rows(t, _):
    columns = t.rng.sample(list(t.columns), t.rng.randrange(1, len(t.columns)))
    where, sql = t.where()
    got = [tuple(canonical(t.kind(c), v) for c, v in zip(columns, r)) for r in t.ask("--columns", ",".join(columns), "--prune", "none", *where)]
    assert got == t.rows(columns, sql), (columns, where)


def test_statements():
    rng = random.Random(draw_seed())
    duckdb, env = parquet.engine()
    db = duckdb.connect()
    db.execute("SET threads = 1")
    w = Workers(1, before=("env", f"FPISA_DRIVER={env['FPISA_DRIVER']}"))
    try:
        for number in range(TABLES):
            t = Table(db, rng, w, number)
            for _ in range(STATEMENTS):
                prune = "--prune", rng.choice(("none", "workers"))
                rng.choice((check_groups, check_groups, check_several, check_filters, check_filters, check_distinct, check_distinct, check_count, check_first, check_rows))(t, prune)
    finally:
        w.close()

# SPDX-License-Identifier: GPL-2.0-only
"""For groups of doubles, integers and decimals, `fpisa query run` gives the sums of rational numbers, in every way to prune."""
import decimal
import fractions
import json
import math
import random
import struct

import pytest

import queries
from lab import draw_seed

pytestmark = pytest.mark.cold  # these tests put more programs into the program array than a load does

PRUNING = {"network": (), "none": ("--prune", "none"), "workers": ("--prune", "workers"), "preaggregate": ("--preaggregate",), "auto": ("--prune", "auto")}
FAULTS = "drop=0.2,duplicate=0.1,reorder=0.1,delay=0.05,corrupt=0.05"
HARD = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 1e300, -1e300, 1.0,
        math.inf, -math.inf, math.nan]


def double_rows(rng, kind, n, keys):
    def value():
        if kind == "near":
            return rng.gauss(0, 1000)
        if kind == "cancelling":
            return rng.choice([1e200, 1.0, -1e200, 2.0 ** -1074])
        if kind == "hard":
            return rng.choice(HARD)
        if kind == "window":
            return math.ldexp(rng.uniform(-1, 1), rng.randrange(-120, 120))
        if kind == "bits":
            return struct.unpack("<d", rng.randbytes(8))[0]
        return None if rng.random() < 0.5 else rng.uniform(-9, 9)
    return [(rng.randrange(keys), value()) for _ in range(n)]


def deal(q, workers, rows, schema, name):
    for w in range(workers):
        queries.write_table(q.directory(w), name, schema, rows[w::workers])


def test_doubles(asked):
    """The master gets the values that lie outside a group's window and adds them. The sum is rounded once, in every way to prune."""
    rng = random.Random(draw_seed())
    q = asked(2)
    rows = {kind: double_rows(rng, kind, 1500, 60) for kind in ("near", "cancelling", "hard", "window", "bits", "nulls")}
    for kind, all_rows in rows.items():
        deal(q, 2, all_rows, ("k int32 not null", "v double"), kind)
    q.serve()
    q.add("table", 40, "--key-bytes", 8, "--values", "double")
    for kind, all_rows in rows.items():
        want = queries.groups_of(all_rows, queries.double_sum)
        for way, options in PRUNING.items():
            for more in ((), ("--debug-faults", FAULTS)) if way == "network" else ((),):
                got, counts = q.run("--by", "k", "--value", "v", *options, *more, table=kind)
                assert {r[0] for r in got} == set(want) and len(got) == len(want)
                for key, *is_ in got:
                    is_ = (is_[0], *(None if x is None else float(x) for x in is_[1:]))
                    assert all(map(queries.same, is_, want[key])), (kind, way, key, is_, want[key])
                assert (counts["absorbed"] > 0) == (way in ("network", "preaggregate", "auto"))
    assert q.run("--by", "k", "--value", "v", table="window")[1]["received"] > 0


def decimal_rows(rng, precision, scale, n, keys, nulls):
    most = 10 ** precision - 1
    values = [most, -most, 0, 1, -1]
    rows = []
    for _ in range(n):
        x = rng.choice(values) if rng.random() < 0.3 else rng.randrange(-most, most + 1)
        rows.append((rng.randrange(keys), None if nulls and rng.random() < 0.3 else decimal.Decimal(x).scaleb(-scale)))
    return rows


def quotient(total, count, scale):
    """Divide as PostgreSQL's numeric does: at least 16 significant digits, in digits of base 10000, with ties away from zero."""
    def first(x):
        if not x:
            return 0, 0
        weight = 0
        while abs(x) >= 10000 ** (weight + 1):
            weight += 1
        while abs(x) < fractions.Fraction(10000) ** weight:
            weight -= 1
        return weight, int(abs(x) / fractions.Fraction(10000) ** weight)
    exact = fractions.Fraction(total)
    (a, digit_a), (b, digit_b) = first(exact), first(fractions.Fraction(count))
    places = max(16 - (a - b - (digit_a <= digit_b)) * 4, scale)
    units = abs(exact) / count * 10 ** places
    whole = int(units + fractions.Fraction(1, 2))
    return decimal.Decimal(-whole if exact < 0 else whole).scaleb(-places)


@pytest.mark.parametrize("kind, precision, scale, form", [
    ("decimal(15,2)", 15, 2, "int64"), ("decimal(18)", 18, 0, "int128"), ("decimal(38,10)", 38, 10, "int128"),
    ("decimal(38,38)", 38, 38, "int128"), ("int32", 9, 0, "int64"), ("int64", 18, 0, "int64"), ("int64", 18, 0, "int128")])
def test_exact(asked, kind, precision, scale, form):
    """Sums of decimals and integers are not rounded at all."""
    rng = random.Random(draw_seed())
    decimal.getcontext().prec = 200
    q = asked(2)
    rows = decimal_rows(rng, precision, scale, 2000, 50, nulls=True)
    if kind == "int64":
        rows += [(k, decimal.Decimal(rng.choice([-2 ** 63, 2 ** 63 - 1]))) for k in range(50) for _ in range(5)]
    written = [(k, v if v is None else f"{v:f}") for k, v in rows]
    deal(q, 2, written, ("k int32 not null", "v " + kind), "t")
    q.serve()
    q.add("table", 30, "--key-bytes", 8, "--values", form)
    found = {}
    for key, value in rows:
        found.setdefault(key, []).extend([] if value is None else [value])
    want = {str(k): [len(v)] + ([f"{sum(v):f}", f"{min(v):f}", f"{max(v):f}", f"{quotient(sum(v), len(v), scale):f}"] if v else [""] * 4)
            for k, v in found.items()}
    for way, options in PRUNING.items():
        for more in ((), ("--debug-faults", FAULTS)) if way == "network" else ((),):
            out = q.master.run(*q.argv("--by", "k", "--value", "v", *options, *more))
            got = {}
            for line in out.splitlines()[1:]:
                key, count, *aggregates = line.split(",")
                got[key] = [int(count), *(x.replace("-0.00", "0.00") if not x.strip("-0.") else x for x in aggregates)]
            assert got == {k: [v[0]] + [x.replace("-0", "0", 1) if not str(x).strip("-0.") else x for x in v[1:]] for k, v in want.items()}, way


def first_values(rng, kind, n):
    """Return values of a column, as texts and as numbers that sort as in SQL. None is NULL. Some differ in their last digits only."""
    if kind == "double":
        near = [1e9 + i * 2 ** -20 for i in range(50)]
        values = [rng.choice([rng.choice(near), rng.choice(HARD), struct.unpack("<d", rng.randbytes(8))[0], None]) for _ in range(n)]
        return [(v if v is None else repr(v), v if v is None else queries.place(v)) for v in values]
    digits, scale = {"int32": (9, 0), "int64": (18, 0), "decimal(15,2)": (15, 2), "decimal(38,10)": (38, 10)}[kind]
    most = 10 ** digits - 1
    ends = {"int32": [2 ** 31 - 1, -2 ** 31], "int64": [2 ** 63 - 1, -2 ** 63]}.get(kind, [most, -most])
    values = [rng.choice([rng.choice(ends), most // 3 + rng.randrange(50), rng.randrange(-most, most + 1), rng.randrange(-9, 9), None])
              for _ in range(n)]
    return [(v if v is None else f"{decimal.Decimal(v).scaleb(-scale):f}", v) for v in values]


@pytest.mark.parametrize("kind, form", [("double", "double"), ("int32", "int64"), ("int64", "int64"), ("int64", "int128"), ("decimal(15,2)", "int64"),
                                        ("decimal(38,10)", "int128")])
def test_first(asked, kind, form):
    """The first rows by a value of 8 bytes or more are those of a sort by all digits, in every way to prune, with lost frames, ties and
    NULLs."""
    rng = random.Random(draw_seed())
    decimal.getcontext().prec = 200
    q = asked(2)
    rows = list(enumerate(first_values(rng, kind, 4000)))
    deal(q, 2, [(k, text) for k, (text, _) in rows], ("k int32 not null", "v " + kind), "t")
    q.serve()
    by_text = {k: (text, place) for k, (text, place) in rows}
    there = sorted((place for _, (_, place) in rows if place is not None), reverse=True)
    for order in ((), ("--ascending",)):
        q.add("topn", 100, "--key-bytes", 8, "--values", form, *order)
        for limit, nulls, more in (1, (), ()), (100, (), ("--debug-faults", FAULTS)), (80, ("--nulls-first",), ()):
            for way in "network", "none", "workers":
                argv = q.argv("--value", "v", "--limit", limit, *order, *nulls, *PRUNING[way], *(more if way == "network" else ()))
                answer = [line.split(",") for line in q.master.run(*argv).splitlines()[1:]]
                n_nulls = len(rows) - len(there)
                want = there[::-1] if order else there
                want = ([None] * n_nulls + want if nulls else want + [None] * n_nulls)[:limit]
                assert [by_text[int(k)][1] for k, _ in answer] == want, (order, limit, nulls, way)
                assert len({k for k, _ in answer}) == limit and all((by_text[int(k)][0] or "") == text for k, text in answer)
        shown = json.loads(q.net.fpisa("query", "show", 5, "--json"))
        assert shown["values"] == form and shown["rows"]["pruned"] > 1000
        q.remove()


def test_several_columns(asked):
    """A query adds several columns in one pass, reals and doubles together, and counts the rows too."""
    rng = random.Random(draw_seed())
    q = asked(2)
    rows = [(k, queries.real(rng.choice([1e30, 1.0, -1e30, rng.gauss(0, 1)])), v) for k, v in double_rows(rng, "window", 1200, 40) +
            double_rows(rng, "hard", 400, 60) + double_rows(rng, "nulls", 100, 70)]
    deal(q, 2, rows, ("k int32 not null", "a real not null", "b double"), "t")
    q.serve()
    q.add("table", 70, "--key-bytes", 8, "--values", "double")
    want = [queries.groups_of([(r[0], r[1]) for r in rows]), queries.groups_of([(r[0], r[2]) for r in rows], queries.double_sum)]
    whole = [queries.groups_of([((), r[1]) for r in rows]), queries.groups_of([((), r[2]) for r in rows], queries.double_sum)]

    def check(row, wants, what):
        assert row[0] == wants[0][0], what  # column a is never NULL
        for k, right in enumerate(wants):
            count, *there = row[1 + 5 * k:6 + 5 * k]
            got = [None if x is None else queries.real(float(x)) if not k and i < 3 and math.isfinite(float(x)) else float(x) for i, x in enumerate(there)]
            assert count == right[0] and all(map(queries.same, got, right[1:])), (what, k, row, right)

    for way, options in PRUNING.items():
        for more in ((), ("--debug-faults", FAULTS)) if way in ("network", "preaggregate") else ((),):
            got, counts = q.run("--by", "k", "--value", "a,b", *options, *more)
            assert len(got) == len(want[0]) and (counts["absorbed"] > 0) == (way in ("network", "preaggregate", "auto"))
            for key, *row in got:
                check(row, (want[0][key], want[1][key]), (way, key))
            (row,), _ = q.run("--total", "--value", "a,b", *options, *more)
            check(row, (whole[0][()], whole[1][()]), way)
    assert {r[0] for r in q.run("--by", "k", "--value", "a,b", "--having", "count(b)>30")[0]} == {k for k, g in want[1].items() if g[0] > 30}
    assert q.run("--total", "--value", "b,a", "--where", "k<0")[0] == [[0, *[0, None, None, None, None] * 2]]
    for values in "a,k", "count(distinct k),a,k":
        assert "an aggregator cannot aggregate columns 'a real not null' and 'k int32 not null' in one query" in q.fails("--total", "--value", values)
    keys = [k for k, _, _ in rows]
    for way in "none", "workers":
        (row,), _ = q.run("--total", "--value", "a,k,b", *PRUNING[way])
        check(row[:6] + row[11:], (whole[0][()], whole[1][()]), way)
        assert row[6:10] == [len(keys), sum(keys), min(keys), max(keys)]
    status, _, err = q.master.try_run(*q.argv("--total", "--value", "a,b", "--having", "sum>1"))
    assert status == 2 and "--having sum: the answer has no such aggregate; take one of count, count(a), sum(a)," in err
    q.remove()
    q.add("table", 70, "--values", "double", "--key-bytes", 8, number=6)
    assert "the key needs 10 bytes (b 9, number of a value 1)" in q.fails("--by", "b", "--value", "a,b", number=6)


def test_refused(asked):
    """If the aggregator's query does not add a column, the error says which query is needed."""
    q = asked(1)
    queries.write_table(q.directory(0), "t", ("k int32 not null", "d double", "m decimal(20,2)", "n decimal(9,2) not null", "s text"), [(1, 1.5, "2.00", "1.25", "x")])
    q.serve()
    q.add("table", 10, "--key-bytes", 8)
    assert "column d is double and needs --values double" in q.fails("--by", "k", "--value", "d")
    q.remove()
    q.add("table", 10, "--values", "int64")
    assert "column m is decimal(20,2) and needs --values int128" in q.fails("--by", "k", "--value", "m")
    says = "column s is text; --value requires a number, a date or a timestamp"
    assert says in q.fails("--by", "k", "--value", "s")
    assert says in q.fails("--value", "s", "--limit", 1, "--prune", "none", network=False)
    assert q.run("--by", "n", "--value", "n")[0] == [[1.25, 1, 1.25, 1.25, 1.25, 1.25]]
    assert q.run("--by", "k", "--value", "n", "--where", "n>1.24,n<=1.25,m=2")[0] == [[1, 1, 1.25, 1.25, 1.25, 1.25]]
    assert "'1.255' is not a value of that type" in q.fails("--by", "k", "--value", "n", "--where", "n>1.255")


def test_other_columns(asked):
    """Digits add up only if they have one unit, so a worker whose precision, scale or type differs is named."""
    q = asked(2)
    q.serve()
    for column, options in ("v", ("--by", "k", "--value", "v")), ("k", ("--by", "k")):
        for other in "decimal(15,3)", "decimal(16,2)", "double", "int64":
            for w, kind in enumerate(("decimal(15,2)", other)):
                types = {"k": "int32", "v": "real", column: kind}
                queries.write_table(q.directory(w), "t", [f"{c} {t} not null" for c, t in types.items()], [(1, 1)])
            assert f"{q.net.addresses[1]}:18001 has '{column} {other} not null' instead of '{column} decimal(15,2) not null'\n" in \
                q.fails(*options, "--prune", "none", network=False), (column, other)

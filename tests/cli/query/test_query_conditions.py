# SPDX-License-Identifier: GPL-2.0-only
"""An empty shell variable in a condition or a list is an error, not another query. --having compares values, not their digits."""
import math
import operator
import random
import subprocess

import pytest

from foreign import Workers
from lab import FPISA
from queries import groups_of, real
from seeds import draw_seed

COMPARISONS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge, ">": operator.gt}


@pytest.fixture(scope="module")
def worker():
    w = Workers(1)
    w.table("t", ["k int32", "s text"], [(1, "a"), (2, ""), (3, "b")])
    yield w
    w.close()


def ask(w, *options, table="t"):
    p = subprocess.run([FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, "--prune", "none", *options],
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


@pytest.mark.parametrize("where, says", [("x decimal=1.5", ""), ("x decimal(9,2) = 1.5,k int32=1", ""), ("x decimal(9,2) not null", ""),
                                         ("x decimal(9,3)=1.5", "not decimal(9,3)"), ("x decimal(8,2) null", "not decimal(8,2)"),
                                         ("x decimal(9)<2", "not decimal(9)"), ("x real<2", "not real")])
def test_type_of_a_column(worker, where, says):
    """A decimal's type with digits refuses other digits, because a value rounded to them compares differently."""
    worker.table("d", ["k int32", "x decimal(9,2)"], [(1, "1.50")])
    status, out, err = ask(worker, "--columns", "k", "--where", where, table="d")
    assert (status, out.split()) == ((1, []) if says else (0, ["k", "1"])) and (not says or f"d.csv: column x is decimal(9,2), {says}\n" in err), err


@pytest.mark.parametrize("where", ["x decimal(9,2=1.5", "x decimal(9,2)", "x decimal()=1.5", "x decimal(99,2)=1.5"])
def test_no_type(worker, where):
    worker.table("d", ["k int32", "x decimal(9,2)"], [(1, "1.50")])
    status, out, err = ask(worker, "--where", where, table="d")
    assert status == 1 and not out and "is not a list of conditions" in err, err


@pytest.mark.parametrize("columns", ["k,", ",k", ",", "k,,s"])
@pytest.mark.parametrize("option", ["--columns", "--by"])
def test_list_with_nothing(worker, option, columns):
    status, out, err = ask(worker, option, columns)
    assert status == 1 and not out and "t.csv: the schema has no column ''" in err, err


def having_about(x, rng):
    """Return a constant equal to x or close to x, printed with nine digits or with more."""
    return rng.choice((f"{x:.9g}", f"{x:.17g}", f"{x * (1 + rng.choice((-1, 1)) * 2.0 ** -rng.randrange(25, 52)):.17g}"))


def test_having(worker):
    """Aggregates are compared with the constant as doubles, as --where compares reals, because nine digits do not identify the value."""
    rng = random.Random(draw_seed())
    rows = [(k, real(rng.choice((-1, 1)) * rng.uniform(1, 10) * 10.0 ** rng.randrange(-40, 35))) for k in range(40) for _ in range(k % 3 + 1)]
    worker.table("having", ["k int32 not null", "v real"], rows)
    groups = groups_of(rows)
    for _ in range(60):
        at = rng.randrange(5)
        name, comparison = ("count", "sum", "min", "max", "avg")[at], rng.choice(list(COMPARISONS))
        constant = having_about(rng.choice(list(groups.values()))[at], rng)
        status, out, err = ask(worker, "--by", "k", "--value", "v", "--having", name + comparison + constant, table="having")
        want = {k for k, g in groups.items() if COMPARISONS[comparison](g[at], float(constant))}
        assert status == 0 and {int(line.split(",")[0]) for line in out.splitlines()[1:]} == want, (name, comparison, constant, err)


def decimal_text(n, scale):
    """Return n x 10^-scale with all of its digits."""
    digits = f"{abs(n):0{scale + 1}}"
    return "-" * (n < 0) + digits[:len(digits) - scale] + f".{digits[len(digits) - scale:]}" * (scale > 0)


@pytest.mark.parametrize("type, digits, scale", [("int64", 18, 0), ("decimal(18,4)", 18, 4), ("decimal(38,10)", 38, 10)])
def test_having_digits(worker, type, digits, scale):
    """Aggregates of integers and decimals are compared by all of their digits, also those that a double does not hold."""
    rng = random.Random(draw_seed())
    rows = [(k, rng.choice((-1, 1)) * ((10 ** (digits - 1) + rng.randrange(3)) // 10 ** rng.choice((0, 0, digits // 2, digits))))
            for k in range(40) for _ in range(k % 3 + 1)]
    worker.table(f"digits{digits}_{scale}", ["k int32 not null", f"v {type} not null"], [(k, decimal_text(v, scale)) for k, v in rows])
    groups = {k: [v for of, v in rows if of == k] for k in range(40)}
    for _ in range(30):
        name, of = rng.choice([("sum", sum), ("min", min), ("max", max)])
        aggregates = {k: 1000 * of(v) for k, v in groups.items()}
        constant = rng.choice(list(aggregates.values())) + rng.choice((-1000, -1, 0, 0, 1, 1000))
        comparison = rng.choice(list(COMPARISONS))
        status, out, err = ask(worker, "--by", "k", "--value", "v", "--having", name + comparison + rng.choice(["", " "]) + decimal_text(constant, scale + 3),
                               table=f"digits{digits}_{scale}")
        want = {k for k, x in aggregates.items() if COMPARISONS[comparison](x, constant)}
        assert status == 0 and {int(line.split(",")[0]) for line in out.splitlines()[1:]} == want, (name, comparison, constant, err)


def test_having_of_several(worker):
    """With several columns, --having names one of them without its type. A name that the answer does not have is an error."""
    worker.table("several", ["k int32 not null", "a real", "b real"], [(1, 2.0, 1.0), (2, 1.0, 2.0)])
    for values in ("a,b", "a real,b", "b real,a real"):
        status, out, err = ask(worker, "--by", "k", "--value", values, "--having", "sum(a)>1.5", table="several")
        assert status == 0 and [line.split(",")[0] for line in out.splitlines()] == ["k", "1"], (values, out, err)
    for having in ("sum(a real)>1", "sum(c)>1", "sum()>1", "sum>1"):
        check_refused(worker, having, "count, count(a), sum(a), min(a), max(a), avg(a), count(b), sum(b), min(b), max(b), avg(b)",
                      "--value", "a real,b real", table="several")


def check_refused(worker, having, has, *options, table, by="k"):
    status, out, err = ask(worker, "--by", by, "--having", having, *options, table=table)
    said = f"fpisa: query run: --having {having.rsplit('>', 1)[0]}: the answer has no such aggregate; take one of {has}"
    assert (status, out, err.splitlines()[0]) == (2, "", said), (having, options)


def test_having_that_the_answer_lacks(worker):
    """The error lists the aggregates of the answer, whatever they are of. A column of the key is none of them."""
    worker.table("lacks", ["k int32 not null", "sum int32", "a real", "m decimal(9,2)"], [(1, 2, 1.0, "1.5")])
    single, rows = "count, sum, min, max, avg", "count, count(a), sum(a), min(a), max(a), avg(a), count(*) filter (a>0)"
    for having, has, options in (("sum(a)>1", single, ("--value", "a")), ("sum>1", "count", ()),
                                 ("sum(*) filter (a>0)>1", rows, ("--value", "a,* filter (a>0)")), ("min(*)>1", rows, ("--value", "a,* filter (a>0)")),
                                 ("count(distinct a real)>1", "count, count(distinct a)", ("--distinct", "a real")),
                                 ("sum>1", "count, count(distinct a)", ("--distinct", "a"))):
        check_refused(worker, having, has, *options, table="lacks")
    check_refused(worker, "sum>1", "count", table="lacks", by="m,sum")
    for having, options in (("count(*) filter (a>0)>0", ("--value", "a,* filter (a>0)")), ("count(distinct a)>0", ("--distinct", "a real"))):
        status, out, err = ask(worker, "--by", "k", "--having", having, *options, table="lacks")
        assert status == 0 and len(out.splitlines()) == 2, (having, err)


def test_having_of_distinct(worker):
    """Distinct values without NULL are counted beside other aggregates, and --having may name their number."""
    rows = [(1, 2.0, "x"), (1, 2.0, "y"), (1, 3.0, "x"), (2, 2.0, None), (2, 2.0, "x")]
    worker.table("distinct", ["k int32 not null", "a real", "s text"], rows)
    distinct = "--distinct", "a,s text"
    filtered = "a,count(distinct s) filter (a<3)"
    for options, want in ((distinct, ["k,count,count(distinct a),count(distinct s)", "1,3,2,2", "2,2,1,1"]),
                          (("--value", filtered, "--distinct", "a"), ["k,count,count(a),sum(a),min(a),max(a),avg(a),count(distinct s) filter (a<3),count(distinct a)",
                                                                      "1,3,3,7,2,3,2.3333333333333335,2,2", "2,2,2,4,2,2,2,1,1"]),
                          ((*distinct, "--having", "count(distinct a)>1"), ["k,count,count(distinct a),count(distinct s)", "1,3,2,2"]),
                          (("--value", filtered, "--having", "count(distinct s) filter (a<3)=1"), None)):
        status, out, err = ask(worker, "--by", "k", *options, table="distinct")
        assert status == 0 and [out.splitlines()[0], *sorted(out.splitlines()[1:])] == (want or [out.splitlines()[0], "2,2,2,4,2,2,2,1"]), (options, out, err)
    for option, status, says in (("a,", 1, "is not a column"), ("c", 1, "the schema has no column 'c'"), ("a)", 1, "is a list of columns")):
        got = ask(worker, "--by", "k", "--distinct", option, table="distinct")
        assert got[0] == status and not got[1] and says in got[2], (option, got)


def test_having_specials(worker):
    """NaN is greater than all numbers, infinities are numbers, and a group without values satisfies no comparison."""
    rows = [(1, math.nan), (2, math.inf), (3, -math.inf), (4, None), (5, 1e-45)]
    worker.table("specials", ["k int32 not null", "v real"], rows)
    for having, want in (("max>1e300", {1, 2}), ("sum>=inf", {1, 2}), ("min<0", {3}), ("avg<inf", {3, 5}), ("max>1.4e-45", {1, 2, 5}), ("count<1", {4})):
        status, out, err = ask(worker, "--by", "k", "--value", "v", "--having", having, table="specials")
        assert status == 0 and {int(line.split(",")[0]) for line in out.splitlines()[1:]} == want, (having, out, err)

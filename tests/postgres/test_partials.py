# SPDX-License-Identifier: GPL-2.0-only
"""Compare fpisa_partial(), fpisa_expansion() and fpisa_merge() with partials.py, which follows doc/partial.md, also on hostile bytes."""
import os
import shutil
import subprocess

import pytest

import partials
import postgres
from exact import DOUBLE, REAL, adversarial, literal, rounded

COLUMNS = "(g int, x real, y double precision)"
# The outcome of reading bytes is the number of rows and the bits of the average, or the class of the error.
TRY = """CREATE FUNCTION try(p bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN fpisa_partial_rows(fpisa_merge(q)) || ' ' || encode(float8send(fpisa_partial_avg(fpisa_merge(q))), 'hex')
        FROM (VALUES (p)) t(q);
EXCEPTION WHEN invalid_binary_representation OR numeric_value_out_of_range THEN
    RETURN 'refused';
END $$;
"""


def parts(rng, rows, n):
    """Deal rows out to n machines."""
    dealt = [[] for _ in range(n)]
    for row in rows:
        rng.choice(dealt).append(row)
    return dealt


def table(name, rows):
    copied = "".join(f"{g}\t{literal(x)}\t{literal(y)}\n" for g, x, y in rows)
    return f"CREATE TEMP TABLE {name} {COLUMNS};\nCOPY {name} FROM stdin;\n{copied}\\.\n"


def test_from_machine_to_machine(server, rng):
    """The partial of each machine has the form of the page, and partials merge, in any order, to the exact sum of all rows."""
    rows = [(rng.randrange(3), x, y) for x, y in zip(adversarial(REAL, 900, rng), adversarial(DOUBLE, 900, rng))]
    if rng.random() < 0.5:
        rows.append((0, float("nan"), float("-inf")))
    sent = []
    for dealt in parts(rng, rows, 5):
        for g, *got in server.sql(table("t", dealt) + """SELECT g, encode(fpisa_partial(x), 'hex'), encode(fpisa_partial(y), 'hex'),
            encode(fpisa_partial(x ORDER BY random()), 'hex') FROM t GROUP BY g;"""):
            of_group = [row for row in dealt if row[0] == int(g)]
            want = [partials.write([row[column] for row in of_group]).hex() for column in (1, 2)]
            assert got == [*want, want[0]]
            sent.append((g, *want))
    rng.shuffle(sent)
    values = ", ".join(f"({g}, '\\x{x}'::bytea, '\\x{y}'::bytea)" for g, x, y in sent)
    merged = server.sql(f"""SELECT g, encode(float4send(fpisa_partial_sum_real(x)), 'hex'), encode(float8send(fpisa_partial_sum(y)), 'hex'),
        encode(float8send(fpisa_partial_avg(x)), 'hex'), fpisa_partial_rows(y), encode(x, 'hex')
        FROM (SELECT g, fpisa_merge(x) x, fpisa_merge(y) y FROM (VALUES {values}) s(g, x, y) GROUP BY g) m ORDER BY g""")
    for g, *got in merged:
        of_group = [row for row in rows if row[0] == int(g)]
        x, y = ([row[column] for row in of_group] for column in (1, 2))
        assert got == [rounded(REAL, x), rounded(DOUBLE, y), rounded(REAL, x, DOUBLE, True), str(len(y)), partials.write(x).hex()]


@pytest.mark.parametrize("f, sql_type, send", [(REAL, "real", "float4send"), (DOUBLE, "double precision", "float8send")])
def test_expansions(server, rng, f, sql_type, send):
    """Expansions of parts and of merged parts have the terms that the page gives. The first term is the sum."""
    rows = [(rng.randrange(40), x, None) for x in adversarial(f, 400, rng)]
    terms = f"(SELECT string_agg(encode({send}(t), 'hex'), ' ' ORDER BY i) FROM unnest(%s) WITH ORDINALITY u(t, i))"
    found = server.sql(f"""CREATE TEMP TABLE t (g int, x {sql_type});
COPY t FROM stdin;
{"".join(f"{g}{chr(9)}{literal(x)}{chr(10)}" for g, x, _ in rows)}\\.
WITH e AS (SELECT g, fpisa_expansion(x) e, fpisa_sum(x) s FROM t GROUP BY g)
SELECT g, e[1] = s, {terms % 'e'} FROM e
UNION ALL SELECT NULL, m[1] = (SELECT fpisa_sum(x) FROM t), {terms % 'm'} FROM (SELECT fpisa_merge(e) m FROM e) q;""")
    for g, first, got in found:
        want = partials.expansion(f, [x for h, x, _ in rows if g in ("", str(h))])
        assert (first, got) == ("t", " ".join(partials.hexadecimal(f, x) for x in want))


def mutants(rng, n):
    """Return partials with flipped bits, with counts at their limits, truncated or extended, and random bytes."""
    for _ in range(n):
        data = bytearray(partials.write(adversarial(DOUBLE, rng.randrange(1, 4), rng)
                                        + [float("inf"), float("nan")] * (rng.random() < 0.3)))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.1:  # set the count of rows, and of special rows
            data[3] |= 2
            data[8:40] = b"".join(rng.choice((0, 1, 2**63 - 1, 2**63 - 1, 2**63, 2**64 - 1)).to_bytes(8, "little") for _ in range(4))
        if rng.random() < 0.2:
            data = data[:rng.randrange(len(data) + 1)]
        if rng.random() < 0.2:
            data += rng.randbytes(rng.randrange(300))
        yield bytes(data) if rng.random() < 0.9 else b"FS\x01"[:rng.randrange(4)] + rng.randbytes(rng.randrange(330))


def test_hostile_bytes(server, rng):
    """Any bytes give a value or an error, as the page says, and the server continues to run."""
    data = list(mutants(rng, 3000))
    answers = server.sql(TRY.replace("FUNCTION try", "FUNCTION pg_temp.try")
                         + "".join(f"SELECT pg_temp.try('\\x{d.hex()}');\n" for d in data))
    assert len(answers) == len(data)
    taken = 0
    for d, (answer, *_) in zip(data, answers):
        known = partials.read(d)
        if known is None or not known[0]:
            assert answer == ("refused" if known is None else ""), d.hex()
            continue
        rows, (nan, pinf, ninf), total = known
        taken += 1
        if nan or (pinf and ninf):
            bits = DOUBLE.nan()
        else:
            bits = DOUBLE.inf(bool(ninf)) if pinf or ninf else DOUBLE.pack(total / rows, partials.NEAREST)[0]
        assert answer == f"{rows} {bits:016x}", d.hex()
    assert 300 < taken < 2700
    assert server.sql("SELECT fpisa_sum(x) FROM (VALUES (1::real)) t(x)") == [("1",)]


@pytest.mark.long
def test_under_valgrind(rng):
    """With such bytes the extension makes no invalid memory access. The server's own accesses are not checked."""
    why = postgres.lacking() or (None if shutil.which("valgrind") else "valgrind is not installed; make test installs it")
    if why:
        pytest.skip(why)
    s = postgres.Server()
    try:
        s.sql("CREATE EXTENSION fpisa;" + TRY)
        s.stop()
        statements = [f"SELECT try('\\x{d.hex()}')" for d in mutants(rng, 400)]
        statements += ["SELECT fpisa_sum(x), fpisa_avg(x), fpisa_partial(x), fpisa_expansion(x), fpisa_sum(x::float8) FROM (SELECT "
                       "(random() - 0.5) * 10::float8 ^ (i % 30) x FROM generate_series(1, 2000) i) t",
                       "SELECT fpisa_merge(e), fpisa_merge(p) FROM (SELECT fpisa_expansion(x) e, fpisa_partial(x) p FROM (SELECT i % 50 g, "
                       "((random() - 0.5) * 10::float8 ^ (i % 30))::real x FROM generate_series(1, 2000) i) t GROUP BY g) q"]
        log = os.path.join(s.home, "valgrind")
        p = subprocess.run(["valgrind", "--quiet", "--num-callers=30", f"--log-file={log}", os.path.join(s.place("bindir"), "postgres"),
                            "--single", "-D", s.home + "/data", "postgres"], input="\n".join(statements) + "\n", text=True,
                           capture_output=True, cwd=s.home, **postgres.user())
        with open(log) as f:
            found = [error for error in f.read().split("\n\n") if "fpisa" in error]
        assert p.returncode == 0 and p.stdout.count("refused") > 50 and not found, p.stderr[-2000:] + "\n".join(found)
    finally:
        s.close()

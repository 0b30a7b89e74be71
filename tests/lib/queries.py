# SPDX-License-Identifier: GPL-2.0-only
"""Workers of queries in a Lab, whose last host is the master, and the right answers in exact rational numbers"""
import errno
import fcntl
import fractions
import json
import math
import os
import re
import select
import signal
import struct
import time

from lab import COMMAND_S, FPISA, SLOW, end, endpoint, wait_until

HARD = [0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38, 3.4028235e38, -3.4028235e38, 1e30, -1e30, 1.0, math.inf, -math.inf, math.nan]
TIMEOUT_S = int(20 * SLOW)


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def real(x):
    """Return the binary32 next to x."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def place(x):
    """Return the sort key in SQL's order: NaN last, -0 as 0."""
    return (1, 0) if isinstance(x, float) and math.isnan(x) else (0, x + 0)


def rounded(exact, digits, least):
    """Return the nearest number of `digits` bits as a rational. Ties go to even, and the last bit is not below 2^least."""
    if not exact:
        return exact
    e = exact.numerator.bit_length() - exact.denominator.bit_length()
    while abs(exact) >= fractions.Fraction(2) ** (e + 1):
        e += 1
    while abs(exact) < fractions.Fraction(2) ** e:
        e -= 1
    unit = fractions.Fraction(2) ** max(e - digits + 1, least)
    return round(exact / unit) * unit


def exact_sum(values):
    """Return (sum, average) as fpisa rounds them, the sum to a real and the average to a double. Specials follow IEEE 754."""
    finite = [v for v in values if math.isfinite(v)]
    special = [v for v in values if not math.isfinite(v)]
    if special:
        total = math.nan if len({math.copysign(1, v) if math.isinf(v) else 0 for v in special}) > 1 or \
            any(map(math.isnan, special)) else special[0]
        return total, total
    total = sum(map(fractions.Fraction, finite), fractions.Fraction(0))
    one = rounded(total, 24, -149)
    one = math.copysign(math.inf, one) if abs(one) >= 2 ** 128 else float(one)
    return one, float(rounded(total / len(finite), 53, -1074))


def double_of(exact):
    """Return the double next to the rational, or an infinity beyond the range."""
    if abs(exact) >= 2 ** 1024 - 2 ** 970:
        return math.inf if exact > 0 else -math.inf
    return float(rounded(exact, 53, -1074))


def double_sum(values):
    """Return (sum, average) of doubles, as exact_sum() does of reals."""
    special = [v for v in values if not math.isfinite(v)]
    if special:
        odd = any(map(math.isnan, special)) or len(set(special)) > 1
        return (math.nan,) * 2 if odd else (special[0],) * 2
    total = sum(map(fractions.Fraction, values), fractions.Fraction(0))
    return double_of(total), double_of(total / len(values))


def groups_of(rows, sum_of=exact_sum):
    """Return {key: (count, sum, min, max, avg)} of (key, value) rows. The value None is NULL. sum_of() returns sum and average."""
    found = {}
    for key, value in rows:
        found.setdefault(key, []).append(value)
    out = {}
    for key, values in found.items():
        there = [v for v in values if v is not None]
        if not there:
            out[key] = (0, None, None, None, None)
            continue
        total, average = sum_of(there)
        out[key] = (len(there), total, min(there, key=place) + 0, max(there, key=place) + 0, average)
    return out


def same(a, b):
    """Return whether a and b are equal (-0 equals 0), or both NaN."""
    if a is None or b is None:
        return a is b
    return a == b or (a != a and b != b)


def number(x, double=False):
    return None if x is None else float(x) if double or not math.isfinite(float(x)) else real(float(x))


class Kind:
    """A kind of values: a column's type, the form of the queries that take it, how to read a value of an answer, and (sum, average)."""

    def __init__(self, column, form, read, sum_of):
        self.column, self.form, self.read, self.sum_of = column, form, read, sum_of

    def average(self, text):
        return None if self is INTEGER else number(text, double=True)


REAL = Kind("real", "real", number, exact_sum)
DOUBLE = Kind("double", "double", lambda x: number(x, double=True), double_sum)
INTEGER = Kind("decimal(38)", "int128", lambda x: x, lambda values: (sum(values), None))


def last_key(file):
    with open(file) as f:
        return [line for line in f.read().splitlines() if line and line[0] != "#"][-1]


def has_writer(path):
    """Return whether a process has the file open for writing. A child that another thread starts has it open until it calls exec()."""
    with open(path) as f:
        try:
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as e:
            return e.errno == errno.EAGAIN
    return False


def write_table(folder, name, schema, rows, form="csv"):
    """Write a table. Rows are tuples, and None is NULL."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name + ".schema"), "w") as f:
        f.write("\n".join(schema) + "\n")

    def text(v):
        return "" if v is None else repr(v) if isinstance(v, float) else '""' if v == "" else str(v)

    path = os.path.join(folder, f"{name}.{form}")
    with open(path, "w") as f:
        if form == "csv":
            f.write(",".join(c.split()[0] for c in schema) + "\n")
            f.writelines(",".join(map(text, r)) + "\n" for r in rows)
        else:
            f.writelines("".join(text(v) + "|" for v in r) + "\n" for r in rows)
    wait_until("the end of writers", lambda: not has_writer(path))


def adversarial(rng, kind, rows, keys):
    """Return (key, value) rows of a worker, with sums that are hard to round."""
    if kind == "ascending":
        return [(i % keys, float(i)) for i in range(rows)]
    if kind == "equal":
        return [(i % keys, 1.5) for i in range(rows)]
    if kind == "cancelling":
        return [(rng.randrange(keys), rng.choice([1e30, 1.0, -1e30, 2.0 ** -149])) for _ in range(rows)]
    if kind == "hard":
        return [(rng.randrange(keys), rng.choice(HARD)) for _ in range(rows)]
    if kind == "nulls":
        return [(rng.randrange(keys), None if rng.random() < 0.5 else rng.uniform(-9, 9)) for _ in range(rows)]
    return [(rng.randrange(keys), rng.uniform(-1e6, 1e6)) for _ in range(rows)]


def stopped_in_time(start, count, more):
    """Return the process of start(), stopped once count() has risen by `more`. If the process has ended by then, because other work delayed
    this one, start it again."""
    for _ in range(3):
        before = count()
        p = start()
        wait_until("progress", lambda p=p, before=before: p.poll() is not None or count() > before + more)
        p.send_signal(signal.SIGSTOP)
        if p.poll() is None:
            return p
    raise AssertionError(p.communicate())


def read_whole(p):
    """Let `fpisa query run --json` continue if it is stopped, and read its results. Return (answer or None, status, errors)."""
    p.send_signal(signal.SIGCONT)
    try:
        out, err = p.communicate(timeout=150 * SLOW)
    finally:
        end(p)
    return json.loads(out) if out and not p.returncode else None, p.returncode, err


def hear(p, pattern):
    """Read stderr until the process has printed the pattern."""
    said, until = "", time.monotonic() + COMMAND_S
    while not re.search(pattern, said):
        ready = select.select([p.stderr], [], [], max(0, until - time.monotonic()))[0]
        more = os.read(p.stderr.fileno(), 65536) if ready else b""
        assert more, f"no {pattern!r} in {said!r}"
        said += more.decode(errors="replace")


class Queries:
    """A worker on each of the first `hosts` hosts, except the last host, which is the master. Each worker has a directory."""

    def __init__(self, net, folder, hosts=None):
        self.net, self.folder, self.workers = net, folder, []
        self.hosts, self.addresses = net.worker[:hosts], net.addresses[:hosts]
        self.key = os.path.join(folder, "keys")
        net.fpisa("key", "new", "queries", self.key)
        self.master = self.hosts[-1]
        net.forward()

    def directory(self, rank):
        return os.path.join(self.folder, f"worker{rank}")

    def table(self, rank, rows, schema=("k int32 not null", "v real"), name="t", form="csv"):
        rows = [tuple(None if v is None else real(v) if isinstance(v, float) and math.isfinite(v) else v for v in r)
                for r in rows]
        write_table(self.directory(rank), name, schema, rows, form)
        return rows

    def serve(self, ranks=None, **options):
        for rank in range(len(self.hosts) - 1) if ranks is None else ranks:
            os.makedirs(self.directory(rank), exist_ok=True)
            p = self.net.worker[rank].spawn(FPISA, "query", "worker", self.directory(rank), "--key", self.key, **options)
            said = p.stdout.readline()
            assert said.startswith("serving "), said + p.stderr.read()
            self.workers.append(p)

    def add(self, kind, limit, *options, number=5, port=None):
        """Add a query. port: UDP port of all members. limit: None for a join."""
        at = [endpoint(a, port) if port else a for a in self.addresses]
        options = (*options, *(("--limit", limit) if limit is not None else ()))
        self.net.fpisa("query", "add", number, "--kind", kind, "--workers", ",".join(at[:-1]), "--master", at[-1],
                       "--address", self.net.address, *options)

    def remove(self, number=5):
        self.net.fpisa("query", "del", number)

    def argv(self, *options, table="t", key=None, number=5, workers=None, network=True):
        there = ("--aggregator", self.net.address, "--query", number) if network else ()
        there += ("--prune", "network") if network and "--prune" not in options else ()
        return (FPISA, "query", "run", table, "--workers", workers or ",".join(self.addresses[:-1]), "--key", key or self.key,
                *(() if "--timeout" in options else ("--timeout", TIMEOUT_S)), *there, *options)

    def run(self, *options, **where):
        """Run the query. Return (rows, counts)."""
        said = json.loads(self.master.run(*self.argv("--json", *options, **where)))
        counts = said["counts"]
        assert counts["sent"] == counts["pruned"] + counts["absorbed"] + counts["received"], counts
        assert counts["values_sent"] == counts["values_absorbed"] + counts["values_received"], counts
        return said["rows"], counts

    def fails(self, *options, **where):
        """Run a query that must fail. Return its error message."""
        status, _, err = self.master.try_run(*self.argv(*options, **where))
        assert status == 1, err
        return err

    def check_groups(self, all_rows, *options, kind=REAL, **where):
        """Check that the groups of v by k have exact sums. Return the counts."""
        rows, counts = self.run("--by", "k", "--value", "v", *options, **where)
        want = groups_of(all_rows, kind.sum_of)
        assert len(rows) == len({r[0] for r in rows}) and {r[0] for r in rows} == set(want)
        for key, count, *aggregates in rows:
            got = (count, *map(kind.read, aggregates[:3]), kind.average(aggregates[3]))
            assert all(map(same, got, want[key])), (key, got, want[key])
        return counts

    def check_top(self, all_rows, limit, *options, kind=REAL, **where):
        """Check the first rows in the order of v. The values must equal those of a sort, and the table must contain each row as often as
        the answer does. Return the counts."""
        rows, counts = self.run("--value", "v", "--limit", limit, *options, **where)
        up = "--ascending" in options
        there = sorted((v for _, v in all_rows if v is not None), key=place, reverse=not up)
        nulls = [None] * (len(all_rows) - len(there))
        want = (nulls + there if "--nulls-first" in options else there + nulls)[:limit]
        got = [kind.read(r[1]) for r in rows]
        assert len(got) == len(want) and all(map(same, got, want)), (got[:5], want[:5])
        left = {}
        for row in all_rows:
            left[repr(row)] = left.get(repr(row), 0) + 1
        for k, v in rows:
            row = repr((k, kind.read(v)))
            assert left.get(row, 0) > 0, row
            left[row] -= 1
        return counts

    def close(self):
        for p in self.workers:
            end(p)

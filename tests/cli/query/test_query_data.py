# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa query data` makes the same rows from the same seed, deals them out to workers, and follows the distributions of
doc/query-data.md."""
import csv
import datetime
import hashlib
import itertools
import os
import random
import re
import signal
import struct
import subprocess
from collections import Counter

import pytest

from lab import FPISA, SLOW, wait_until
from seeds import draw_seed

PAGES, VISITS = 20000, 100000
SIGMAS = 6  # a true distribution exceeds this in at most 1 of 10^8 cases
COLUMNS = {"rankings": ["pageURL text", "pageRank int32", "avgDuration int32"],
           "uservisits": ["sourceIP text", "destURL text", "visitDate date", "adRevenue real", "userAgent text", "countryCode text",
                          "languageCode text", "searchWord text", "duration int32"]}


def data(directory, *argv):
    return subprocess.run([FPISA, "query", "data", str(directory), *map(str, argv)], capture_output=True, text=True, timeout=300)


def made(directory, *argv):
    p = data(directory, *argv)
    assert p.returncode == 0 and not p.stderr, p.stderr
    return {name: (directory / name).read_bytes() for name in
            sorted(str(f.relative_to(directory)) for f in directory.glob("*/*"))}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return tables from a random seed. A table is a list of rows, and a row is a dictionary."""
    seed = draw_seed()
    directory = tmp_path_factory.mktemp("data")
    made(directory, "--pages", PAGES, "--visits", VISITS, "--workers", 1, "--seed", seed)
    rows = {}
    for name in COLUMNS:
        with open(directory / "0" / f"{name}.csv", newline="", encoding="ascii") as f:
            rows[name] = list(csv.DictReader(f))
    return rows


def expect(counts, weights, total):
    """Check multinomial counts against weights, each count alone and all counts by chi squared."""
    whole = sum(weights.values())
    assert set(counts) <= set(weights)
    squares = 0
    for key, weight in weights.items():
        mean = total * weight / whole
        squares += (counts.get(key, 0) - mean) ** 2 / mean
        assert abs(counts.get(key, 0) - mean) <= SIGMAS * mean ** 0.5 + 6, key
    free = len(weights) - 1
    assert abs(squares - free) < SIGMAS * (2 * free) ** 0.5 + 20


def uniform(values, choices):
    expect(Counter(values), dict.fromkeys(choices, 1), len(values))


def test_files(tmp_path):
    """A schema and a header name the same columns, every worker has its share, and no other file remains."""
    files = made(tmp_path, "--pages", 10, "--visits", 31, "--workers", 3)
    assert sorted(files) == sorted(f"{w}/{t}.{end}" for w in range(3) for t in COLUMNS for end in ("csv", "schema"))
    for name, content in files.items():
        table, end = os.path.basename(name).split(".")
        if end == "schema":
            assert content.decode() == "".join(f"{column} not null\n" for column in COLUMNS[table])
        else:
            header, *rows = content.decode().splitlines()
            assert header.split(",") == [column.split()[0] for column in COLUMNS[table]]
            assert len(rows) in ({3, 4} if table == "rankings" else {10, 11})


def test_seed(tmp_path):
    """The same seed gives the same bytes on every machine. Another seed gives other rows."""
    argv = ("--pages", 100, "--visits", 1000)
    first = made(tmp_path / "a", *argv)
    assert first == made(tmp_path / "b", *argv, "--seed", 1)
    other = made(tmp_path / "c", *argv, "--seed", 2)
    for name in first:
        assert (first[name] == other[name]) == name.endswith("schema")
    whole = hashlib.sha256(b"".join(first[name] for name in sorted(first))).hexdigest()
    assert whole == "bdee8d8c5ef238a4386031bdaee27f2772304f4ab2b32d01cb3d697d5a1f4a2c"


def test_workers(tmp_path):
    """Row i belongs to worker i mod N, so the workers' rows taken in turn are the rows of a single worker."""
    sizes = ("--pages", 57, "--visits", 101, "--seed", random.randrange(1 << 64))
    one, four = made(tmp_path / "one", *sizes, "--workers", 1), made(tmp_path / "four", *sizes, "--workers", 4)
    for table in COLUMNS:
        dealt = [four[f"{w}/{table}.csv"].splitlines()[1:] for w in range(4)]
        turns = [row for turn in itertools.zip_longest(*dealt) for row in turn if row is not None]
        assert turns == one[f"0/{table}.csv"].splitlines()[1:]


def test_rankings(tables):
    rows = tables["rankings"]
    urls = [row["pageURL"] for row in rows]
    assert len(set(urls)) == len(rows) == PAGES and all(re.fullmatch("[a-z]{10,100}", url) for url in urls)
    uniform([len(url) for url in urls], range(10, 101))
    uniform("".join(urls), "abcdefghijklmnopqrstuvwxyz")
    uniform([int(row["avgDuration"]) for row in rows], range(1, 100))
    ranks = [int(row["pageRank"]) for row in rows]
    # A page has 800 +- 80 words and makes floor(words / 20) links.
    links = sum(ranks)
    assert abs(links / PAGES - 39.5) < SIGMAS * 4 / PAGES ** 0.5 + 0.05
    # By Zipf's law with exponent 0.5, the first x of n pages have the share sqrt(x / n).
    shares = {}
    edges = [0, 1, 2, 3, 5, 10, 100, 1000, 5000, 10000, 15000, PAGES]
    for low, high in zip(edges, edges[1:]):
        shares[low] = (high / PAGES) ** 0.5 - (low / PAGES) ** 0.5
    expect({low: sum(ranks[low:high]) for low, high in zip(edges, edges[1:])}, shares, links)


def test_uservisits(tables):
    rows = tables["uservisits"]
    assert len(rows) == VISITS
    column = {name.split()[0]: [row[name.split()[0]] for row in rows] for name in COLUMNS["uservisits"]}
    parts = [tuple(map(int, ip.split("."))) for ip in column["sourceIP"]]
    for i, choices in enumerate((range(1, 255), range(255), range(255), range(1, 255))):
        uniform([p[i] for p in parts], choices)
    days = [datetime.date.fromisoformat(d) for d in column["visitDate"]]
    assert min(days) >= datetime.date(1970, 1, 1) and max(days) <= datetime.date(2012, 4, 30)
    by_year = {year: (min(datetime.date(year + 1, 1, 1), datetime.date(2012, 5, 1)) - datetime.date(year, 1, 1)).days
               for year in range(1970, 2013)}
    expect(Counter(d.year for d in days), by_year, VISITS)
    assert len({(d.month, d.day) for d in days}) == 366
    uniform([int(d) for d in column["duration"]], range(1, 11))
    # Every page is equally likely and has a row in rankings.
    place = {row["pageURL"]: i for i, row in enumerate(tables["rankings"])}
    uniform([place[url] * 100 // PAGES for url in column["destURL"]], range(100))


def test_revenue(tables):
    """Revenue is an FP32 value in [0, 1) and a multiple of 2^-24, printed in nine digits that identify the value."""
    found = []
    for text in (row["adRevenue"] for row in tables["uservisits"]):
        value = float(text)
        single, = struct.unpack("f", struct.pack("f", value))
        assert 0 <= single < 1 and single * 2**24 == int(single * 2**24) and f"{single:.9g}" == text
        found.append(int(single * 1000))
    uniform(found, range(1000))


def test_names(tables):
    """The names are 521 agents, 33 of them with HiBench's weights, and each fits into a group's key."""
    rows = tables["uservisits"]
    agents = Counter(row["userAgent"] for row in rows)
    assert len(agents) == 521 and all(re.fullmatch("[A-Z][a-z]{4,23}/[0-8][.][0-8]", a) for a in agents)
    weights = [0.13, 0.09, 0.08, 0.07, 0.07, 0.06, 0.04, 0.04, 0.03, 0.03, 0.015]
    for (_, n), share in zip(agents.most_common(len(weights)), weights):
        assert abs(n / VISITS - share) < SIGMAS * (share / VISITS) ** 0.5
    assert sum(n / VISITS > 0.0008 for n in agents.values()) >= 25
    once = sum(n for _, n in agents.most_common()[33:])
    assert abs(once / VISITS - 0.244) < 0.02
    locales = Counter(row["languageCode"] for row in rows)
    assert all(re.fullmatch("[A-Z]{3}-[A-Z]{2}", x) for x in locales)
    assert all(row["languageCode"].startswith(row["countryCode"] + "-") for row in rows)
    uniform([row["languageCode"] for row in rows], locales)
    words = Counter(row["searchWord"] for row in rows)
    assert len(words) == 1000 and all(re.fullmatch("[a-z]{3,17}", w) for w in words)
    uniform([row["searchWord"] for row in rows], words)


def test_nothing_is_overwritten(tmp_path):
    files = made(tmp_path, "--pages", 10, "--visits", 10)
    p = data(tmp_path, "--pages", 10, "--visits", 10, "--seed", 2)
    assert p.returncode == 1 and "0/rankings.csv: File exists; remove it" in p.stderr
    assert files == {name: (tmp_path / name).read_bytes() for name in files} and len(list(tmp_path.glob("*/*"))) == len(files)


def test_refusals(tmp_path):
    for argv, says in ((["--pages", "0"], "--pages"), (["--visits", "x"], "--visits"), (["--workers", "1025"], "--workers")):
        p = data(tmp_path / "x", *argv)
        assert p.returncode == 2 and says in p.stderr and not os.path.exists(tmp_path / "x")
    p = subprocess.run([FPISA, "query", "data"], capture_output=True, text=True)
    assert p.returncode == 2 and "query data requires one directory" in p.stderr
    p = data(tmp_path / "no" / "such")
    assert p.returncode == 1 and "no/such: No such file or directory" in p.stderr


def test_full_disk(tmp_path):
    """A full disk gives an error that names the file, and the partial file is removed."""
    (tmp_path / "0").mkdir()
    p = subprocess.run(["sh", "-c", 'ulimit -f 100; trap "" XFSZ; exec "$@"', "sh", FPISA, "query", "data", tmp_path, "--workers", "1",
                        "--pages", "10", "--visits", "10000"], capture_output=True, text=True)
    assert p.returncode == 1 and "0/uservisits.csv: File too large" in p.stderr, p.stderr
    assert sorted(f.name for f in (tmp_path / "0").iterdir()) == ["rankings.csv", "rankings.schema"]


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(tmp_path, sig):
    """A signal ends the program, which removes the unfinished file and keeps the finished files."""
    p = subprocess.Popen([FPISA, "query", "data", tmp_path, "--workers", "1", "--pages", "100", "--visits", str(10 ** 9)],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until("a file in the making", lambda: (tmp_path / "0" / "uservisits.csv.part").exists())
        p.send_signal(sig)
        out, err = p.communicate(timeout=60 * SLOW)
    finally:
        p.kill()
        p.wait()
    assert p.returncode == -sig and out == ""
    assert "0/uservisits.csv: interrupted; the file was not created\n" in err, err
    assert sorted(f.name for f in (tmp_path / "0").iterdir()) == ["rankings.csv", "rankings.schema"]

# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa query run --json` prints valid JSON in any spelling of a table's numbers, and loses no digit."""
import decimal
import json
import os
import random
import subprocess

import pytest

from foreign import Workers
from lab import FPISA
from seeds import draw_seed

SPELLED = (".5", "1.", "+1", "007", "-.25", "1e5", "-00.50E-03", "+0", "-0", "1.E+2", "0", "00", "-7.000", "123456789012345678901234567890.25")
SPECIAL = {"nan": "NaN", "NaN": "NaN", "-nan": "NaN", "inf": "Infinity", "+Inf": "Infinity", "-inf": "-Infinity", "INFINITY": "Infinity",
           "-Infinity": "-Infinity"}


@pytest.fixture(scope="module")
def worker():
    w = Workers(1)
    yield w
    w.close()


def run(w, table):
    p = subprocess.run([FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, "--prune", "none", "--json"],
                       capture_output=True)
    return p.returncode, p.stdout, p.stderr.decode()


def random_spelling(rng):
    whole, part = (str(rng.randrange(10 ** rng.randrange(1, 12))).zfill(rng.randrange(14)) for _ in range(2))
    text = rng.choice((whole, whole + ".", "." + part, whole + "." + part))
    return rng.choice(("", "", "+", "-")) + text + rng.choice(("", "", f"e{rng.randrange(20)}", f"E+0{rng.randrange(9)}", f"e-{rng.randrange(20)}"))


def test_numbers(worker):
    rng = random.Random(draw_seed())
    numbers = [*SPELLED, *(random_spelling(rng) for _ in range(2000))]
    whole = [rng.choice(("", "+", "-", "00")) + str(rng.randrange(1 << rng.randrange(1, 63))) for _ in numbers]
    worker.table("t", ["x double", "y real", "i int64"], list(zip(numbers, numbers, whole)))
    status, out, err = run(worker, "t")
    assert status == 0, err
    said = json.loads(out, parse_float=decimal.Decimal, parse_int=decimal.Decimal)
    for text, i, row in zip(numbers, whole, said["rows"]):
        want = decimal.Decimal(text)
        # The output has all digits and the sign.
        assert row[:2] == [want] * 2 and row[0].is_signed() == want.is_signed() and row[2] == int(i), (text, row)
        assert row[0].as_tuple().digits == want.as_tuple().digits, (text, row)


def test_specials(worker):
    """Special values are strings with one spelling each. NULL is null."""
    worker.table("t", ["x double", "y real"], [(text, text) for text in SPECIAL] + [(None, None)])
    status, out, err = run(worker, "t")
    assert status == 0, err
    assert json.loads(out)["rows"] == [[text] * 2 for text in SPECIAL.values()] + [[None] * 2]


@pytest.mark.parametrize("text, good", [
    (b"\xc3\xa9", True), (b"\xef\xbf\xbd", True), (b"\xf4\x8f\xbf\xbf", True), (b"\xe0\xa0\x80", True), (b"\xed\x9f\xbf", True),
    (b"\xff", False), (b"\xc3", False), (b"a\x80", False), (b"\xc0\xaf", False), (b"\xe0\x9f\xbf", False), (b"\xed\xa0\x80", False),
    (b"\xf4\x90\x80\x80", False), (b"\xf8\x88\x80\x80\x80", False), (b"\xe2\x82", False)])
def test_texts(worker, text, good):
    """A text that is not UTF-8 is an error that names the column. CSV prints the text unchanged."""
    worker.table("t", ["s text"], [])
    with open(os.path.join(worker.directory(0), "t.csv"), "ab") as f:
        f.write(text + b"\n")
    status, out, err = run(worker, "t")
    assert status == (0 if good else 1), err
    if good:
        assert json.loads(out)["rows"] == [[text.decode()]]
    else:
        assert err == "fpisa: query run: column s: a text is not UTF-8, which JSON requires; choose --format csv\n"

# SPDX-License-Identifier: GPL-2.0-only
"""README's figures and pictures: from bench/report/figures.json and from commands that exist, none written by hand."""
import json
import os
import re
import shutil
import statistics
import subprocess
import xml.etree.ElementTree as ET

import pytest

import readme
import run
from lab import FPISA, TOP

PICTURES = os.path.join(TOP, "doc", "pictures")

needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed; make test installs it")


def page(path=None):
    with open(path or readme.README) as f:
        return f.read()


def words(path):
    """All text of a picture."""
    assert os.path.getsize(path) < 100000
    return sorted("".join(t.itertext()).strip() for t in ET.parse(path).iter("{http://www.w3.org/2000/svg}text"))


# -- the tree --------------------------------------------------------------------

def test_table():
    """What stands there, and in bench/README.md, is what `make bench-figures` wrote."""
    for path, rows in readme.tables(readme.load()):
        assert readme.shown(page(path)) == rows
    assert all(part in run.PARTS for part, *_ in readme.ROWS)
    assert all(isinstance(r["busy"], float) for r in readme.load()["runs"])


def test_no_figure_beside_the_table():
    """A time or a ratio that is not in it has a command beside it, or is none of ours."""
    section = page().split("## Results\n")[1].split("\n## ")[0]
    rest = section.replace(readme.shown(page()), "")
    assert not re.findall(r"\d+\.\d+(?: to \d+\.\d+)?", rest), rest


def test_three_runs():
    record = readme.load()
    if len(record["runs"]) < 3:
        pytest.skip("README's figures are of one run; make bench-figures on an idle machine")
    assert all(len(v) == len(record["runs"]) for v in record["figures"].values())
    assert all(r["busy"] <= readme.IDLE for r in record["runs"])


def test_first_screen():
    """What it is, two commands, a picture."""
    lines = page().splitlines()[:24]
    assert lines[0].startswith("# ") and lines[2][0].isalpha()
    commands = [n for n, line in enumerate(lines) if re.match(r"    sudo make (demo|test) ", line)]
    assert len(commands) == 2 and any(line.startswith("![") for line in lines[commands[1]:])


def test_picture_of_the_all_reduce():
    """Its bars are the record's medians."""
    shown = words(os.path.join(PICTURES, "allreduce.svg"))
    for key, values in readme.load()["figures"].items():
        if key.startswith("allreduce."):
            assert f"{statistics.median(values):.3g}" in shown, key


@needs_gnuplot
def test_picture_of_the_errors(tmp_path):
    """It is what the page's command draws."""
    files = [os.path.join(TOP, "data", "gradients", f"epoch{n}.f32") for n in ("01", "20", "40")]
    subprocess.run([FPISA, "analyze", "--workers", "8", "--plot", tmp_path / "gradients", *files], check=True,
                   stdout=subprocess.DEVNULL)
    assert words(os.path.join(PICTURES, "error.svg")) == words(tmp_path / "gradients-error.svg")


# -- readme.py ---------------------------------------------------------------------

def results(factor, busy=0.01, quick=False):
    """What a run of all parts writes, every figure `factor`."""
    def line(contender, rate, size):
        ours = {"share": factor, "faster": factor} if contender == "fpisa" else {}
        return {"bench": "collective", "contender": contender, "topology": "switch", "workers": 8, "rate_mbps": rate, "bytes": size,
                "seconds": factor / (2 if contender == "fpisa" else 1) / 1000, **ours}

    arith = {k: factor for k in ("fpisa_add_ns", "fpisa_add_no_statistics_ns", "exact_add_ns", "readout_bits_ns",
                                 "readout_lpm32_ns")}
    return [{"bench": "machine", "cpu": "X", "cpus": 2, "kernel": "9.9", "date": "2030-01-02T03:04:05", "quick": quick},
            {"bench": "arith", "ratios": {**arith, "exact_add_ns_quartiles": [1, 2]}, "staged_add_ns": 2 * factor,
             "fpisa_add_ns": 2, "cpus": {"ratio": factor}},
            *({"bench": "wire", "contender": c, "data": d, "elements": e, "ratio": factor + 9 * (d != "random")}
              for c in ("fpisa", "udp-avx2", "xdp-avx2") for d in ("random", "gradients") for e in (256, 832)),
            *({"bench": "steer", "cpus": c, "elements": e, "relief": factor} for c in (None, "0,1") for e in (256, 832)),
            {"bench": "steer", "elements": 256, "handover_ns": 5},
            *({"bench": "worker", "contender": c, "elements": e, "ratio": factor} for c in ("udp", "xsk") for e in (256, 832)),
            *(line(c, r, s) for c in ("fpisa", "openmpi", "gloo") for r in (100, 1000) for s in (1024, 16 << 20)),
            *({"bench": "part", "part": p, "seconds": 80, "busy": busy if p == "wire" else 0} for p in run.PARTS)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """README, record and picture of our own; place(results, ...) makes folders of runs."""
    for name, file in (("RECORD", "figures.json"), ("README", "README.md"), ("PAGE", "page.md"), ("PICTURE", "p/allreduce.svg")):
        monkeypatch.setattr(readme, name, str(tmp_path / file))
    for file in "README.md", "page.md":
        (tmp_path / file).write_text(f"before\n{readme.BEGIN}old\n{readme.END}after\n")

    def make(*runs):
        for i, lines in enumerate(runs):
            (tmp_path / str(i)).mkdir()
            (tmp_path / str(i) / "results.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        return [str(tmp_path / str(i)) for i in range(len(runs))]

    return make


@needs_gnuplot
def test_take(place):
    readme.take(place(results(1.5), results(1.25), results(40)), False)
    for path, count in (readme.README, readme.FIRST), (readme.PAGE, len(readme.ROWS)):
        text = page(path)
        assert text.startswith("before\n" + readme.BEGIN) and text.endswith(readme.END + "after\n")
        rows = [line for line in text.splitlines() if line.startswith("|")][2:]
        assert len(rows) == count
    for row, (_, what, keys, form) in zip(rows, readme.ROWS, strict=True):
        median, low = form.format(1.5), form.format(1.25)
        if "1 KB" in what:
            median, low = form.format(0.75), form.format(0.625)
            assert f"| {median}; " in row and f"| {low} to 20; " in row, row
        else:
            assert f"| {'; '.join([median] * len(keys))} | {'; '.join([low + ' to 40'] * len(keys))} |" in row, row
    assert f"Medians of 3 runs of `make bench-figures` on 2030-01-02, {80 * len(run.PARTS) / 60:.0f} minutes each, on 2 CPUs (X,\nLinux 9.9) without other work" in text
    # The others took twice as long as ours.
    assert readme.load()["figures"]["allreduce.1000.gloo"] == [0.75, 0.625, 20]
    assert "1.5" in words(readme.PICTURE) and "0.75" in words(readme.PICTURE)


@needs_gnuplot
def test_take_beside_others(place):
    folders = place(results(1), results(1, busy=0.3))
    with pytest.raises(SystemExit, match="others had 30% of the CPUs"):
        readme.take(folders, False)
    assert "old" in page() and not os.path.exists(readme.RECORD)
    readme.take(folders, True)
    assert "beside other work, which took 30% of them" in page()


@pytest.mark.parametrize("lines, said", [
    (results(1, quick=True), "a quick run"),
    ([x for x in results(1) if x.get("contender") != "gloo"], "without small.gloo"),
    ([x for x in results(1) if x["bench"] != "steer"], "without steer.256, steer.832")])
def test_take_refuses(place, lines, said):
    with pytest.raises(SystemExit, match=said):
        readme.take(place(lines), False)

# SPDX-License-Identifier: GPL-2.0-only
"""README's figures and pictures come from bench/report/figures.json and from commands that exist. No figure is written by hand."""
import json
import os
import re
import shutil
import statistics
import subprocess
import xml.etree.ElementTree as ET

import pytest

import grid
import readme
import run
import topology
from lab import FPISA, TOP

PICTURES = os.path.join(TOP, "doc", "pictures")

needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed; make test installs it")


def page(path=None):
    with open(path or readme.README) as f:
        return f.read()


def words(path):
    """Return all text of a picture."""
    assert os.path.getsize(path) < 100000
    return sorted("".join(t.itertext()).strip() for t in ET.parse(path).iter("{http://www.w3.org/2000/svg}text"))


# -- the tree --------------------------------------------------------------------

def test_table():
    """The tables in README.md and in bench/README.md are those that `make bench-figures` and the benchmark of topologies wrote."""
    for path, marks, rows in readme.tables(readme.load(), readme.read_lines(readme.POINTS)):
        assert readme.shown(page(path), marks) == rows
    assert all(part in run.PARTS for part, *_ in readme.ROWS)
    assert all(isinstance(r["busy"], float) for r in readme.load()["runs"])


def test_no_figure_beside_the_table():
    """A time or a ratio outside the table names its command, or belongs to another system."""
    section = page().split("## Results\n")[1].split("\n## ")[0]
    rest = section.replace(readme.shown(page(), readme.FIGURES), "")
    assert not re.findall(r"\d+\.\d+(?: to \d+\.\d+)?", rest), rest


def test_three_runs():
    record = readme.load()
    if len(record["runs"]) < 3:
        pytest.skip("README's figures are of one run; make bench-figures on an idle machine")
    assert all(len(v) == len(record["runs"]) for v in record["figures"].values())
    assert all(r["busy"] <= readme.IDLE for r in record["runs"])


def test_first_screen():
    """The first screen has a description, two commands, and a picture."""
    lines = page().splitlines()[:24]
    assert lines[0].startswith("# ") and lines[2][0].isalpha()
    commands = [n for n, line in enumerate(lines) if re.match(r"    sudo make (demo|test) ", line)]
    assert len(commands) == 2 and any(line.startswith("![") for line in lines[commands[1]:])


def test_picture_of_the_all_reduce():
    """The picture's bars are the medians of the record."""
    shown = words(os.path.join(PICTURES, "allreduce.svg"))
    for key, values in readme.load()["figures"].items():
        if key.startswith("allreduce."):
            assert f"{statistics.median(values):.3g}" in shown, key


def test_whole_grid():
    """The record has the points that the command measures. Every topology and contender has each point."""
    lines = grid.points(readme.read_lines(readme.POINTS))
    assert [topology.identity(x) for x in lines] == topology.grid(False)
    assert all([*x["ours"]] == x["topologies"] and set(x["others"]) == set(grid.OTHERS) for x in lines)
    assert {x["contender"] for x in grid.trained(readme.read_lines(readme.POINTS))} == {"fpisa", "gloo"}


def test_picture_by_topology():
    """The picture's bars are the ratios of the record, and the last bar of a cluster is the bound."""
    shown = words(readme.TOPOLOGIES)
    bars = [x for x in grid.points(readme.read_lines(readme.POINTS)) if x["bytes"] in (64 << 10, 1 << 20) and x["rate_mbps"] == 20
            and (x["workers"], x["mtu"], x["queue_bytes"], x["loss"]) == (8, 3506, 1 << 20, 0)]
    assert len(bars) == 2
    for o in (o for x in bars for o in x["ours"].values()):
        assert f"{o['faster']:.3g}" in shown
    best = min(o["seconds"] for o in bars[-1]["others"].values())
    for o in bars[-1]["ours"].values():
        assert f"{best / o['bound_s']:.3g}" in shown


@needs_gnuplot
def test_picture_of_the_errors(tmp_path):
    """The picture is drawn by the page's command."""
    files = [os.path.join(TOP, "data", "gradients", f"epoch{n}.f32") for n in ("01", "20", "40")]
    subprocess.run([FPISA, "analyze", "--workers", "8", "--plot", tmp_path / "gradients", *files], check=True,
                   stdout=subprocess.DEVNULL)
    assert words(os.path.join(PICTURES, "error.svg")) == words(tmp_path / "gradients-error.svg")


# -- readme.py ---------------------------------------------------------------------

MACHINE = {"cpu": "X", "cpus": 2, "kernel": "9.9", "date": "2030-01-02T03:04:05"}


def by_topology(factor, waited=0.0):
    """Return two points at which FPISA is `factor` times as fast as Gloo, and a training run."""
    def ours(ms):
        return {"seconds": ms / 1e3, "waited": waited, "bound_s": ms / 2e3, "limit_s": ms / 2e3, "faster": factor,
                "faster_quartiles": [factor, factor], "share": 0.5, "share_quartiles": [0.5, 0.5]}

    def point(size, **unusual):
        return {"bench": "topology", "workers": 8, "mtu": 3506, "rate_mbps": 20, "queue_bytes": 1 << 20, "loss": 0, "rounds": 3,
                "bytes": size, "ours": {"switch": ours(10), "colocated": ours(20)}, "others": {"gloo": {"seconds": 0.01 * factor}}, **unusual}

    def step(contender, **more):
        return {"bench": "training-colocated", "model": "mlp", "mbit": 50, "workers": 4, "rounds": 9, "contender": contender, "step_ms": 7, **more}

    return [point(1 << 20), point(64 << 10, loss=0.01, queue_bytes=128 << 10, mtu=1500),
            step("fpisa", gloo=factor, gloo_quartiles=[factor, factor]), step("gloo")]


def results(factor, busy=0.01, quick=False):
    """Write the results of all parts, with every figure equal to `factor`."""
    def line(contender, rate, size):
        ours = {"share": factor, "faster": factor} if contender == "fpisa" else {}
        return {"bench": "collective", "contender": contender, "topology": "switch", "workers": 8, "rate_mbps": rate, "bytes": size,
                "seconds": factor / (2 if contender == "fpisa" else 1) / 1000, **ours}

    arith = {k: factor for k in ("fpisa_add_ns", "fpisa_add_no_statistics_ns", "exact_add_ns", "readout_bits_ns",
                                 "readout_lpm32_ns")}
    return [{"bench": "machine", **MACHINE, "quick": quick},
            {"bench": "arith", "ratios": {**arith, "exact_add_ns_quartiles": [1, 2]}, "staged_add_ns": 2 * factor,
             "fpisa_add_ns": 2, "cpus": {"ratio": factor}},
            *({"bench": "wire", "contender": c, "elements": e, "ratio": factor}
              for c in ("fpisa", "udp-avx2", "xdp-avx2") for e in (256, 832)),
            *({"bench": "steer", "cpus": c, "elements": e, "relief": factor} for c in (None, "0,1") for e in (256, 832)),
            {"bench": "steer", "elements": 256, "handover_ns": 5},
            *({"bench": "worker", "contender": c, "elements": e, "ratio": factor} for c in ("udp", "xsk") for e in (256, 832)),
            *(line(c, r, s) for c in ("fpisa", "openmpi", "gloo") for r in (100, 1000) for s in (1024, 16 << 20)),
            *({"bench": "part", "part": p, "seconds": 80, "busy": busy if p == "wire" else 0} for p in run.PARTS)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Yield copies of README, record and picture. place(results, ...) makes folders of runs."""
    for name, file in (("RECORD", "figures.json"), ("README", "README.md"), ("PAGE", "page.md"), ("PICTURE", "p/allreduce.svg"),
                       ("POINTS", "topology.jsonl"), ("TOPOLOGIES", "p/topology.svg")):
        monkeypatch.setattr(readme, name, str(tmp_path / file))
    (begin, end), (first, last) = readme.FIGURES, readme.GRID
    (tmp_path / "README.md").write_text(f"before\n{begin}old\n{end}after\n")
    (tmp_path / "page.md").write_text(f"before\n{begin}old\n{end}after\n{first}old\n{last}")
    readme.write_lines(readme.POINTS, [{"bench": "machine", **MACHINE, "busy": 0.01}, *by_topology(1)])

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
        text, (begin, end) = page(path), readme.FIGURES
        assert text.startswith("before\n" + begin) and end + "after\n" in text
        rows = [line for line in readme.shown(text, readme.FIGURES).splitlines() if line.startswith("|")][2:]
        assert len(rows) == count
    for row, (_, what, keys, form) in zip(rows, readme.ROWS, strict=True):
        median, low = form.format(1.5), form.format(1.25)
        if "1 KB" in what:
            median, low = form.format(0.75), form.format(0.625)
            assert f"| {median}; " in row and f"| {low} to 20; " in row, row
        else:
            assert f"| {'; '.join([median] * len(keys))} | {'; '.join([low + ' to 40'] * len(keys))} |" in row, row
    assert f"These are medians of 3 runs of `make bench-figures` on 2030-01-02, {80 * len(run.PARTS) / 60:.0f} minutes each, " \
        "on an otherwise idle machine with 2 CPUs (X, Linux 9.9)." in text.replace("\n", " ")
    # The other contenders took twice as long as FPISA.
    assert readme.load()["figures"]["allreduce.1000.gloo"] == [0.75, 0.625, 20]
    assert "1.5" in words(readme.PICTURE) and "0.75" in words(readme.PICTURE)


@needs_gnuplot
def test_take_beside_others(place):
    folders = place(results(1), results(1, busy=0.3))
    with pytest.raises(SystemExit, match="other processes used 30% of the CPUs"):
        readme.take(folders, False)
    assert "old" in page() and not os.path.exists(readme.RECORD)
    readme.take(folders, True)
    assert "on a busy machine with 2 CPUs (X, Linux 9.9; other processes took 30% of them)." in page().replace("\n", " ")


@pytest.mark.parametrize("lines, said", [
    (results(1, quick=True), "a quick run"),
    ([x for x in results(1) if x.get("contender") != "gloo"], "lacks small.gloo"),
    ([x for x in results(1) if x["bench"] != "steer"], "lacks steer.256, steer.832")])
def test_take_refuses(place, lines, said):
    with pytest.raises(SystemExit, match=said):
        readme.take(place(lines), False)


@needs_gnuplot
def test_take_topology(place):
    """The measurements of a run become the tables, the chart and the record. A star marks times that the CPUs limited."""
    folder, = place([*results(1), *by_topology(2.5, waited=0.11)])
    readme.take([folder], False)
    readme.take_topology(folder, False)
    text = readme.shown(page(readme.PAGE), readme.GRID)
    rows = [line for line in text.splitlines() if line.startswith("| 8")]
    assert rows == ["| 8, 20 Mbit/s, 1 MB | 10* (5) |  |  |  |  | 20* (10) |  | 25 |  |  |",
                    "| 8, 20 Mbit/s, 64 KB, queue 128 KB, MTU 1500, loss 1% | 10* (5) |  |  |  |  | 20* (10) |  | 25 |  |  |",
                    "| 8, 20 Mbit/s, 1 MB | 2.50* |  |  |  |  | 2.50* |  |",
                    "| 8, 20 Mbit/s, 64 KB, queue 128 KB, MTU 1500, loss 1% | 2.50* |  |  |  |  | 2.50* |  |"]
    assert "| `mlp`, 4, 50 Mbit/s | 7 | 7 | 2.50 (2.50 to 2.50) |" in text and "These are medians of 3 or 9 rounds" in text
    # 25 ms divided by the bounds of 5 ms and 10 ms is 5 and 2.5.
    assert {"2.5", "5", "FPISA, 1 MB"} <= set(words(readme.TOPOLOGIES)) and "64 KB" not in " ".join(words(readme.TOPOLOGIES))


def test_take_topology_refuses(place):
    folder, = place([x for x in results(1) if x.get("part") not in ("topology", "training-colocated")])
    with pytest.raises(SystemExit, match='BENCH="topology training-colocated"'):
        readme.take_topology(folder, False)

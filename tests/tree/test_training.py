# SPDX-License-Identifier: GPL-2.0-only
"""The tables and pictures of doc/training.md come from the committed records, and its statistics are correct."""
import math
import os
import re
import shutil
import statistics
import xml.etree.ElementTree as ET

import pytest

import figures
import pictures
import plan
import report
import sweep
from lab import TOP

needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed; make test installs it")


def page():
    with open(report.PAGE) as f:
        return f.read()


def record(model="vgg", format="fp32", arm="default", seed=1, last=97.0, **more):
    absolute = {"none": 10, "-10": 50, "-9": 10, "-8": 20, "-3": 10}
    relative = {"none": 10, "-10": 60, "-6": 20, "-3": 10}
    adds = {"adds": 1000, "rounded": 100, "overwritten": 5, "left_shifted": 300, "overflowed": 2} if arm in plan.MODES else {}
    return {"experiment": plan.EXPERIMENT, "data": "mnist", "model": model, "format": format, "arm": arm, "seed": seed,
            "epochs": plan.EPOCHS, "steps": 100, "accuracy": [90.0] * (plan.EPOCHS - 1) + [last], "loss": [0.1] * (plan.EPOCHS - 1) + [last / 100],
            "flags": {"OVERFLOW": 25} if arm in plan.MODES else {}, "date": "2030-01-02", "seconds": 20.0, "cpu_s": 20.0,
            "samples": [{"epoch": 1, "elements": 100, "absolute": absolute, "relative": relative, **adds}],
            "machine": {"cpu": "X", "cpus": 2, "kernel": "9.9", "torch": "1.13"}, "weights": "0", **more}


def rows(text, first):
    """Return the cells of the table whose first column is `first`."""
    lines = re.search(rf"^\| {first} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M)[1].splitlines()
    return [[c.strip() for c in line.strip("|").split("|")] for line in lines]


# -- the tree ------------------------------------------------------------------

def test_page():
    """The text between the marks of the page is the text that `make training-page` writes."""
    assert report.shown(page()) == report.text(*map(sweep.read, (report.RECORDS, report.COST, report.NETWORK, report.AGAIN)))


def test_records():
    """The records belong to this experiment, and each run is complete and occurs once."""
    records = sweep.read(report.RECORDS)
    assert len({sweep.key(r) for r in records}) == len(records)
    for r in records:
        assert r["experiment"] == plan.EXPERIMENT and r["data"] == "mnist" and r["epochs"] == plan.EPOCHS == len(r["accuracy"]), r
        assert r["model"] in plan.NETWORKS and r["format"] in plan.FORMATS and r["arm"] in plan.ARMS, r
        assert r["seed"] in plan.SEEDS and re.fullmatch(r"[0-9a-f]{64}", r["weights"]), r


def test_pictures():
    """Each picture on the page exists and names the arms that have run."""
    ran = {r["arm"] for r in sweep.read(report.RECORDS)}
    names = re.findall(r"\]\(pictures/(training-\w+\.svg)\)", page())
    assert len(names) == (4 if sweep.read(report.RECORDS) else 0)
    for name in names:
        svg = ET.parse(os.path.join(TOP, "doc", "pictures", name)).iter("{http://www.w3.org/2000/svg}text")
        text = {"".join(t.itertext()).strip() for t in svg}
        of_format = {r["arm"] for r in sweep.read(report.RECORDS) if name == f"training-{r['format']}.svg"}
        expected = of_format or (set() if re.search("fp", name) else ran - {"default"})
        assert expected <= text and (expected or report.NOT_RUN in text), name


def test_settings_of_the_page():
    text = re.sub(r"\s+", " ", page())
    assert f"{plan.EPOCHS} epochs" in text
    with open(os.path.join(TOP, "paper", "training", "mnist.txt")) as f:
        assert re.search(r"^(\S+)==(\S+) ", f.read(), re.M).expand(r"\1 \2") in text


# -- figures ------------------------------------------------------------------

def test_nothing_run():
    text = report.text([], [])
    assert "None of the 400 runs has been done yet" in text and "![" not in text


def test_intervals():
    """Student's intervals of three pairs are as computed by hand. The differences 0.2, 0.4, 0.9 have mean 0.5 and deviation 0.3606."""
    records = [record(seed=s, last=97.0 + s) for s in (2, 3, 4)]
    records += [record(arm="exact", seed=s, last=97.0 + s + d) for s, d in ((1, 5.0), (2, 0.2), (3, 0.4), (4, 0.9))]
    text = report.text(records, [])
    table = next(t for t in text.split("\n## ") if t.startswith("Differences"))
    found = {tuple(r[:3]): r[3:] for r in rows(table, "network")}
    half = 4.303 * statistics.stdev([0.2, 0.4, 0.9]) / 3 ** 0.5
    assert found["VGG", "fp32", "`exact`"] == ["3", f"+0.50 ± {half:.2f}", f"+0.10 ± {half / 5:.2f}",
                                                f"+0.0010 ± {half / 500:.4f}"]
    assert found["VGG", "fp32", "reversed"] == ["0"] + ["not run yet"] * 3
    accuracy = {tuple(r[:3]): r[3:] for r in rows(next(t for t in text.split("\n## ") if t.startswith("Acc")), "network")}
    assert accuracy["VGG", "fp32", "default"][0] == "3" and accuracy["VGG", "fp32", "default"][-1] == "100.00 ± 2.48"
    assert "The other 393 runs are not run yet" in text


def test_all_networks():
    """The difference of a seed over all networks is one value. A seed that lacks a network has no value."""
    by_seed = {1: (0.1, 0.2, 0.3, 0.4), 2: (0.5, 0.5, 0.5, 0.7), 3: (9.0, 9.0, 9.0)}
    records = [record(m, seed=s) for m in plan.NETWORKS for s in by_seed]
    records += [record(m, arm="fpisa", seed=s, last=97.0 + d) for s, of in by_seed.items() for m, d in zip(plan.NETWORKS, of)]
    table = next(t for t in report.text(records, []).split("\n## ") if t.startswith("Differences"))
    found = {tuple(r[:3]): r[3:] for r in rows(table, "network")}
    half = 12.71 * statistics.stdev([0.25, 0.55]) / 2 ** 0.5
    assert found["all four", "fp32", "`fpisa`"] == ["2", f"+0.40 ± {half:.2f}", f"+0.08 ± {half / 5:.2f}",
                                                  f"+0.0008 ± {half / 500:.4f}"]
    answer = {tuple(r[:2]): r[2:] for r in rows(report.text(records, []), "format")}
    assert answer["fp32", "`fpisa`"] == [f"+0.08 ± {half / 5:.2f}", "not settled", "not run yet", "not run yet"]
    assert found["all four", "fp16", "`fpisa`"] == ["0"] + ["not run yet"] * 3
    records += [record(m, arm="reversed", seed=s, last=96.0) for m in plan.NETWORKS for s in by_seed]
    said = " ".join(report.text(records, []).split())
    assert "below the paper's 0.1 in 1 of 2 means of the four networks, and in 4 of 8 means of single networks." in said
    assert f"within {math.ceil(100 * (0.08 + half / 5)) / 100:.2f} points of 0 for the modes, and within 0.20 for the null arm" in said
    assert "1 of these 2 intervals excludes 0 (fp32 reversed), and so do 4 of 8 intervals of single networks (mean of the last 5)." in said


def test_formats_differ():
    """Seed 2 has only one of the formats of a network."""
    records = [record(m, f, seed=s, last=97.0 + (f == "fp16") * (s / 2 + i)) for i, m in enumerate(plan.NETWORKS)
               for f in plan.FORMATS for s in (1, 2, 3) if (m, f, s) != ("vgg", "fp16", 2)]
    found = figures.paired_all(figures.index(records), "fp16", "default", figures.final, base_format="fp32")
    assert found == [2.0, 3.0]


def test_spelled():
    assert [report.spelled(n) for n in ([1], [1, 2], [1, 2, 3], [1, 3, 4])] == ["1", "1, 2", "1 to 3", "1, 3, 4"]


def test_verdicts():
    """The verdict uses both ends of the interval. With two values, half of the interval is 12.71 / 2 times their distance (Student's t)."""
    assert report.verdict([0.02, 0.03]) == "below 0.1" and report.verdict([-0.02, -0.03]) == "below 0.1"
    assert report.verdict([0.2, 0.21]) == "above 0.1" and report.verdict([-0.2, -0.21]) == "above 0.1"
    assert report.verdict([0.09, 0.1]) == "not settled"
    assert (report.verdict([]), report.verdict([0.5])) == ("not run yet", "one pair has no interval")
    assert report.with_interval([-0.004, 0.001], "+") == "+0.00 ± 0.03"


def test_index():
    """Records of another experiment are ignored. Other images are refused."""
    assert report.index([record(experiment=0), record(seed=11), record(epochs=3)]) == {}
    with pytest.raises(ValueError, match="records of cifar10 and mnist in one file"):
        report.index([record(), record(data="cifar10")])


def test_page_is_left(monkeypatch, tmp_path):
    """If a page cannot be written, it does not change."""
    kept = tmp_path / "training.md"
    kept.write_text(page())
    monkeypatch.setattr(report, "PAGE", str(kept))
    monkeypatch.setattr(report, "read", lambda path: [record(), record(data="cifar10")])
    with pytest.raises(ValueError):
        report.write()
    assert kept.read_text() == page()


def test_shares():
    text = report.text([record(arm=a, model=m) for a in plan.ARMS for m in ("vgg", "resnet")], [])
    found = {tuple(r[:2]): r[2:] for r in rows(text.split("## What the sums lost")[1], "format")}
    assert found["fp32", "`fpisa-a`"] == ["10%", "0.5%", "0.2%", "0%", "25%", "30%", "10%"]
    assert found["fp32", "default"] == ["-"] * 5 + ["30%", "10%"]
    claims = text.split("## Compared with the paper")[1]
    assert "| VGG 60%; others 60%. Default addition: VGG 60%; others 60% |" in claims and "OVERFLOW in 25% of the steps" in claims
    assert "1e-8 and more, medians of runs: Epoch 1: VGG 30%; others 30%" in claims
    assert rows(text, "network")[0][0] == "VGG" and ["VGG", "1", "0.5", "0.2", "60", "30", "60", "30"] in [
        r for part in text.split("\nFor `fpisa-a`")[1:] for r in rows(part, "network")]
    assert "| VGG 0.5%; others 0.5%; more in 0 of the 2 sampled steps, at most 0.5% |" in claims
    assert "| saturated: VGG 0.2%; others 0.2%; more in 2 of the 2 sampled steps, at most 0.2% |" in claims
    assert [report.of_sample(v) for v in ([], [1.5], [3.0, 1.0, 2.5])] == ["not run yet", "1.5", "2.5 (1 to 3)"]
    assert "One seed has no interval" in text and "at once:\n\n| VGG | ResNet |\n|---|---|\n| 20 | 20 |\n" in text


def test_bench_page():
    """The ratio in bench/README.md is the range over networks and quotas."""
    ratios = [line["sum_to_switchml"] for line in sweep.read(report.COST)[1:] if "sum_to_switchml" in line]
    with open(os.path.join(TOP, "bench", "README.md")) as f:
        assert f"over `udp` is {min(ratios):.2f} to {max(ratios):.2f} (`make training-cost`" in f.read()


def test_cost():
    """The medians equal those of the records, and the page shows a quota that had no effect."""
    line = {"model": "mlp", "parameters": 1000, "workers": 2, "quota_percent": 25, "contender": "fpisa", "rounds": 5, "steps": 9,
            "samples_per_s": 123.4, "samples_per_s_quartiles": [100.2, 150.1], "sum_ns_per_value": 9.44,
            "cpu_ms_per_sample": 2.5, "throttled": 0.5}
    ratios = {"sum_to_switchml": 0.5, "sum_to_switchml_quartiles": [0.4, 0.6], "samples_to_switchml": 1.5,
              "samples_to_switchml_quartiles": [1.25, 1.75]}
    found = report.cost([{"date": "2030-01-02", "cpus": 2, "cpu": "X", "kernel": "9.9", "busy": 0.25}, {**line, **ratios},
                         {**line, "contender": "none", "quota_percent": 0, "throttled": 0.0}])
    assert "Before the run, other processes used 25%\nof these CPUs. There were 2 workers and 5 rounds of 9 steps." in found
    assert "the largest median here is 1.50" in found
    assert rows(found, "network, parameters") == [
        ["mlp, 1000", "25% of a CPU", "`fpisa`", "9.4", "0.50 (0.40 to 0.60)", "123 (100 to 150)", "1.50 (1.25 to 1.75)", "2.500",
         "50%"],
        ["mlp, 1000", "none", "none", "-", "-", "123 (100 to 150)", "-", "2.500", "0%"]]
    assert "not run yet" in report.cost([])


def test_network():
    run = {"model": "vgg", "format": "fp16", "arm": "exact", "workers": 8, "steps": 3, "ranks_agree": True, "same_bits_as_mem": True}
    found = report.network([{"date": "2030-01-02", "cpus": 2, "cpu": "X", "kernel": "9.9"}, run,
                            {**run, "arm": "fpisa", "same_bits_as_mem": False}])
    assert "These results were measured on 2030-01-02 on 2 CPUs (X, Linux 9.9)." in found
    assert rows(found, "network") == [["VGG", "fp16", "`exact`", "8", "3", "yes", "yes"],
                                      ["VGG", "fp16", "`fpisa`", "8", "3", "yes", "no"]]
    assert "not run yet" in report.network([])


def test_again(monkeypatch, tmp_path):
    """If a run is done twice, the run on the same CPU replaces the earlier run."""
    first = [record(seed=s, weights=w, machine={"cpu": "X"}) for s, w in ((1, "a"), (2, "b"), (3, "c"))]
    paths = {name: tmp_path / name for name in ("RECORDS", "AGAIN")}
    for name, path in paths.items():
        monkeypatch.setattr(report, name, str(path))
    sweep.write(paths["RECORDS"], first)

    def does(*runs):
        sweep.write(tmp_path / "short", runs)
        report.record_again(str(tmp_path / "short"))
        return rows(report.again(sweep.read(paths["AGAIN"]), first), "first on")

    with pytest.raises(SystemExit, match="short has no second run of a run in .*RECORDS"):
        does(first[0], record(seed=4))  # a copy of a record, and a run that was done once
    by_y = [record(seed=s, weights=w, machine={"cpu": "Y"}, date="2030-01-03") for s, w in ((1, "a"), (2, "z"))]
    assert does(first[2], *by_y) == [["X", "Y", "1, 2", "2030-01-03", "2", "1"]]
    by_x = record(seed=1, weights="a", machine={"cpu": "X"}, date="2030-01-04")
    assert does(by_x, {**by_y[1], "weights": "b"}) == [
        ["X", "X", "1", "2030-01-04", "1", "1"], ["X", "Y", "1, 2", "2030-01-03", "2", "2"]]
    assert "not run yet" in report.again([], first)


def test_time_left(monkeypatch):
    """The remaining time is computed from the epochs in progress until a run has ended, and afterwards from runs. Two processes share the
    work."""
    now = [1000.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: now[0])
    clock, run = sweep.Clock(10), plan.Settings("mnist", "vgg", "fp32", "default", 1, 20)
    assert clock.expect("vgg") is None and clock.allows("vgg")
    clock.begin("a", run)
    now[0] += 50
    assert clock.epoch("a", 5) and not clock.epoch("a", 5)
    assert clock.expect("vgg") == 200 and clock.left([run, run], 2) == "5 min left"  # 2.75 runs
    assert clock.left([], 1) == "2 min left"
    clock.end("a")
    clock.note({"model": "vgg", "seconds": 60.0})
    assert clock.expect("vgg") == clock.expect("resnet") == 60 and clock.left([run], 2) == "30 s left"
    now[0] += 500
    assert not clock.allows("vgg")  # 550 of 600 s, and a run takes 60


@needs_gnuplot
def test_draws(tmp_path, monkeypatch):
    """Pictures show all arms, or a single arm."""
    monkeypatch.setattr(pictures, "PICTURES", str(tmp_path))
    for records in ([record()], [record(m, f, a, s, 96 + s / 7) for m in plan.NETWORKS for f in plan.FORMATS
                                 for a in plan.ARMS for s in (1, 2)]):
        assert pictures.draw(records)
    assert len(list(tmp_path.iterdir())) == 4

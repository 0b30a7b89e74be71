# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa stats for other programs: the text format of Prometheus, and --watch, also on a terminal of 24 x 80."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time

import pytest

from lab import FPISA, PIN, wait_until


def parse(text):
    """Return {(metric, labels): value}, parsed by Prometheus' own client library."""
    parser = pytest.importorskip("prometheus_client.parser")
    samples = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge"), family
        for s in family.samples:
            key = (s.name, tuple(sorted(s.labels.items())))
            assert key not in samples, f"{key} twice"
            samples[key] = s.value
    return samples


def expected(stats, job):
    """Yield the metrics that follow from the JSON of one job, except its drops."""
    for key, value in stats.items():
        if key in ("job", "drops"):
            continue
        if not key.startswith("v_"):
            yield (f"fpisa_{key}_total", (("job", str(job)),)), value


def with_strangers(net):
    """Make two jobs that have summed, and send frames that were dropped with and without a job."""
    net.load()
    net.add_job(3)
    net.add_job(5, "--token", "77")
    net.check_sum(3, 3000)
    net.check_sum(5, 1000, token=0x77)
    net.start(0, 5, timeout_ms=300).wait()
    net.start(0, 9, timeout_ms=300).wait()


def test_prometheus(lab):
    net = lab()
    with_strangers(net)
    text = net.fpisa("stats", "--prometheus")
    found = parse(text)
    drops = {job: 0 for job in ("3", "5", "none")}
    for (name, labels), value in found.items():
        if name == "fpisa_drops_total":
            drops[dict(labels)["job"]] += value
    assert drops["3"] == 0 and drops["5"] > 0 and drops["none"] > 0
    assert found["fpisa_drops_total", (("job", "5"), ("reason", "token"))] == drops["5"]
    assert found["fpisa_drops_total", (("job", "none"), ("reason", "no_job"))] == drops["none"]
    for job in (3, 5):
        stats = net.json("stats", job)
        assert drops[str(job)] == stats["drops"]
        for key, value in expected(stats, job):
            assert found.pop(key) == value, key
        for verdict, value in stats.items():
            if verdict.startswith("v_"):
                label = ("job", str(job))
                outcome = found.pop(("fpisa_frames_total", (label, ("outcome", verdict[2:]))), None)
                reason = found.pop(("fpisa_drops_total", (label, ("reason", verdict[2:]))), None)
                assert [value] == [v for v in (outcome, reason) if v is not None], verdict
        for gauge in ("workers", "live_workers", "joined_workers"):
            assert found.pop((f"fpisa_job_{gauge}", (("job", str(job)),))) == 2
    assert all(dict(labels)["job"] == "none" for _, labels in found), found


def test_promtool(lab):
    """promtool does not complain about names, types and help texts."""
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed; it is in Debian's package prometheus")
    net = lab()
    with_strangers(net)
    for argv in ([], [3]):
        p = subprocess.run(["promtool", "check", "metrics"], input=net.fpisa("stats", *argv, "--prometheus"), text=True,
                           capture_output=True)
        assert p.returncode == 0 and p.stdout + p.stderr == "", p.stdout + p.stderr
    p = subprocess.run(["promtool", "check", "metrics"], input="fpisa_packets 1\n", text=True, capture_output=True)
    assert p.returncode != 0


def test_prometheus_of_one_job(lab):
    net = lab()
    with_strangers(net)
    net.fpisa("job", "shrink", 3, 1)
    found = parse(net.fpisa("stats", 3, "--prometheus"))
    assert {dict(labels)["job"] for _, labels in found} == {"3"}
    assert found["fpisa_job_live_workers", (("job", "3"),)] == 1
    assert found["fpisa_job_workers", (("job", "3"),)] == 2
    packets = found["fpisa_packets_total", (("job", "3"),)]
    net.fpisa("job", "del", 3)
    found = parse(net.fpisa("stats", "--prometheus"))
    assert found["fpisa_packets_total", (("job", "3"),)] == packets
    assert ("fpisa_job_workers", (("job", "3"),)) not in found


def test_prometheus_file(lab, tmp_path):
    """A reader sees a complete file at any time, and no other file appears in the directory."""
    net = lab()
    net.load()
    net.add_job(1)
    file = tmp_path / "fpisa.prom"
    assert net.fpisa("stats", f"--prometheus={file}") == ""
    assert file.stat().st_mode & 0o777 == 0o644
    whole = parse(file.read_text())
    assert whole["fpisa_packets_total", (("job", "1"),)] == 0
    p = net.agg.spawn(FPISA, "stats", f"--prometheus={file}", "--watch", "0.05")
    net.check_sum(1, 5000)
    final = net.json("stats", 1)["packets"]

    def caught_up():
        now = parse(file.read_text())
        assert now.keys() == whole.keys()
        return now["fpisa_packets_total", (("job", "1"),)] == final
    wait_until("the file to follow", caught_up)
    p.send_signal(signal.SIGTERM)
    assert p.wait(60) == -signal.SIGTERM
    assert os.listdir(tmp_path) == ["fpisa.prom"]
    before = file.read_text()
    net.fpisa("unload")
    status, out, err = net.agg.try_run(FPISA, "stats", f"--prometheus={file}")
    assert status == 1 and out == "" and "no datapath is loaded" in err
    assert file.read_text() == before
    net.load()
    status, out, err = net.agg.try_run(FPISA, "stats", f"--prometheus={tmp_path}/no/f.prom")
    assert status == 1 and re.match(r"fpisa: .*/no/f.prom: No such file or directory\n$", err)
    os.mkfifo(tmp_path / "pipe")
    status, out, err = net.agg.try_run(FPISA, "stats", f"--prometheus={tmp_path}/pipe")
    assert status == 1 and re.match(r"fpisa: .*/pipe is not a regular file, and would be replaced; .*\n$", err), err
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode) and sorted(os.listdir(tmp_path)) == ["fpisa.prom", "pipe"]
    for options, says in ((["--json", "--prometheus"], "--json and --prometheus exclude each other"),
                          (["--prometheus="], "name a file"),
                          (["--prometheus", "--watch"], "--watch with --prometheus requires a file; give --prometheus=FILE")):
        status, out, err = net.agg.try_run(FPISA, "stats", *options)
        assert status == 2 and says in err


class Terminal:
    """The parts of a terminal that --watch needs, with a count of errors"""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.screen = [""] * rows
        self.picture = None  # the screen at the last cursor-home sequence
        self.cut = ""  # an incomplete escape sequence
        self.row = self.column = self.wraps = self.scrolls = self.redraws = 0

    def feed(self, text):
        text, self.cut = re.fullmatch(r"([\s\S]*?)(\x1b(?:\[[0-9;]*)?)?", self.cut + text).groups("")
        for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\s\S]", text):
            if token == "\x1b[H":
                self.row = self.column = 0
                self.picture = list(self.screen)
                self.redraws += 1
            elif token == "\x1b[K":
                self.screen[self.row] = self.screen[self.row][:self.column]
            elif token == "\x1b[J":
                below = [""] * (self.rows - self.row - 1)
                self.screen[self.row:] = [self.screen[self.row][:self.column]] + below
            elif token == "\r":
                self.column = 0
            elif token == "\n":
                self.down()
            else:
                assert token.isprintable(), repr(token)
                if self.column == self.columns:
                    self.wraps += 1
                    self.column = 0
                    self.down()
                line = self.screen[self.row].ljust(self.column)
                self.screen[self.row] = line[:self.column] + token + line[self.column + 1:]
                self.column += 1

    def down(self):
        if self.row < self.rows - 1:
            self.row += 1
        else:
            self.scrolls += 1
            self.screen = self.screen[1:] + [""]


def watch(net, rows, columns, redraws, *argv):
    """Return the lines of a terminal after `redraws` screens of `fpisa stats --watch`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    p = net.agg.spawn(FPISA, "stats", *argv, "--watch", "0.1", stdout=slave, stderr=slave)
    os.close(slave)
    t = Terminal(rows, columns)
    deadline = time.monotonic() + 60
    try:
        while t.redraws <= redraws:
            assert time.monotonic() < deadline, t.screen
            if select.select([master], [], [], 1)[0]:
                t.feed(os.read(master, 65536).decode())
    finally:
        p.kill()
        p.wait()
        os.close(master)
    assert t.wraps == t.scrolls == 0, "\n".join(t.screen)
    return t.picture


@pytest.mark.parametrize("pipeline", ["fused", "staged"])
def test_watch_on_a_terminal(lab, pipeline):
    net = lab()
    net.load()
    net.add_job(1, "--pipeline", pipeline)
    net.check_sum(1, 20000)
    net.start(0, 9, timeout_ms=300).wait()
    full = {line.split()[0]: line.split()[1] for line in net.fpisa("stats", 1).splitlines()
            if re.match(r"(?!job)\w+ +\d+ ", line)}
    screen = watch(net, 24, 80, 3, 1)
    assert screen[0].split() == ["job", "1", "total", "per", "second"]
    rows = [line.split() for line in screen[1:] if re.match(r"\w+ +\d+ ", line)]
    assert len(rows) >= 8 and all(full[name] == total and per == "0" for name, total, per, *_ in rows)
    assert {"accepted", "result", "packets", "bytes"} <= {r[0] for r in rows}
    hidden = {name for name, n in full.items() if n != "0"} - {r[0] for r in rows}
    assert bool(hidden) == ("more rows than fit here: fpisa stats" in screen[23])
    tall = watch(net, 60, 132, 2, 1)
    shown = {line.split()[0] for line in tall[1:] if re.match(r"(?!job)\w+ +\d+ ", line)}
    assert shown == {name for name, n in full.items() if n != "0"} and not any("..." in s for s in tall)
    everything = watch(net, 24, 80, 2)
    assert any(s.startswith("no_job ") for s in everything)
    assert watch(net, 5, 40, 2)[4] == "more rows than fit here: fpisa stats"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watch(lab, options):
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    p = net.agg.spawn(FPISA, "stats", 1, "--watch", "0.3", *options)
    said = [p.stdout.readline()]
    net.check_sum(1, 20000)
    assert net.counters(1, PIN)["v_result"] == 79

    def whole():
        return json.loads(said[-1])["v_result"] == 79 if options else "".join(said).count("per second") == 3
    while not whole() and len(said) < 1000:
        said.append(p.stdout.readline())
    assert p.poll() is None
    p.send_signal(signal.SIGTERM)
    _, err = p.communicate(timeout=60)
    assert p.returncode == -signal.SIGTERM and err == "" and whole()
    if options:
        assert len(said) >= 2 and max(json.loads(line)["per_second"]["v_result"] for line in said) > 0
    else:
        assert "outcomes of frames" in "".join(said)

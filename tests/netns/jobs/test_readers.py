# SPDX-License-Identifier: GPL-2.0-only
"""Test verbs that only read, and the JSON of verbs that change something. The JSON parses, and agrees with the text, with bpftool and with
the names of job add's options."""
import json
import re

import pytest

from lab import ADDRESS, COMMAND_S, FPISA, PIN, go_on, read_answers, wait_until
from refusals import refused
from terminal import OnTerminal


@pytest.mark.parametrize("verb", [["status"], ["job", "list"], ["stats"], ["slots"], ["job", "show", "1"]])
def test_readers_without_a_datapath(lab, verb):
    net = lab(workers=1)
    refused(net, verb, "no datapath is loaded .*; run fpisa load DEV")
    net.load()
    refused(net, verb, "Permission denied; run as root", uid=65534)


def test_json_of_every_reader(lab):
    net = lab(workers=2)
    net.load()
    net.add_job(5, "--token", "abcdef0123456789", "--elements", 128, "--window", 8)
    net.check_sum(5, 4000, token=0xABCDEF0123456789)
    status = net.json("status")
    assert status["pinned"] == PIN and status["port"] == 18000 and status["jobs"] == 1
    assert status["manager"] is None and "manager     never started\n" in net.fpisa("status")
    assert {m["name"] for m in status["maps"]} >= {"fpisa_jobs", "fpisa_exponents", "fpisa_mantissas"}
    assert status["map_bytes"] == sum(m["bytes"] for m in status["maps"]) > 10 << 20
    listed, = net.json("job", "list")
    expect = {"job": 5, "workers": 2, "elements": 128, "window": 8, "live": [0, 1], "joined": [0, 1]}
    assert listed == {**listed, **expect}
    shown = net.json("job", "show", 5)
    assert shown["token"] == "abcdef0123456789" and shown["generation"] == listed["generation"] != 0
    assert [(m["address"], m["port"], m["dev"], m["state"]) for m in shown["members"]] == [
        (a, 18000, dev, "joined") for a, dev in zip(net.addresses, net.ports)]
    for r, m in enumerate(shown["members"]):
        assert m["mac"] in net.worker[r].run("ip", "link", "show", "eth0")
    c = net.counters(5, PIN)
    stats = net.json("stats", 5)
    assert {k: stats[k] for k in c} == c and stats["drops"] == 0 and c["v_result"] == 32
    # Frames of the kernel's own stack (neighbours, multicast groups) are foreign and may come at any time.
    before = net.counters(64, PIN)["v_not_ours"]
    everything = net.json("stats")
    assert everything["job"] is None and everything["v_result"] == 32
    assert before <= everything["v_not_ours"] <= net.counters(64, PIN)["v_not_ours"]
    assert net.json("slots") == [] == net.json("slots", 5)
    # This verb is the slowest, because it loads every object.
    p = OnTerminal([FPISA, "resources", "--json"])
    status, out = p.wait(COMMAND_S)
    assert status == 0 and "\r\033[Kmeasuring family w2c1\r" in p.said and p.screen() == "", p.said
    core = json.loads(out)
    queries = net.json("query", "resources")
    assert {"fpisa", "fpisa_mau0", "fpisa_mau8"} <= {p["name"] for p in core["programs"]}
    assert {"fpisa_topn", "fpisa_table", "fpisa_join"} == {p["name"] for p in queries["programs"]}
    assert not {m["name"] for m in core["maps"]} & {m["name"] for m in queries["maps"]}


def test_text_of_every_reader(lab):
    net = lab(workers=2)
    net.load()
    net.add_job(5)
    net.check_sum(5, 4000)
    assert "native" in net.fpisa("status") and PIN in net.fpisa("status")
    assert "joined" in net.fpisa("job", "show", 5) and "missing" not in net.fpisa("job", "show", 5)
    assert net.fpisa("job", "list").splitlines()[1].split()[0] == "5"
    text = net.fpisa("stats", 5)
    line = next(line for line in text.splitlines() if line.startswith("result "))
    assert line.split()[1] == "16" and "round complete" in line
    assert "no drops" in text
    assert net.fpisa("slots").splitlines()[1:] == []


def test_job_list(lab):
    """The columns of job list are the fields of its JSON, named as the options of job add. The further fields of job show are named in the
    same way."""
    net = lab()
    net.load()
    net.add_job(3, "--elements", 64, "--mode", "exact", "--clz", "lpm", "--format", "mxint8")
    net.add_job(4, "--rounding", "nearest", "--fanout", "unicast", "--pipeline", "staged", "--window", 4, "--ports", 2)
    heads, *rows = net.fpisa("job", "list").splitlines()
    for row, job in zip(rows, net.json("job", "list")):
        job["live"], job["joined"] = len(job["live"]), len(job["joined"])
        shown = net.json("job", "show", job["job"])
        for head, text in zip(heads.split(), row.split(), strict=True):
            assert str(job[head]) == text, head
            assert head in ("live", "joined") or shown[head] == job[head]
        assert row.index(job["format"]) == heads.index("format")
    assert len(rows) == 2
    # Two options are not settings of the job: the source of its frames, and the rate with which its links are compared.
    options = re.sub("--(foreign-address|rate)", "", net.fpisa("help", "job", "add"))
    assert {o.replace("-", "_") for o in re.findall(r"^  --(\S+)", options, re.M)} <= shown.keys()
    assert (shown["window"], shown["ports"], shown["pipeline"], shown["fanout"]) == (4, 2, "staged", "unicast")


def test_slots_name_the_missing(lab):
    """If two of three ranks contribute, every open round lacks the third rank."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, "--window", 4)
    late = net.start(2, 1, {"go": True}, {"count": 5000, "kind": "integers"})
    early = [net.start(r, 1, {"count": 5000, "kind": "integers"}) for r in (0, 1)]
    rows = wait_until("open rounds", lambda: [r for r in net.json("slots", 1) if r["arrived"] == 2])
    assert all(r["missing"] == [2] and r["of"] == 3 and r["job"] == 1 and r["chunk"] < 4 for r in rows)
    assert net.fpisa("slots").splitlines()[1].split("  ")[-1].split(";")[0].strip() == "2"
    go_on(late)
    for p in early + [late]:
        read_answers(p)
    assert net.json("slots") == []


def test_json_of_what_is_done(lab, tmp_path):
    """Verbs that change something report the change in one JSON structure."""
    net = lab(workers=2)
    assert net.json("load", *net.ports) == {"done": "load", "interfaces": net.ports, "mode": "native", "pin": PIN}
    net.add_job(5)
    assert net.json("job", "shrink", 5, 1) == {"done": "job shrink", "job": 5, "live": [0]}
    assert net.json("job", "del", 5) == {"done": "job del", "job": 5}
    net.fpisa("query", "add", 6, "--kind", "topn", "--workers", net.addresses[0], "--master", net.addresses[1], "--limit", 3,
              "--address", ADDRESS)
    assert net.json("query", "del", 6) == {"done": "query del", "query": 6}
    assert net.json("upgrade") == {"done": "upgrade"}
    assert net.json("unload", "p0") == {"done": "unload", "removed": False, "elsewhere": None}
    (tmp_path / "c").write_text(f"[interface p0]\n[interface p1]\n[job 7]\nworkers = {','.join(net.addresses)}\naddress = {ADDRESS}\n")
    done = {"done": "config apply", "file": str(tmp_path / "c")}
    assert net.json("config", "apply", tmp_path / "c") == {**done, "interfaces": ["p0"], "jobs": [7]}
    assert net.json("config", "apply", tmp_path / "c") == {**done, "interfaces": [], "jobs": []}
    assert net.json("unload") == {"done": "unload", "removed": True, "elsewhere": None}
    status, out, _ = net.agg.try_run(FPISA, "unload", "--json")
    assert status == 1 and out == ""

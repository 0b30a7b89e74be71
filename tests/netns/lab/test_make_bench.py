# SPDX-License-Identifier: GPL-2.0-only
"""Run `make bench` briefly. Each part measures, and every picture is drawn. The test does not check the figures."""
import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

import mpi as mpis
import postgres
from lab import BUILD, TOP, wait_until

RUN = os.path.join(TOP, "bench", "run.py")
TOPOLOGY = os.path.join(TOP, "bench", "collective", "topology.py")
COLLECTIVE = os.path.join(TOP, "bench", "collective", "collective.py")
TORCH = os.path.exists(os.path.join(BUILD, "torch", "built"))


def bench(*argv):
    command = [sys.executable, "-B", RUN, *map(str, argv)]
    p = subprocess.run(command, text=True, capture_output=True, timeout=600)
    return p.returncode, p.stdout, p.stderr


@pytest.mark.long
def test_mpi(tmp_path):
    for m in mpis.MPIS:
        if mpis.lacking(m):
            pytest.skip(mpis.lacking(m))
    status, out, err = bench("--quick", "--out", tmp_path, BUILD, "mpi")
    assert status == 0, out + err
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    found = {(r["contender"], r["bytes"]) for r in lines if "contender" in r}
    assert found == {(who, n) for who in ("fpisa-openmpi", "fpisa-mpich", *mpis.MPIS) for n in (8, 65536)}
    assert any("crossover_bytes" in r for r in lines) and (tmp_path / "mpi.svg").exists()


@pytest.mark.long
def test_merge(tmp_path):
    status, out, err = bench("--quick", "--out", tmp_path, BUILD, "merge")
    assert status == 0, out + err
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    found = {r["contender"]: r for r in lines if "contender" in r}
    assert {"fpisa", "user", "postgres_fdw"} <= set(found) and all(r["groups"] == 1000 and r["workers"] == 2 for r in found.values())


@pytest.mark.long
def test_reproducible(tmp_path):
    """The exact sums have the same bits in every run, and are those of math.fsum."""
    if not os.path.exists(os.path.join(BUILD, "doors")):
        pytest.skip("the engines of PyPI are not installed; run make doors")
    status, out, err = bench("--quick", "--out", tmp_path, BUILD, "reproducible")
    assert status == 0, out + err
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    found = {(r["engine"], r["type"]): r for r in lines if "engine" in r}
    ours = ["fpisa.sum", *([] if postgres.lacking() else ["fpisa_sum"])]
    assert all((name, kind) in found for name in ours for kind in ("double", "real"))
    for r in found.values():
        assert r["sums"].keys() == {"1", "4"} and 1 <= r["all"] <= 6 and r["keys"] == 105
        if r["engine"] in ours:
            assert r["all"] == 1 and not r["keys_differ"]
            assert r["least"] == r["greatest"] == r["exact"] or (r["engine"], r["type"]) == ("fpisa_sum", "real")
    assert "| fpisa.sum |" in out


@pytest.mark.long
def test_engines(tmp_path):
    """Every system that is installed answers its queries, with the same answers."""
    if postgres.lacking() or not os.path.exists(os.path.join(BUILD, "doors")):
        pytest.skip(postgres.lacking() or "the engines of PyPI are not installed; run make doors")
    status, out, err = bench("--quick", "--out", tmp_path, BUILD, "engines")
    assert status == 0, out + err
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    found = {(r["way"], r["query"]): r for r in lines if "way" in r}
    single = {"top_n", "group_by_having", "group_by_sum"}
    every = single | {"tpch_q3", "tpch_q20_price", "tpch_q1", "tpch_q6"}
    want = {"query run, network": single, "query run, network, preaggregate": single - {"top_n"}, "query run, workers": single,
            **{f"wrapper, {way}": every for way in ("network", "network, preaggregate", "workers")}, "postgres_fdw": every,
            "duckdb, one machine": every, **({} if "spark: left out" in err else {"spark": every})}
    assert set(found) == {(way, query) for way, queries in want.items() for query in queries}
    for (way, _), r in found.items():
        assert r["cpu_s"] > 0 and r["first_cpu_s"] > 0 and r["seconds"] > 0 and (r["bytes"] > 0 or way == "duckdb, one machine"), r
    r = found["query run, workers", "group_by_sum"]
    assert f"{r['cpu_s']:.2f}; {r['seconds']:.2f}; {r['bytes'] / 1e6:.2f}" in next(line for line in out.splitlines() if "| query run, workers | " in line)


@pytest.mark.long
def test_all_parts(tmp_path):
    """All parts measure, except mpi and parts that are not built on this machine."""
    pytest.importorskip("numpy", reason="python3-numpy is not installed")
    parts = ["arith", "endian", "query", "pruning", "wire", "steer", "worker", "collective", "topology", *(["training", "training-colocated", "training-exact"] if TORCH else []),
             *([] if postgres.lacking() else ["sum"])]
    status, out, err = bench("--quick", "--out", tmp_path, BUILD, *parts)
    assert status == 0, out + err
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert results[0]["bench"] == "machine" and results[0]["quick"]
    assert {r["bench"] for r in results[1:]} == {*parts, "part"}
    times = [r for r in results if r["bench"] == "part"]
    assert [r["part"] for r in times] == parts and all(0 <= r["busy"] <= 1 and r["seconds"] > 0 for r in times)
    ours = [r for r in results if r["bench"] == "collective" and r["contender"] == "fpisa"]
    assert {r["bytes"] for r in ours} == {1024, 65536}
    assert all(r["udp_gro"] in ("on", "off") for r in ours)
    assert {r["topology"] for r in ours} == {"switch", "one-port"}
    # 64 KB minus the bucket take 3 ms at 100 Mbit/s, or 3 ms for each worker behind one port. If the time is shorter, the link was not
    # shaped.
    links = {"switch": 1, "one-port": 2}
    assert all(r["seconds"] > 0.8 * (r["bytes"] * links[r["topology"]] - 32768) * 8 / 1e8 for r in ours)
    assert [set(r["others"]) for r in results if r["bench"] == "topology"] == [{"gloo", "openmpi", "mpich"} - left_out(err)] * 3
    assert {r["contender"] for r in results if r["bench"] == "training-colocated"} == ({"fpisa", "gloo"} if TORCH else set())
    exact = [r for r in results if r["bench"] == "training-exact"]
    assert {(r["topology"], r["contender"]) for r in exact} == {(t, c) for t in ("switch", "colocated") for c in ("fpisa", "fpisa-exact", "gloo")
                                                                if TORCH}
    assert all(r["fpisa"] > 0 for r in exact if r["contender"] == "fpisa-exact")
    steps = [r for r in results if r["bench"] == "training"]
    names = {"fpisa", "fpisa-hook", "gloo", "switchml", *(["openmpi"] if "training: openmpi: left out" not in err else [])}
    assert {r["contender"] for r in steps} == (names if TORCH else set())
    assert all(r["step_ms"] > 0 and r["cpu_ms"] > 0 and len(r["quartiles"]) == 2 for r in steps)
    for name in ("arith", "round", "wire", "worker", "collective", "collective-one-port", "relative", *(["training-mlp"] if TORCH else []),
                 *({"sum"} & set(parts))):
        assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "summary.txt").read_text() == out
    assert "aggregator CPU" in out and "not measured" in out


@pytest.mark.long
def test_topology(tmp_path):
    """A run that ended after its first point continues with the second. The links of each topology are shaped."""
    pytest.importorskip("numpy", reason="python3-numpy is not installed")
    kept = tmp_path / "kept"
    command = [sys.executable, "-B", TOPOLOGY, "--quick", "--only", "fpisa", "--keep", kept]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as p:
        first = p.stdout.readline()
        p.kill()
    p = subprocess.run(command, text=True, capture_output=True, timeout=300)
    assert p.returncode == 0, p.stderr
    lines = p.stdout.splitlines(keepends=True)
    assert lines[0] == first and len(lines) == 3 and not kept.exists()
    # Vectors arrive over a 20 Mbit/s link, which delays all bytes beyond the first bucket.
    vectors = {"switch": 1, "one-port": 2, "everywhere-1": 1, "dedicated-2": 1, "colocated": 1}
    points = [json.loads(line) for line in lines]
    assert set(points[1]["ours"]) == set(vectors) and points[2]["loss"] == 0.01
    for p in points:
        assert all(o["seconds"] > 0.8 * (p["bytes"] * vectors[t] - 32768) * 8 / 2e7 for t, o in p["ours"].items())


def collective(topologies, workers, size=131072, rounds=1, *more):
    """Measure sums of `size` bytes over links of 20 Mbit/s."""
    pytest.importorskip("numpy", reason="python3-numpy is not installed")
    return subprocess.run([sys.executable, "-B", COLLECTIVE, "--topologies", topologies, "--workers", workers, "--rates", "20", "--sizes", str(size),
                           "--rounds", str(rounds), "--only", "fpisa", *more], text=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("topology, ring", [("racks-2", 3), ("spread-2", 6)])
@pytest.mark.long
def test_racks(topology, ring):
    """The uplink of a rack of two workers has half a worker's rate, which delays all bytes beyond the first bucket. With neighbours in
    different racks, a ring carries each of its two workers' vectors over it."""
    p = collective(topology, "4")
    assert p.returncode == 0, p.stderr
    line = json.loads(p.stdout)
    assert line["topology"] == topology and line["limit_s"] == pytest.approx(131072 * 8 / 1e7)
    assert line["ring_limit_s"] == pytest.approx(ring * 131072 * 8 / 2e7)
    assert line["seconds"] > 0.8 * (131072 - 32768) * 8 / 1e7
    p = collective("racks-2,switch", "4")
    assert p.returncode == 2 and "racks-K takes one number of workers, and no other topology" in p.stderr


@pytest.mark.long
def test_hosts():
    """With two ranks on each of two hosts, a host's link carries one vector in each direction. In a smaller vector, the frames that
    are sent again have a larger share."""
    size = 524288
    p = collective("hosts-2", "4", size, rounds=3)
    assert p.returncode == 0, p.stderr
    line = json.loads(p.stdout)
    assert line["topology"] == "hosts-2" and line["limit_s"] == pytest.approx(size * 8 / 2e7)
    assert 0 < line["starts_s"] < line["seconds"]
    assert line["ring_limit_s"] == pytest.approx(line["limit_s"]) and line["seconds"] > 0.8 * (size - 32768) * 8 / 2e7
    assert 1 < line["sent"] < 1.1 and 1 < line["received"] < 1.1
    p = collective("hosts-2", "3")
    assert p.returncode == 2 and "give a multiple of the number of hosts" in p.stderr


def test_groups():
    """In a reduce-scatter of a group, three of four hosts send each part to the host of its rank, and no other frames with values. With
    one aggregator, each rank sends the whole vector and receives its part."""
    p = collective("colocated,switch", "4", 524288, 3, "--groups", "--operations", "reduce_scatter,allreduce")
    assert p.returncode == 0, p.stderr
    beside, whole, switch, _ = map(json.loads, p.stdout.splitlines())
    assert (beside["topology"], switch["topology"], beside["groups"], whole["topology"]) == ("colocated", "switch", True, "colocated")
    assert beside["limit_s"] == pytest.approx(0.75 * 524288 * 8 / 2e7) and switch["limit_s"] == pytest.approx(524288 * 8 / 2e7)
    assert 3 < beside["sent"] < 3.5 and 3 < beside["received"] < 3.5 and 4 < switch["sent"] < 4.5 and 1 < switch["received"] < 1.5
    assert beside["seconds"] < whole["seconds"]
    p = collective("racks-2", "4", 524288, 1, "--groups")
    assert p.returncode == 2 and "the topologies of groups are switch, one-port, colocated" in p.stderr


def test_a_part_that_fails(tmp_path):
    """A failed part is reported, and the results of an earlier run are removed."""
    (tmp_path / "wire.png").write_bytes(b"old")
    status, out, err = bench("--quick", "--out", tmp_path, tmp_path / "nothing", "wire")
    assert status == 1 and "wire" in err and "Traceback" not in err
    assert not (tmp_path / "wire.png").exists() and "not measured" in out


def test_no_such_part(tmp_path):
    status, _, err = bench("--out", tmp_path, BUILD, "speed")
    assert status == 2 and "speed: no such part" in err


def left_out(err):
    """Return the contenders that are not installed on this machine."""
    return {line.split(": ")[1] for line in err.splitlines() if ": left out, " in line}


def session(leader):
    """Return the processes of a session except its leader."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
            if int(fields[3]) == leader != int(pid) and fields[0] != "Z":
                found.append(int(pid))
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ended(tmp_path, number):
    """If the benchmark is ended, its ranks end too."""
    pytest.importorskip("numpy", reason="python3-numpy is not installed")
    with subprocess.Popen([sys.executable, "-B", RUN, "--out", tmp_path, BUILD, "collective"],
                          stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True) as p:
        wait_until("collective and ranks", lambda: len(session(p.pid)) >= 3, timeout_s=60)
        os.kill(p.pid, number)
    try:
        wait_until("the end of all processes", lambda: not session(p.pid), timeout_s=60)
    finally:
        for pid in session(p.pid):
            os.kill(pid, signal.SIGTERM)


def test_signal_in_destructor():
    """A signal ends a benchmark with clean-up, even if a destructor loses the handler's exception."""
    script = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from common import exit_on_signals
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.001)
exit_on_signals()
try:
    Lost()
    time.sleep(100)
finally:
    print("cleaned up")
"""
    p = subprocess.run([sys.executable, "-B", "-c", script, os.path.dirname(RUN)], text=True, capture_output=True, timeout=80)
    assert (p.stdout, p.stderr) == ("cleaned up\n", "") and p.returncode > 128

# SPDX-License-Identifier: GPL-2.0-only
"""The figures of `fpisa bench` are consistent, and no process or pin is left. No test checks the speed of this machine."""
import json
import os
import re
import signal
import subprocess

import pytest

from lab import ADDRESS, BPFFS, FPISA, TOP, children, setting, wait_until
from terminal import OnTerminal

GRADIENTS = os.path.join(TOP, "data", "gradients", "epoch20.f32")
KEYS = """touch_ns int32_add_ns fpisa_add_ns fpisa_add_no_statistics_ns fpisa_a_add_ns fpisa64_add_ns exact_add_ns
    staged_add_ns readout_bits_ns readout_lpm32_ns""".split()
MODES = ["fpisa", "fpisa-a", "fpisa64", "exact"]
FORMATS = "fp32 fp16 bf16 fp64 e4m3 e5m2 int32 mxint8".split()


def bench(*argv, status=0):
    done = subprocess.run([FPISA, "bench", *argv], capture_output=True, text=True, timeout=600)
    assert done.returncode == status, done.stderr
    return done


def on_terminal(verb, *argv):
    """Run the verb on a terminal. Return its stdout. Check that progress appears on the terminal and is erased."""
    p = OnTerminal([FPISA, "bench", verb, *argv])
    status, out = p.wait(600)
    assert status == 0 and p.screen() == "" and re.search(rf"\r\033\[Kbench {verb}: \d+%\r", p.said), p.said
    return out


@pytest.fixture(scope="module")
def reports(mounts):
    """Return reports(n), which returns the n-th report, and measures it when it is first needed."""
    made = []

    def get(n):
        while len(made) <= n:
            out = on_terminal("arith", "--json", "--rounds", "9", "--seed", "5", "--gradients", GRADIENTS)
            assert len(out.splitlines()) == 1
            made.append(json.loads(out))
        return made[n]

    return get


def of_one(check):
    """Make a test that checks that one of three reports has consistent figures, because other work on the machine may delay some of them."""
    def test(reports):
        for n in range(3):
            try:
                return check(reports(n))
            except AssertionError:
                if n == 2:
                    raise

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return pytest.mark.alone(test)


def in_order(of, key, quartiles=None):
    """Check the order of the quartiles. The time of a read-out is a difference between the last worker and an earlier worker, so on a busy
    machine a few are negative."""
    low, high = quartiles or of[key + "_quartiles"]
    assert low <= of[key] <= high and of[key] > 0 and (low > 0 or "readout" in key), (key, low, of[key], high)


@of_one
def test_figures(report):
    assert report["rounds"] == 9 and report["seed"] == 5 and report["elements"] == 256
    for key in KEYS:
        in_order(report, key, report["quartiles"][key])
        in_order(report["ratios"], key)
    assert report["ratios"]["int32_add_ns"] == 1
    # This holds by a wide margin on any machine, because the trie is walked one node for each bit, and an add takes at most one more pass.
    assert report["readout_lpm32_ns"] > 2 * report["readout_bits_ns"]
    assert report["staged_add_ns"] > report["int32_add_ns"] > report["empty_ns"]


@of_one
def test_frame(report):
    """All figures of a frame add up, except the figure of the add, which the estimate also contains."""
    ns = report["frame_ns"]
    for key in ("known", "known_tagged", "known_live", "add_live_estimate"):
        in_order(ns, key)
    assert ns["known"] < 256 * report["fpisa_add_ns"] and ns["known_live"] < ns["add_live_estimate"]


@of_one
def test_networks(report):
    """A frame with a VLAN tag or over IPv6 takes longer than without, by less than an add. The add of 256 elements is most of a frame's time."""
    for network in "vlan", "ipv6":
        of = report[network]
        for key in "known", "add", "last":
            low, high = of[f"{key}_more_quartiles"]
            assert low <= of[f"{key}_more"] <= high and abs(high) < 256 * report["fpisa_add_ns"], (network, key, of)
            in_order(of, f"{key}_ratio")
        assert of["known_more"] > 0 and of["known_ratio"] > 1


@of_one
def test_exact64(report):
    """The reported ratios of exact sums of fp64 to exact sums of fp32 agree with the figures of the configurations."""
    found = {(c["format"], c["elements"]): c for c in report["configurations"]
             if (c["values"], c["mode"], c["pipeline"], c["clz"], c["workers"]) == ("random", "exact", "fused", "bits", 8)}
    wide, narrow = found["fp64", 128], found["fp32", 256]
    for key, quotient in (("add_ratio", wide["add_ns"] / narrow["add_ns"]), ("set_over_add", wide["set_ns"] / wide["add_ns"])):
        in_order(report["exact64"], key)
        assert quotient / 1.5 <= report["exact64"][key] <= quotient * 1.5, (key, quotient)
    in_order(report["exact64"], "readout_ratio")


@of_one
def test_programs(report):
    """The fastest program of each kind is reported, with two compilers if two are installed."""
    for kind, key in (("touch", "touch_ns"), ("int32_add", "int32_add_ns")):
        programs = {p["name"]: p["ns"] for p in report["programs"] if p["does"] == kind}
        assert len(programs) >= 6
        assert min(programs.values()) == report[key] == programs[report[kind + "_program"]]
        compilers = {setting("BPF_CLANG"), setting("BENCH_CLANG")}
        assert {name.split()[-1] for name in programs} == compilers


@of_one
def test_configurations(report):
    counted = [c for c in report["configurations"] if c["statistics"] and not c["big_endian"]]
    found = {(c["values"], c["format"], c["mode"], c["pipeline"], c["clz"], c["workers"], c["elements"]): c for c in counted}
    assert len(found) == len(counted) == len(report["configurations"]) - 2
    wanted = [("random", "fp32", m, p, "bits", n, 256) for m in MODES for p in ("staged", "fused") for n in (2, 8, 32)]
    wanted += [("random", f, "fpisa", "fused", "bits", n, 256) for f in FORMATS for n in (2, 8, 32)]
    wanted += [("random", "fp64", "exact", "fused", "bits", 8, n) for n in (32, 64, 96, 128)]
    wanted += [("random", "fp64", "exact", "staged", "bits", 8, 128)]
    wanted += [(GRADIENTS, "fp32", m, "fused", "bits", 8, 256) for m in MODES]
    wanted += [("random", "fp32", "fpisa", p, "lpm", 8, 256) for p in ("staged", "fused")]
    assert not set(wanted) - set(found)
    for (_, _, _, _, _, workers, _), c in found.items():
        in_order(c, "set_ns")
        in_order(c, "round_ns")
        assert ("add_ns" in c) == (workers > 2)
        # A whole round is the sum of its parts. Medians do not add up to the last digit.
        parts = c["set_ns"] + (workers - 2) * c.get("add_ns", 0) + c["last_ns"]
        assert parts / 2 < c["round_ns"] < parts * 2
        if workers > 2:
            in_order(c, "add_ns")
            low, high = report["quartiles"]["int32_add_ns"]
            assert low / 1.5 <= c["add_ns"] / c["add_ratio"] <= high * 1.5


@of_one
def test_cpus(report):
    if len(os.sched_getaffinity(0)) < 2:
        assert report["cpus"] is None
        pytest.skip("one CPU")
    for key in ("add_scaling", "spin_scaling", "ratio", "owned_scaling", "shared_scaling", "owned_ratio",
                "owned_over_shared"):
        in_order(report["cpus"], key)
        assert 0.2 < report["cpus"][key] < 10


def test_text(mounts):
    """The table fits on a terminal, an option chooses one CPU, and nothing stays pinned."""
    before = os.listdir(BPFFS)
    out = bench("arith", "--rounds", "9", "--cpus", "1").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert "fpisa_add_ns" in out and "2 CPUs" not in out
    assert os.listdir(BPFFS) == before


@pytest.mark.parametrize("argv, says", [
    (["--rounds", "8"], "not a number from 9"), (["--cpus", "3"], "not a number"), (["x"], "unexpected argument 'x'"),
    (["--rows", "2"], "--gradients")])
def test_usage(mounts, argv, says):
    assert says in bench("arith", *argv, status=2).stderr.splitlines()[0]


def test_file_too_short(mounts, tmp_path):
    path = tmp_path / "short.f32"
    path.write_bytes(bytes(8 * 4 * 255))
    assert "a frame takes 256" in bench("arith", "--gradients", str(path), status=1).stderr


# -- wire ---------------------------------------------------------------------

SHORT = ["--workers", "2", "--vector", "20000", "--elements", "64,256", "--window", "4,16"]


def good(wire, rounds):
    """Check that the output has every setting, and that the best setting is chosen as the manual page says."""
    assert wire["workers"] == 2 and wire["rounds"] == rounds and wire["vector"] == 20000
    found = [(s["elements"], s["window"], s["pipeline"], s["threads"]) for s in wire["settings"]]
    assert sorted(found) == [(e, w, "fused", t) for e in (64, 256) for w in (4, 16) for t in (1, 2)]
    for s in wire["settings"]:
        for key in ("goodput_gbit", "aggregator_s_per_gb", "worker_s_per_gb"):
            assert 0 < s[key]["q1"] <= s[key]["median"] <= s[key]["q3"]
        assert 0 <= s["retransmit_share"] < 1

    def cpu(s):
        return s["aggregator_s_per_gb"]["median"] + s["worker_s_per_gb"]["median"]

    most = max(s["goodput_gbit"]["median"] for s in wire["settings"])
    near = [s for s in wire["settings"] if s["goodput_gbit"]["median"] >= 0.95 * most]
    assert cpu(wire["best"]) == min(map(cpu, near)) and wire["best"] in near
    best = wire["best"]
    assert wire["best_options"] == f"--elements {best['elements']} --window {best['window']} --pipeline fused"
    assert wire["best_by_mtu"] == [{"mtu": mtu, "options": wire["best_options"]} for mtu in (1500, 3506)]


def test_wire_by_mtu(mounts):
    """352 values make 1512 bytes, so no measured frame size fits an MTU of 1500."""
    wire = json.loads(bench("wire", "--json", "--rounds", "1", "--workers", "2", "--vector", "20000", "--elements", "352",
                            "--window", "16", "--threads", "1").stdout)
    assert [best["options"] for best in wire["best_by_mtu"]] == [None, wire["best_options"]]


def test_wire(lab):
    wire = json.loads(on_terminal("wire", "--json", "--rounds", "2", *SHORT))
    good(wire, 2)
    net = lab(workers=2)
    net.load()
    net.add_job(7, *wire["best_options"].split())


def test_wire_families(mounts):
    """Both families take turns, with the same frames."""
    wire = json.loads(bench("wire", "--json", "--rounds", "1", "--workers", "2", "--vector", "20000", "--elements", "256", "--window", "16",
                            "--threads", "1", "--family", "ipv4,ipv6").stdout)
    assert [s["family"] for s in wire["settings"]] == ["ipv4", "ipv6"]
    assert all(s["goodput_gbit"]["median"] > 0 and s["aggregator_s_per_gb"]["median"] > 0 for s in wire["settings"])


def test_wire_text(mounts):
    out = bench("wire", "--rounds", "1", "--pipeline", "staged", "--threads", "1", *SHORT).stdout
    assert max(map(len, out.splitlines())) <= 80
    assert out.splitlines()[-1].startswith("best: --elements ") and out.count("staged") == 5


@pytest.mark.long
def test_both(mounts):
    out = json.loads(bench("--json", "--rounds", "1", *SHORT).stdout)
    good(out["wire"], 1)
    assert not set(KEYS) - set(out["arith"])


def on_wire(net, *options):
    """Run an aggregator on its interfaces and `bench worker` on each worker. Return their reports."""
    options = ["--vector", "20000", "--elements", "64,256", "--window", "4,16", "--threads", "1,2", "--json", *options]
    agg = net.agg.spawn(FPISA, "bench", "wire", *net.ports, "--workers", ",".join(net.addresses), "--address", ADDRESS,
                        *options)
    workers = [w.spawn(FPISA, "bench", "worker", ADDRESS, *options) for w in net.worker]
    return agg, workers


def test_interfaces(lab):
    """If workers run on other machines, each side reports its own figures and removes its datapath."""
    net, before = lab(workers=2), os.listdir(BPFFS)
    agg, workers = on_wire(net, "--rounds", "2")
    for p in [agg, *workers]:
        out, err = p.communicate(timeout=300)
        assert p.returncode == 0, err
        report = json.loads(out)
        assert report["workers"] == 2 and len(report["settings"]) == 8
        for s in report["settings"]:
            assert s["goodput_gbit"]["median"] > 0
            assert (s["aggregator_s_per_gb"] is None) == (p is not agg) == (s["worker_s_per_gb"] is not None)
        assert report["best_options"].startswith("--elements ")
    assert os.listdir(BPFFS) == before
    assert "xdp" not in net.agg.run("ip", "link", "show", "dev", net.ports[0])


@pytest.mark.parametrize("option, value, says", [("elements", 64, "fused, 64 and 16"), ("window", 8, "fused, 256 and 8"),
                                                 ("pipeline", "staged", "staged, 256 and 16")])
def test_worker_of_other_options(lab, option, value, says):
    """Only figures of the setting that ran are printed."""
    net = lab(workers=1)
    options = {"vector": 20000, "window": 16, "threads": 1, "rounds": 1, "elements": 256, "pipeline": "fused"}

    def words(o):
        return [w for name, v in o.items() for w in ("--" + name, v)]

    agg = net.agg.spawn(FPISA, "bench", "wire", "p0", "--workers", net.addresses[0], "--address", ADDRESS, *words(options))
    status, out, err = net.worker[0].try_run(FPISA, "bench", "worker", ADDRESS, *words({**options, option: value}))
    assert status == 1 and out == "" and "is fused, with 256 elements and window 16, but this worker expects " + says in err
    agg.send_signal(signal.SIGTERM)
    agg.communicate(timeout=60)


def test_interfaces_mtu(lab):
    net = lab(workers=1, mtu=1500)
    status, _, err = net.agg.try_run(FPISA, "bench", "wire", "p0", "--workers", net.addresses[0], "--address", ADDRESS)
    assert status == 1 and "the MTU is 1500; give --elements" in err


def test_interfaces_interrupt(lab):
    net, before = lab(workers=2), os.listdir(BPFFS)
    agg, workers = on_wire(net, "--rounds", "1000")
    wait_until("jobs", lambda: net.agg.try_run(FPISA, "job", "show", "4", "--pin", BPFFS + "/fpisa_bench")[0] == 0, 60)
    agg.send_signal(signal.SIGTERM)
    _, err = agg.communicate(timeout=60)
    assert agg.returncode == 1 and "interrupted" in err, err
    assert os.listdir(BPFFS) == before


def test_interrupt(mounts):
    """Workers and links end with the process."""
    p = subprocess.Popen([FPISA, "bench", "wire", "--workers", "2", "--vector", "30000000"], start_new_session=True)
    link = f"/proc/{p.pid}/root/sys/class/net/b{p.pid}a1"
    wait_until("links", lambda: len(children(p.pid)) >= 2 and os.path.exists(link), 60)
    workers = children(p.pid)
    p.send_signal(signal.SIGINT)
    p.wait()
    wait_until("the workers' end", lambda: not any(os.path.exists(f"/proc/{c}") for c in workers))


@pytest.mark.parametrize("argv, says", [
    (["--window", "12"], "not a power of two"), (["--elements", "48"], "not a multiple of 32"),
    (["lo"], "--workers ADDR"), (["lo", "--workers", "10.0.0.1:7"], "leave the port out"),
    (["--pipeline", "x"], "not staged or fused"), (["--workers", "1"], "not a number from 2")])
def test_wire_usage(mounts, argv, says):
    assert says in bench("wire", *argv, status=2).stderr.splitlines()[0]

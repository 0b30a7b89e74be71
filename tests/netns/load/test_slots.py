# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa load --slots N` lets jobs share N slots, in any format and mode. Other numbers are refused, and the manager assigns free slots."""
import os

import pytest

from lab import ADDRESS, FPISA, IP_PIN, PIN, end
from refusals import add, refused
from shared import opened


def entries(name):
    with opened(f"{PIN}/{name}") as m:
        return m.entries


def test_more_slots(lab):
    """Four windows of 1,024 fit where the default has room for one. Sums are correct in the last entries of each kind of register."""
    net = lab()
    net.load("--slots", 4096)
    assert [entries("fpisa_" + m) for m in ("slots", "exponents", "mantissas")] == [8192] * 3
    for job, options in enumerate(([], ["--pipeline", "staged"], ["--mode", "fpisa64"], [])):
        net.add_job(job, "--window", 1024, *options)
    assert entries("fpisa_man64") == 8192
    assert [net.json("job", "show", job)["slot_base"] for job in range(4)] == [2048, 4096, 6144, 0]
    status = net.json("status")
    assert (status["slots"], status["slots_taken"]) == (4096, 4096) and "slots       4096 of 4096\n" in net.fpisa("status")
    refused(net, add(net, "--window", 1, job=9), "window 1 needs 2 of 8192 slot entries, but 8192 are taken; load with --slots greater than 4096, "
            r"delete finished jobs \(fpisa job del\), or try a smaller --window$")
    for job in range(4):
        net.check_sum(job, 300000)


def test_fewer_slots(lab):
    """A quarter of the slots is for exact sums. A query has no slots. Loading another interface keeps the number of slots."""
    net = lab(workers=3)
    for n in 63, 65537:
        refused(net, ["load", "p0", "--slots", n], f"--slots: '{n}' is not a number from 64 to 65536", 2, usage=True)
    net.fpisa("load", "p0", "p1", "--slots", 64, "--cpus", "0")
    refused(net, ["load", "p2", "--slots", 1024], f"{PIN}: a datapath with 64 slots is loaded; leave --slots out, or first run fpisa unload")
    net.fpisa("load", "p2")
    net.add_job(0, "--window", 16, "--mode", "exact")
    assert entries("fpisa_limbs") == 32
    refused(net, add(net, "--window", 1, "--mode", "exact", job=9), "needs 2 of 32 slot entries of mode exact, but 32 are taken")
    net.add_job(1, "--window", 32)
    net.fpisa("query", "add", 5, "--kind", "topn", "--workers", net.addresses[0], "--master", net.addresses[1], "--address", ADDRESS, "--limit", 5)
    net.add_job(2, "--window", 16)
    for job in range(3):
        net.check_sum(job, 30000)
    refused(net, add(net, job=9), "window 64 needs 128 of 128 slot entries, but 128 are taken")


@pytest.mark.long
def test_iproute2(lab):
    """The maps of iproute2 have the default size. load adds missing maps, and refuses a different number."""
    net = lab()
    net.ip_link(["p0"])
    refused(net, ["load", "p1", "--slots", 64, "--pin", IP_PIN], f"{IP_PIN}: a datapath with 1024 slots is loaded")
    net.fpisa("load", "p1", "--pin", IP_PIN)
    assert net.json("status", "--pin", IP_PIN)["slots"] == 1024


def test_configuration(lab, tmp_path):
    """The section [datapath] sets the number, and the jobs of the file share the slots. A datapath with another number is not changed."""
    net = lab()
    file = tmp_path / "fpisa.conf"
    jobs = "".join(f"[job {n}]\nworkers = {','.join(net.addresses)}\naddress = {ADDRESS}\nwindow = 1024\n" for n in range(2))
    file.write_text("[interface p0]\n" + jobs)
    _, _, err = net.agg.try_run(FPISA, "config", "apply", file)
    assert f"{file}:6: job 1: window 1024 needs 2048 of 2048 slot entries, but 2048 are taken" in err and not os.path.exists(PIN)
    file.write_text("[interface p0]\n[datapath]\nslots = 1024\n" + jobs)
    _, _, err = net.agg.try_run(FPISA, "config", "check", file)
    assert f"{file}:8: job 1: window 1024 needs 2048 of 2048 slot entries, but 2048 are taken" in err
    file.write_text("[interface p0]\n[interface p1]\n[manager]\nwithout-key = yes\nslots = 3000\n[datapath]\nslots = 2048\n" + jobs)
    _, _, err = net.agg.try_run(FPISA, "config", "check", file)
    assert f"{file}:3: [manager], slots = 3000: the datapath has 2048" in err
    file.write_text("[interface p0]\n[interface p1]\n[datapath]\nslots = 2048\n" + jobs)
    net.fpisa("config", "apply", file)
    net.fpisa("upgrade")
    net.check_sum(1, 30000)
    file.write_text("[interface p0]\n[datapath]\nslots = 4096\n")
    _, _, err = net.agg.try_run(FPISA, "config", "apply", file)
    assert f"{file}:2: slots: the loaded datapath has 2048 slots; run fpisa unload, then fpisa config apply" in err
    assert len(net.json("job", "list")) == 2


def test_configuration_without_slots(lab, tmp_path):
    """Without a number the jobs of the file share the loaded slots. If they need more than the default number, check warns. Such jobs can
    be applied and served."""
    net = lab()
    file = tmp_path / "fpisa.conf"
    file.write_text("[manager]\nwithout-key = yes\n" +
                    "".join(f"[job {n}]\nworkers = {','.join(net.addresses)}\naddress = {ADDRESS}\nwindow = 1024\n" for n in range(2)))
    net.load("--slots", 2048)
    status, _, err = net.agg.try_run(FPISA, "config", "check", file)
    assert status == 0 and f"warning: {file}:7: job 1 does not fit the default of 1024 slots" in err and ":3: " not in err, err
    assert "job 1: created" in net.fpisa("config", "apply", file)
    assert "job 1: already running" in net.fpisa("config", "apply", file)
    manager = net.agg.spawn(FPISA, "serve", file)
    try:
        assert manager.stdout.readline().startswith("serving groups")
    finally:
        end(manager)


def test_manager(groups):
    """The first group gets a quarter of the free slots, here a window of 1,024. A manager whose policy has more slots than exist does not
    start."""
    g = groups(2, "slots = 4097", serve=False, load=("--slots", 4096))
    status, _, err = g.net.agg.try_run(FPISA, "serve", g.config)
    assert status == 1 and "[manager], slots = 4097: the datapath has 4096; give fewer, or load the datapath with a larger --slots" in err
    with open(g.config) as f:
        text = f.read()
    with open(g.config, "w") as f:
        f.write(text.replace("slots = 4097\n", ""))
    g.serve()
    ranks = g.group("train", range(2), {"sum": "float32", "count": 5000}, hold=True, window=1024)
    assert all(rank.line()["rc"] == 0 for rank in ranks)
    assert [j["window"] for j in g.jobs()] == [1024]
    for rank in ranks:
        rank.kill()
    g.empty()
    assert os.path.exists(PIN)

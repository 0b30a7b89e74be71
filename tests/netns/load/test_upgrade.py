# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa upgrade` replaces running programs while frames flow, and may be killed at any moment. Maps of another version are refused."""
import hashlib
import json
import os
import random
import shutil
import subprocess
import time

import pytest

import worker
from lab import ADDRESS, BPFFS, BUILD, FPISA, IP_PIN, PIN, TOP, draw_seed, end, read_answers, setting, wait_until

pytestmark = pytest.mark.cold

COUNT, CALLS = 60000, 40


def programs(net):
    status = net.json("status")
    return {i["name"]: i["program_id"] for i in status["interfaces"]}, status["banks"]


@pytest.mark.parametrize("pin", [PIN, IP_PIN])
def test_under_traffic(lab, pin):
    """With two families, one of them staged, no stage is missed, no sum is wrong, and both banks are used."""
    net = lab(workers=2)
    if pin == PIN:
        net.load()
    else:
        net.ip_link()
    net.add_job(1, "--pipeline", "staged", "--clz", "lpm")
    net.add_job(2, "--pipeline", "staged", "--mode", "fpisa64")
    net.slow(20)
    step = {"count": COUNT, "kind": "integers"}
    running = [net.start(r, 1, *[step] * CALLS) for r in (0, 1)]
    wait_until("frames", lambda: net.counters(1, pin)["v_result"] > 20)
    seen = set()
    for _ in range(3):
        before, banks = programs(net)
        net.fpisa("upgrade", "--pin", pin)
        after, now = programs(net)
        assert set(after) == set(net.ports) and not set(before.values()) & set(after.values())
        assert [b["in_use"] for b in banks] == [not b["in_use"] for b in now]
        used, idle = now[::-1 if now[1]["in_use"] else 1]
        # Frames that began before the switch still run the stages of the old bank.
        assert idle["program_ids"] == [b for b in banks if b["in_use"]][0]["program_ids"]
        assert used["filled"] == 9 and used["stage_programs"] and not seen & set(used["program_ids"])
        seen |= set(used["program_ids"])
    expect = hashlib.sha256(worker.exact_sum("integers", 2, COUNT)).hexdigest()
    for p in running:
        assert [a["digest"] for a in read_answers(p)[1:]] == [expect] * CALLS
    net.check_sum(2, 5000)
    for job in (1, 2):
        c = net.counters(job, pin)
        assert c["missed_tail_calls"] == 0 and c["v_family"] == 0 and c["fused"] == 0


@pytest.mark.parametrize("options", [(), ("--cpus", "0")])
def test_killed(lab, options):
    """A loader that dies at any point leaves a datapath that runs, and that the next loader upgrades."""
    seed = draw_seed()
    rng = random.Random(seed)
    net = lab(workers=2)
    net.load(*options)
    net.add_job(1, "--pipeline", "staged", "--clz", "lpm")
    net.add_job(2, "--format", "bf16", "--pipeline", "staged")
    t0 = time.monotonic()
    net.fpisa("upgrade")
    whole = time.monotonic() - t0
    for _ in range(3):
        p = net.agg.spawn(FPISA, "upgrade")
        time.sleep(rng.random() * whole)
        end(p)
        net.agg.started.remove(p)
        net.check_sum(1, 3000)
    net.fpisa("upgrade")
    used = [b for b in net.json("status")["banks"] if b["in_use"]]
    assert used[0]["filled"] == 9 and used[0]["stage_programs"]
    net.check_sum(1, 3000)
    c = net.counters(1, PIN)
    assert c["missed_tail_calls"] == 0 and c["fused"] == 0
    left = sorted(os.listdir(PIN))
    net.fpisa("unload")
    assert "fpisa" in left and not os.path.exists(PIN)


def test_generations_go_on(lab):
    """Generation numbers continue after unload and load, so no number is used twice, however many numbers were used."""
    net = lab(workers=1)
    seen = []
    for _ in range(2):
        net.load()
        loaded = time.monotonic()
        net.add_job(1)
        seen += [a["generation"] for a in net.work(1, *[{"rejoin": True}] * 60)[0]]
        net.fpisa("job", "del", 1)
        net.add_job(2)
        net.check_sum(2)
        seen.append(net.json("job", "show", 2)["generation"])
        # This is guaranteed for fewer than 64 generations per second (doc/protocol.md).
        time.sleep(max(0, 1 - (time.monotonic() - loaded)))
        net.fpisa("unload")
    assert len(seen) == len(set(seen)) == 122 and seen == sorted(seen)


def egress_programs(net, job):
    """Return the ids of the programs in a job's device maps: the fan-out, and the path of replies."""
    found = set()
    for name in ("fpisa_fanout", "fpisa_replies"):
        inner = net.bpftool("map", "lookup", "pinned", f"{PIN}/{name}", "key", *job.to_bytes(4, "little"))
        rows = net.bpftool("map", "dump", "id", int(inner.get("inner_map_id", 0)) or word(inner["value"], 0))
        values = [row["value"] for row in rows if "error" not in row["value"]]
        found |= {word(value, 4) for value in values if word(value, 0)}
    return found


def word(value, at):
    return int.from_bytes(bytes(int(v, 0) for v in value[at:at + 4]), "little")


def test_egress_program(lab):
    """An upgrade gives existing jobs the new egress program, with or without unicast."""
    net = lab(workers=2)
    net.load()
    net.add_job(1, "--fanout", "unicast")
    net.add_job(2)
    before = egress_programs(net, 1)
    assert len(before) == 1 and egress_programs(net, 2) == before
    net.fpisa("upgrade")
    after = egress_programs(net, 1)
    assert len(after) == 1 and egress_programs(net, 2) == after and not before & after
    assert net.bpftool("prog", "show", "pinned", PIN + "/fpisa_egress")["id"] in after
    net.check_sum(1, 5000)
    net.check_sum(2, 5000)
    net.add_job(3, "--fanout", "unicast")
    assert egress_programs(net, 3) == after


PROGRAM = '#include "maps.h"\nSHARED_STAGES;\nSEC("xdp") int other(struct xdp_md *ctx) { return ctx ? XDP_PASS : 0; }\n' \
    'char _license[] SEC("license") = "Dual BSD/GPL";\n'


def other_version(top, edit):
    """Make maps from another version of this tree's headers, in an object with an unused program. Return their stamp."""
    for part in ("bpf", "include"):
        shutil.copytree(os.path.join(TOP, part), top / part)
    header = top / "include/fpisa/job.h"
    header.write_text(edit(header.read_text()))
    (top / "other.c").write_text(PROGRAM)
    clang = [setting("BPF_CLANG"), "-g", "-O2", "-target", "bpf", "-mcpu=v3", f"-I{top}/include", f"-I{top}/bpf", f"-I{top}",
             "-I/usr/include/x86_64-linux-gnu"]
    subprocess.run([*clang, "-c", top / "bpf/abi.bpf.c", "-o", top / "abi.o"], check=True)
    dump = subprocess.run(["bpftool", "-j", "btf", "dump", "file", top / "abi.o"], check=True, stdout=subprocess.PIPE)
    stamp = subprocess.run(["/usr/bin/python3", "-B", top / "bpf/abi.py"], input=dump.stdout, check=True,
                           stdout=subprocess.PIPE).stdout
    (top / "fpisa_abi.h").write_bytes(stamp)
    subprocess.run([*clang, "-c", top / "other.c", "-o", top / "other.o"], check=True)
    return stamp


def swapped(text):
    """Swap two fields of a job without changing any size."""
    return text.replace("__u8 mode;", "__u8 ;").replace("__u8 rounding;", "__u8 mode;").replace("__u8 ;", "__u8 rounding;")


def test_other_layout(lab, tmp_path):
    """Maps of equal sizes but other contents are foreign. No verb uses them, and no other loader mixes them with its own maps."""
    with open(os.path.join(BUILD, "fpisa_abi.h"), "rb") as f:
        ours = f.read()
    assert other_version(tmp_path / "same", lambda text: text) == ours
    assert other_version(tmp_path / "other", swapped) != ours
    net = lab(workers=2)
    net.agg.run("bpftool", "prog", "loadall", tmp_path / "other" / "other.o", BPFFS + "/x", "type", "xdp")
    add = ["job", "add", "1", "--workers", ",".join(net.addresses), "--address", ADDRESS]
    for verb in (["status"], ["stats"], ["slots"], ["job", "list"], ["job", "del", "1"], add, ["upgrade"],
                 ["load", "p0", "--pin", BPFFS]):
        status, out, err = net.agg.try_run(FPISA, *verb)
        assert (status, out) == (1, "") and "made by another version of fpisa, whose maps have another layout" in err, verb
        assert len(err.splitlines()) == 1
    net.fpisa("unload")
    assert not [name for name in os.listdir(BPFFS) if name.startswith("fpisa")]
    os.unlink(BPFFS + "/x/other")
    # Test the reverse case with iproute2, a loader that finds the pinned maps and does not check the stamp.
    net.ip_link()
    status, _, err = net.agg.try_run("ip", "-force", "link", "set", "dev", "p0", "xdp", "obj", tmp_path / "other" / "other.o",
                                     "sec", "xdp")
    assert status and "fpisa_abi" in err
    net.add_job(1)
    net.check_sum(1)


def test_in_every_namespace(lab):
    """Interfaces of other network namespaces run the datapath too, and jobs there have their own ports."""
    net = lab(workers=2)
    other, host = net.netns(), net.netns()
    other.ip(f"link add e9 mtu 1500 type veth peer name eth0 mtu 1500 netns {host.path}", "addr add 10.77.0.1/24 dev e9",
             "link set e9 up", "addr add 10.77.7.7/32 dev lo")
    host.ip("addr add 10.77.0.2/24 dev eth0", "link set eth0 up", "route add 10.77.7.7 via 10.77.0.1")
    host.gro_on("eth0")
    net.worker.append(host)
    other.gro_on("e9")
    net.load()
    net.add_job(1, workers=net.addresses[:2])
    other.run(FPISA, "load", "e9")
    other.run(FPISA, "job", "add", 2, "--workers", "10.77.0.2", "--address", "10.77.7.7", "--fanout", "unicast")
    there = lambda: json.loads(other.run(FPISA, "status", "--json"))["interfaces"]  # noqa: E731
    before = {i["program_id"] for i in there()}
    net.fpisa("upgrade")
    here = set(programs(net)[0].values())
    assert {i["program_id"] for i in there()} == here and not before & here
    net.check_sum(1, ranks=[0, 1])
    net.check_sum(2, ranks=[2], workers=1, address="10.77.7.7")
    other.run(FPISA, "unload")
    net.fpisa("unload")
    assert not os.path.exists(PIN)

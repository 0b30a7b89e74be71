# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa config apply`, which the systemd unit runs, makes missing objects and does not change others, even under traffic."""
import hashlib
import os
import re
import shlex
import signal
import tempfile

import pytest

import worker
from lab import ADDRESS, FPISA, PIN, TOP, read_answers, wait_until
from preload import interrupted

UNIT = os.path.join(TOP, "user", "system", "fpisa.service.in")
COUNT, CALLS = 60000, 100  # 11 s at 20 Mbit/s


class Config:
    """A configuration file for a lab"""

    def __init__(self, net, path):
        self.net, self.path = net, path

    def write(self, *jobs, head="", mode="native"):
        text = head + "".join(f"[interface {p}]\nmode = {mode}\n" for p in self.net.ports)
        for number, keys in jobs:
            keys = {"workers": ",".join(self.net.addresses), "address": self.net.address, **keys}
            text += f"[job {number}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items())
        self.path.write_text(text)

    def apply(self, verb="apply"):
        return self.net.agg.run(FPISA, "config", verb, self.path).splitlines()

    def refused(self, *says):
        """Check that config apply fails with exactly these errors."""
        status, out, err = self.net.agg.try_run(FPISA, "config", "apply", self.path)
        lines = err.splitlines()
        assert status == 1 and len(lines) == len(says), (status, out, err)
        for line, wanted in zip(lines, says):
            assert re.match(rf"fpisa: {self.path}:\d+: ", line) and re.search(wanted, line), line
        return out.splitlines()


@pytest.fixture
def net(lab):
    return lab()


@pytest.fixture
def config(net, tmp_path):
    return Config(net, tmp_path / "fpisa.conf")


def jobs(net):
    return {j["job"]: j for j in net.json("job", "list")}


def programs(net):
    return [(i["name"], i["program_id"]) for i in net.json("status")["interfaces"]]


@pytest.mark.families()
def test_apply(net, config):
    config.write((7, {}), (8, {"format": "bf16", "histogram": "yes", "big-endian": "no", "token": "abc"}))
    assert config.apply() == ["p0: loaded", "p1: loaded", "job 7: created", "job 8: created"]
    net.check_sum(7)
    before = jobs(net), programs(net)
    assert before[0][8]["format"] == "bf16"
    assert config.apply() == ["p0: already loaded", "p1: already loaded", "job 7: already running, with ranks 0,1",
                              "job 8: already running, with ranks 0,1"]
    assert (jobs(net), programs(net)) == before
    net.fpisa("job", "shrink", "7", "1")
    assert "job 7: already running, with ranks 0" in config.apply()
    # Missing parts are recreated, and a job that the file does not name stays.
    net.fpisa("unload", "p1")
    net.fpisa("job", "del", "8")
    net.add_job(3)
    assert config.apply() == ["p0: already loaded", "p1: loaded", "job 7: already running, with ranks 0", "job 8: created"]
    assert set(jobs(net)) == {3, 7, 8}


@pytest.mark.parametrize("bridge", [False, True], ids=["ports", "one-port"])
def test_parameters_that_the_datapath_sets(lab, tmp_path, bridge):
    """A job of several ports or of one, and a leaf beside its parent, run with the parameters of the file."""
    net = lab(bridge=bridge)
    config = Config(net, tmp_path / "fpisa.conf")
    tree = {"mode": "exact", "fanout": "unicast"}
    config.write((4, {}), (5, {**tree, "leaves": "yes", "workers": f"{ADDRESS},{net.addresses[0]}"}),
                 (6, {**tree, "parent": f"{ADDRESS}/0/5", "workers": net.addresses[1]}), head="[interface lo]\nmode = skb\n", mode="skb")
    assert config.apply()[-3:] == ["job 4: created", "job 5: created", "job 6: created"]
    before = jobs(net)
    assert config.apply()[-3:] == [f"job {n}: already running, with ranks {ranks}" for n, ranks in ((4, "0,1"), (5, "0,1"), (6, "0"))]
    assert jobs(net) == before


def unit_commands(config, *names):
    """Return the unit's command lines, with this build and this file."""
    with open(UNIT) as f:
        lines = re.findall(r"^(Exec\w+)=(.*)$", f.read(), re.M)
    found = [shlex.split(c) for name, c in lines if name in names]
    assert found and all(c[0] == "@SBINDIR@/fpisa" for c in found), lines
    return [[FPISA, *c[1:], config.path] for c in found]


def test_unit_restarted_under_traffic(net, config):
    """Stopping, starting and reloading with the commands of the unit while a job runs gives no wrong sum and loses no slot."""
    config.write((1, {"pipeline": "staged", "clz": "lpm"}), (2, {"mode": "fpisa64"}))
    config.apply()
    before, ids = jobs(net), programs(net)
    net.slow(20)
    step = {"count": COUNT, "kind": "integers"}
    running = [net.start(r, 1, *[step] * CALLS) for r in (0, 1)]
    wait_until("frames", lambda: net.counters(1, PIN)["v_result"] > 20)
    generation = jobs(net)[1]["generation"]
    commands = unit_commands(config, "ExecStart", "ExecReload")
    for _ in range(3):
        for c in commands:
            net.agg.run(*c)
        results = net.counters(1, PIN)["v_result"]
        wait_until("frames after the restart", lambda: net.counters(1, PIN)["v_result"] > results)
    expect = hashlib.sha256(worker.exact_sum("integers", 2, COUNT)).hexdigest()
    for p in running:
        assert [a["digest"] for a in read_answers(p)[1:]] == [expect] * CALLS
    assert jobs(net)[1]["generation"] == generation and programs(net) == ids
    assert {j["job"]: j["window"] for j in jobs(net).values()} == {n: j["window"] for n, j in before.items()}
    assert net.counters(1, PIN)["v_secret"] == 0


def test_unit_has_the_capabilities_it_needs(net, config):
    with open(UNIT) as f:
        caps = re.search(r"^CapabilityBoundingSet=(.*)$", f.read(), re.M)[1].lower().replace("cap_", "").split()
    config.write((7, {"mode": "exact"}), head="[datapath]\ngroup = 64321\n")
    confined = ["setpriv", "--no-new-privs", "--bounding-set=-all," + ",".join("+" + c for c in caps)]
    command, = unit_commands(config, "ExecStart")
    assert net.agg.run(*confined, *command).splitlines()[-1] == "job 7: created"
    assert net.agg.run(*confined, *command).splitlines()[-1] == "job 7: already running, with ranks 0,1"
    net.check_sum(7)
    # Each missing capability makes the command fail, so the test detects it.
    config.write((8, {}))
    confined[-1] = "--bounding-set=-all,+" + caps[0]
    assert net.agg.try_run(*confined, *command)[0] == 1


def test_others_are_not_touched(net, config):
    config.write((7, {}), (8, {"window": "16"}))
    config.apply()
    net.check_sum(7)
    before = jobs(net), programs(net)
    # If the file differs from the running datapath, nothing is created.
    config.write((7, {"window": "32"}), (8, {"window": "16"}), (9, {}))
    assert not config.refused(r"job 7 runs with different parameters \(see fpisa job show 7\); run fpisa job del 7")
    config.write((7, {}), mode="skb")
    off = [f"ip link set dev {p} xdpdrv off" for p in net.ports]
    config.refused(*(f"{p}: the datapath runs in mode native, but the configuration has skb; run {command}, then fpisa config apply"
                     for p, command in zip(net.ports, off)))
    config.write((7, {}), head="[datapath]\nport = 18001\n")
    config.refused("port: the loaded datapath has port 18000")
    config.write((7, {}), head="[datapath]\ngroup = 64321\n")
    config.refused("group: the loaded datapath belongs to another")
    assert (jobs(net), programs(net)) == before
    # The command that changes the mode keeps the jobs.
    net.agg.run("sh", "-ec", " && ".join(off))
    config.write((7, {}), mode="skb")
    config.apply()
    assert jobs(net) == before[0]
    net.check_sum(7)


def test_whole_or_nothing(net, config):
    """All errors of a file on this machine are reported, by `config check` too, and nothing is created."""
    wrong = ((1, {}), (2, {"elements": "512"}), (3, {"workers": "192.0.2.1"}), (4, {"address": "192.0.2.1"}),
             (5, {"workers": f"{net.addresses[0]}@nosuch0"}))
    config.write(*wrong, head="[interface nosuch1]\n")
    says = ["nosuch1: no such interface",
            "job 2: 512 elements make a frame of 2152 bytes, but the MTU of p0 is 1500; try --elements 320",
            "worker 192.0.2.1: cannot find a route: .*unreachable", "job 4: 192.0.2.1 is not an address of this machine", "nosuch0: no such interface"]
    config.refused(*says)
    assert not os.path.exists(PIN)
    # To `config check`, a missing part may still appear. A contradiction to an existing part is an error.
    status, out, err = net.agg.try_run(FPISA, "config", "check", config.path)
    lines = err.splitlines()
    assert status == 1 and out == "" and len(lines) == 5, err
    for line, wanted in zip(lines, says):
        assert re.match(r"fpisa: %s" % ("" if "512" in wanted else "warning: "), line) and re.search(wanted, line), line
    config.write(*wrong[:1], *wrong[2:], head="[interface nosuch1]\n")
    status, out, err = net.agg.try_run(FPISA, "config", "check", config.path)
    assert status == 0 and "no errors; interfaces: 3, jobs: 4" in out and len(err.splitlines()) == 4


@pytest.mark.cold
def test_taken_back(net, config):
    """An error in the middle removes the new objects and does not change the running ones."""
    config.write((1, {}), (2, {"format": "fp16"}))
    net.worker[1].ip("link set eth0 mtu 9000")
    net.agg.ip("link set p1 mtu 9000")
    assert not config.refused("p1: cannot attach native XDP")
    assert not os.path.exists(PIN)
    net.fpisa("load", "p0")
    net.fpisa("job", "add", 9, "--workers", net.addresses[0], "--address", ADDRESS)
    before = jobs(net), programs(net)
    config.refused("p1: cannot attach native XDP")
    assert (jobs(net), programs(net)) == before
    net.agg.ip("link set p0 xdp off")
    config.refused("p1: cannot attach native XDP")
    assert jobs(net) == before[0] and not programs(net)
    # Make a map refuse new entries after the first job, so that the second job fails.
    net.fpisa("unload")
    net.worker[1].ip("link set eth0 mtu 1500")
    net.agg.ip("link set p1 mtu 1500")
    net.load()
    os.unlink(PIN + "/fpisa_exponents")
    net.bpftool("map", "create", PIN + "/fpisa_exponents", "type", "array", "key", 4, "value", 8, "entries", 1, "name", "x")
    config.refused("family w2r32: cannot load")
    assert not jobs(net)


@pytest.mark.cold
def test_interrupted(net, config, tmp_path):
    """Whenever the signal comes, either the whole file is applied or nothing is. The signal terminates the program, and running jobs
    continue."""
    config.write((1, {}), (2, {}))

    def applied(step, nth):
        """Apply the file with a signal when a map fpisa_ports is created. The first job creates two such maps, one for itself and one for the
        namespace. The second job makes one."""
        status, out, err = interrupted(net.agg, tmp_path, step, nth, "config", "apply", config.path)
        assert (status, out) == (-signal.SIGTERM, "") and len(err.splitlines()) == 1
        assert err.endswith(": interrupted; the changes were undone\n"), err

    for step, nth in (("attach", 1), ("attach", 2), ("fpisa_ports", 1), ("fpisa_ports", 3)):
        applied(step, nth)
        assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "link"), (step, nth)
    net.fpisa("load", "p0")
    net.fpisa("job", "add", 9, "--workers", net.addresses[0], "--address", ADDRESS)
    before = jobs(net), programs(net)
    # The map of ports for job number 1 stays, so the next such map belongs to job 2.
    for step, nth in (("attach", 1), ("fpisa_ports", 1), ("fpisa_ports", 1)):
        applied(step, nth)
        assert (jobs(net), programs(net)) == before, (step, nth)
    assert len(config.apply()) == 4


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_other_device(net, config, fanout):
    """If a rank is behind another interface than in the running job, this is reported."""
    a, b = net.addresses
    net.agg.ip(f"route add {b} dev p0 metric 1000")
    keys = {"fanout": fanout, "workers": f"{a}@p0,{b}@p1"}
    config.write((7, keys))
    config.apply()
    net.check_sum(7)
    assert "job 7: already running, with ranks 0,1" in config.apply()
    assert all(f"@p{r}" in net.fpisa("job", "show", 7) and m["given"] for r, m in
               enumerate(net.json("job", "show", 7)["members"]))
    config.write((7, {**keys, "workers": f"{a},{b}"}))
    config.refused(r"job 7 runs with different parameters \(see fpisa job show 7\); run fpisa job del 7")
    config.write((7, {**keys, "workers": f"{a}@p0,{b}@p0"}))
    config.refused("job 7 does not reach rank 1 through p0; run fpisa job del 7" if fanout == "unicast" else
                   "job 7 sends results to an interface that leads to no rank; run fpisa job del 7")
    net.fpisa("job", "del", 7)
    net.fpisa("job", "add", 7, "--workers", f"{a}@p0,{b}@p0", "--address", ADDRESS, "--fanout", fanout)
    config.write((7, keys))
    config.refused("job 7 does not reach rank 1 through p1; run fpisa job del 7")
    net.fpisa("job", "del", 7)
    net.add_job(7, "--fanout", fanout)
    assert "@" not in net.fpisa("job", "show", 7) and not net.json("job", "show", 7)["members"][0]["given"]
    config.refused("job 7 runs with different parameters")


def test_program_of_another_pin(net, config):
    """The running program must not be detached if the file lacks an option --pin."""
    net.fpisa("load", "p0", "--pin", "/sys/fs/bpf/mine")
    config.write((7, {}))
    config.refused("p0 runs the datapath that is pinned in /sys/fs/bpf/mine; give --pin /sys/fs/bpf/mine, or first run fpisa unload p0")


def test_wrong_file_changes_nothing(net, config):
    config.write((7, {}), (8, {"window": "3"}))
    config.refused("window: 3 is not a power of two")
    assert not os.path.exists(PIN)


def test_interface_that_came_back(net, config):
    """A job whose port was removed is named, and does not count as running."""
    config.write((7, {}))
    config.apply()
    net.check_sum(7)
    net.agg.ip("link del p1")
    config.refused("p1: no such interface", "job 7: .*rank 1|route")
    net.connect(1, net.worker[1], net.agg, 1500, False)
    config.refused("job 7: its interface towards rank 1 is gone; run fpisa job del 7")
    net.fpisa("job", "del", "7")
    assert config.apply()[-1] == "job 7: created"
    net.check_sum(7)


def test_job_of_another_namespace(net, config):
    """A job of another namespace does not count as the file's job, because its interfaces and routes differ."""
    other = net.netns()
    other.ip("link add e9 type veth peer name e8", "addr add 10.99.1.1/24 dev e9", "link set e9 up", f"addr add {ADDRESS}/32 dev lo")
    other.run(FPISA, "load", "e9")
    other.run(FPISA, "job", "add", 1, "--workers", net.addresses[0], "--address", ADDRESS)
    config.write((1, {"workers": net.addresses[0]}))
    assert config.refused("job 1 was created in another network namespace; there, run fpisa config apply, or take another") == []


def test_missing_privilege(net, config):
    config.write((7, {}))
    with tempfile.NamedTemporaryFile(dir="/run") as file:  # other users cannot enter tmp_path
        os.chmod(file.name, 0o644)
        file.write(config.path.read_bytes())
        file.flush()
        status, _, err = net.agg.try_run(FPISA, "config", "apply", file.name, uid=65534)
    assert status == 1 and "no privilege; run as root" in err


def test_group_and_port(net, config):
    config.write((7, {}), head="[datapath]\nport = 18005\ngroup = 64321\n")
    config.apply()
    assert os.stat(PIN).st_gid == 64321
    config.apply()
    net.check_sum(7, address=f"{ADDRESS}:18005")

# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa doctor of groups: the manager by its configuration, and the conditions for a worker to join."""
import os
import signal

from doctor import ENV, bad, examine, fixes, needs_ethtool
from lab import ADDRESS, FPISA, PORT, children, wait_until
from preload import SCARCE, library

pytestmark = needs_ethtool


def of_manager(g, *argv):
    return {check: f for (subject, check), f in examine(g.net.agg, "--config", g.config, *argv).items() if subject == "manager"}


def test_manager_in_order(groups):
    g = groups(1, "jobs = 8-15", "slots = 256")
    found = of_manager(g)
    assert {c: f["level"] for c, f in found.items()} == dict.fromkeys(
        ("keys", "user", "process", "descriptors", "port", "pool"), "ok")
    assert found["keys"]["text"].startswith("1 key") and found["keys"]["text"].endswith(f" in {g.key}")
    assert str(children(g.manager.pid)[0]) in found["process"]["text"]
    assert found["port"]["text"] == f"the manager listens at TCP *:{PORT}"
    assert found["pool"]["text"] == "8 of the manager's 8 job numbers and 256 of 256 slots are free"


def test_manager_that_does_not_run(groups):
    """Doctor finds a manager that has never run, or that was killed after it had given a job, so that its records remain."""
    g = groups(1, serve=False)
    f = of_manager(g)["process"]
    assert f["level"] == "fault" and f["fix"] == "systemctl enable --now fpisa-manager"
    g.serve()
    g.group("train", [0], {"sum": "float32"})[0].line()
    g.kill(signal.SIGKILL)
    wait_until("the end of the helper", lambda: g.net.json("status")["manager"]["pid"] is None)
    assert of_manager(g)["process"]["level"] == "fault"


def test_manager_whose_records_cannot_be_read(groups, tmp_path):
    """Doctor does not report a running manager as down, or advise to start its unit, only because its records cannot be opened."""
    g = groups(1)
    env = {**ENV, "SCARCE_PIN": "fpisa_groups", "LD_PRELOAD": library(SCARCE, tmp_path)}
    f = examine(g.net.agg, "--config", g.config, env=env)["manager", "process"]
    assert f["level"] == "fault" and not f["fix"] and "is not known: Too many open files in system" in f["text"], f
    assert of_manager(g)["process"]["level"] == "ok"


def test_manager_s_keys(groups):
    g = groups(1, sections="[key other]\ngroups = 1\n", serve=False)
    os.chmod(g.key, 0o644)
    f = of_manager(g)["keys"]
    assert f["level"] == "fault" and "users other than its owner may use it" in f["text"] and f["fix"] == f"chmod 600 {g.key}"
    g.net.agg.run("sh", "-ec", f["fix"])
    found = of_manager(g)
    assert found["keys"]["level"] == "ok" and found["key other"]["level"] == "warn"
    assert found["key other"]["fix"] == f"fpisa key new other {g.key}"
    os.unlink(g.key)
    f = of_manager(g)["keys"]
    assert f["level"] == "fault" and "No such file" in f["text"]
    g.net.agg.run("sh", "-ec", f["fix"], env=ENV)
    assert os.stat(g.key).st_mode & 0o777 == 0o600


def test_manager_s_limits(groups):
    """Doctor finds a low limit on descriptors, a used-up pool, open access, and a file that has changed since the manager started."""
    g = groups(1, "without-key = yes", "jobs = 3", serve=False)
    g.serve("prlimit", "--nofile=170:170", "setpriv", "--bounding-set=-sys_resource")
    g.net.add_job(3)
    with open(g.config, "a") as f:
        f.write(f"user = nobody-at-all\nport = {PORT + 7}\n")
    found = of_manager(g)
    levels = {"keys": "warn", "user": "fault", "process": "ok", "descriptors": "warn", "port": "fault", "pool": "warn"}
    assert {c: f["level"] for c, f in found.items()} == levels
    assert "every host that reaches the manager gets jobs" in found["keys"]["text"] and found["user"]["fix"].endswith(" nobody-at-all")
    assert f"process {g.manager.pid} may open 170 files" in found["descriptors"]["text"]
    assert found["pool"]["text"].startswith("0 job numbers of the manager")
    assert f"no process listens at TCP *:{PORT + 7} here" in found["port"]["text"]


def test_configuration(groups, tmp_path):
    g = groups(1, serve=False, load=None)
    assert set(of_manager(g)) == {"keys", "user"}  # the missing datapath is reported elsewhere
    for text, says in ("[datapath]\n", "has no section [manager]"), ("[manager]\nfrob = 1\n", "has errors"):
        with open(g.config, "w") as f:
            f.write(text)
        f = of_manager(g)["configuration"]
        assert f["level"] == "fault" and says in f["text"]
    status, _, err = g.net.agg.try_run(FPISA, "doctor", "--worker", ADDRESS, "--config", g.config)
    assert status == 2 and "--config checks an aggregator" in err


def of_worker(g, manager=ADDRESS, key=None, **options):
    env = {**ENV, "FPISA_MANAGER": manager, "FPISA_KEY": g.key if key is None else key}
    found = examine(g.net.worker[0], "--worker", ADDRESS, env=env, **options)
    return {check: f for (subject, check), f in found.items() if subject == "groups"}


def test_worker_in_order(groups):
    g = groups(1)
    found = of_worker(g)
    assert {c: f["level"] for c, f in found.items()} == {"key": "ok", "manager": "ok"}
    assert found["manager"]["text"].startswith(f"{ADDRESS} answers in ")
    assert of_worker(g, "")["manager"]["level"] == "ok"	 # the manager at the address of --worker
    plain = examine(g.net.worker[0], "--worker", ADDRESS)
    assert bad(plain) == {} and plain["groups", "manager"]["text"].startswith("the manager was not checked; to check the manager, set FPISA_MANAGER")
    assert g.net.json("group", "list") == []


def test_worker_s_key(groups, tmp_path):
    g = groups(1)
    env = {**ENV, "FPISA_MANAGER": ADDRESS, "FPISA_KEY": str(tmp_path / "mine")}
    assert "No such file" in of_worker(g, key=env["FPISA_KEY"])["key"]["text"]
    g.net.fpisa("key", "new", "train", env["FPISA_KEY"])
    f = of_worker(g, key=env["FPISA_KEY"])["manager"]
    assert f["level"] == "fault" and "no key in common" in f["text"]
    f = of_worker(g, key="")["manager"]
    assert f["level"] == "fault" and "a key is needed here" in f["text"]
    os.chmod(env["FPISA_KEY"], 0o640)
    assert fixes(g.net.worker[0], ["--worker", ADDRESS], "groups", "key", env=env) == f"chmod 600 {env['FPISA_KEY']}"


def test_worker_without_a_manager(groups):
    g = groups(1, "networks = 10.77.0.0/16")
    assert "is not in a network that may ask for groups; add the network to networks in [manager]" in of_worker(g)["manager"]["text"]
    assert "is fpisa serve running there?" in of_worker(g, f"{ADDRESS}:{PORT + 1}")["manager"]["text"]
    assert "is not a known host" in of_worker(g, "no.such.host.invalid")["manager"]["text"]
    g.net.agg.run("nft", f"table ip cut {{ chain in {{ type filter hook input priority 0; tcp dport {PORT} drop; }}; }}")
    f = of_worker(g)["manager"]
    assert f["level"] == "fault" and "check the firewalls there and here" in f["text"]

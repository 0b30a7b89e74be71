# SPDX-License-Identifier: GPL-2.0-only
"""Test the units inside the first guest of vm/unit. The units are restarted, reloaded, flooded and upgraded while a job and a
group sum.

    unit_end.py BUILD PACKAGES

PACKAGES has a higher version of the packages that are installed. unit_site.py has the network.
"""
import contextlib
import glob
import os
import socket
import subprocess
import sys

os.environ["FPISA_BUILD"] = sys.argv[1]
from unit_site import (COUNT, SECOND_ADDRESS, Job, Machine, Sums, active, command, configure, journal, lab, ready, register,  # noqa: E402
                       registered, shown, suppressed, systemctl, write)

RESTARTS = int(os.environ.get("FPISA_RESTARTS", "3"))
STRANGERS = 100
BURST = 5  # journald's limit, which the flood exceeds


def state(net):
    """Return the state that a restart must not change, which is jobs and interfaces."""
    jobs = [(j["job"], j["generation"], j["window"]) for j in net.json("job", "list")]
    return jobs, [(i["name"], i["mode"], i["program_id"]) for i in net.json("status")["interfaces"]]


def booted(net):
    """Check that each unit was started after its dependencies at boot, and that the datapath follows the configuration file."""
    active("fpisa", "fpisa-manager")
    times = [int(shown(unit, name)) for unit, name in (("network-online.target", "ActiveEnterTimestampMonotonic"),
                                                       ("fpisa", "ExecMainStartTimestampMonotonic"), ("fpisa", "ActiveEnterTimestampMonotonic"),
                                                       ("fpisa-manager", "ExecMainStartTimestampMonotonic"))]
    assert 0 < times[0] and times == sorted(times), times
    assert shown("fpisa-manager", "NRestarts") == "0"
    jobs, interfaces = state(net)
    assert [j[0] for j in jobs] == [1, 2] and [mode for _, mode, _ in interfaces] == ["native"] * len(net.ports), (jobs, interfaces)


def waits_for_the_datapath(net):
    """Check a manager that is started without a datapath. The manager must keep trying, and serve as soon as a datapath exists."""
    command(lab.FPISA, "unload")
    systemctl("restart", "--no-block", "fpisa-manager")
    lab.wait_until("a try in vain", lambda: int(shown("fpisa-manager", "NRestarts")) > 1, 60)
    systemctl("restart", "fpisa")
    active("fpisa", "fpisa-manager")


def restarts(net, job, sums):
    for _ in range(RESTARTS):
        for verb, unit in ("restart", "fpisa"), ("reload", "fpisa"), ("restart", "fpisa-manager"), ("reload", "fpisa-manager"):
            before = state(net)
            systemctl(verb, unit)
            active(unit)
            assert state(net) == before, (verb, unit, before, state(net), sums.failed(), journal("fpisa-manager")[-3000:])
            job.goes_on()
            sums.goes_on()


def strangers(net):
    """Make connections that do not speak the protocol. The manager logs each connection as refused and closes it."""
    with net.worker[0].entered():
        for _ in range(STRANGERS):
            with socket.create_connection((lab.ADDRESS, lab.PORT), 60) as s:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    while s.recv(100):
                        pass


def flood(net, sums):
    """Check that the manager's own limit of log lines is below journald's limit, so that journald drops no line. Do not wait
    for dropped lines if journald's limit is lower.
    """
    strangers(net)
    said = journal("fpisa-manager")
    assert "refused " in said and suppressed() == 0, said[-2000:]
    write("/run/systemd/system/fpisa-manager.service.d/log.conf", f"[Service]\nLogRateLimitIntervalSec=10s\nLogRateLimitBurst={BURST}\n", 0o644)
    systemctl("daemon-reload")
    systemctl("restart", "fpisa-manager")
    active("fpisa-manager")
    sums.goes_on()
    strangers(net)
    sums.goes_on()
    return len([line for line in said.splitlines() if line.startswith("refused ")])


def upgrade(net, job, sums):
    """Upgrade with dpkg, as apt does. The manager is restarted but the datapath is not, and everything continues."""
    before, pid = state(net), shown("fpisa-manager", "MainPID")
    command("dpkg", "-i", *glob.glob(sys.argv[2] + "/fpisa_*.deb"), *glob.glob(sys.argv[2] + "/fpisa-lab_*.deb"))
    active("fpisa", "fpisa-manager")
    assert shown("fpisa-manager", "MainPID") != pid and state(net) == before, (before, state(net))
    job.goes_on()
    sums.goes_on()


def loses_the_second(net, sums):
    """Check an aggregator after a restart. The aggregator has no jobs, its groups get an error, and the next group uses the
    aggregator again.
    """
    assert sorted(sums.shares()) == sorted([lab.ADDRESS, SECOND_ADDRESS]), sums.shares()
    systemctl("restart", "second-fpisa-manager")
    lab.wait_until("the group's end", lambda: len(sums.failed()) == len(sums.ranks), 60)
    assert all(SECOND_ADDRESS in a["error"] for a in sums.failed()), sums.failed()
    lab.wait_until("the second aggregator", lambda: registered(net), 60)
    again = Sums(net, "again")
    assert sorted(again.shares()) == sorted([lab.ADDRESS, SECOND_ADDRESS]), again.shares()
    return again


def main():
    with open("/proc/1/comm") as f:
        assert f.read() == "systemd\n"
    net = Machine()
    configure(net, "aggregator-keys = aggs\nfanout = unicast\n")
    ready()
    booted(net)
    waits_for_the_datapath(net)
    register(net)
    net.slow(3)
    job, sums = Job(net), Sums(net, "sums")
    restarts(net, job, sums)
    refused = flood(net, sums)
    upgrade(net, job, sums)
    again = loses_the_second(net, sums)
    counts = [job.end(), sums.end(), again.end()]
    dropped = suppressed()
    assert dropped > 0, journal(None)[-2000:]
    version = subprocess.getoutput("systemctl --version").splitlines()[0]
    wrong = sum(w for _, w in counts)
    print(f"{os.uname().release}, {version}: booted in order; fpisa.service and fpisa-manager.service restarted {RESTARTS} times, reloaded as often and upgraded "
          f"while a job and a group summed at two aggregators: {counts[0][0]} sums of {COUNT} elements, {counts[1][0] + counts[2][0]} of the groups, "
          f"mismatches {wrong}; of {STRANGERS} strangers {refused} logged, journald dropped {dropped} lines of as many at a limit of {BURST}")
    net.close()
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())

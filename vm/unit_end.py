# SPDX-License-Identifier: GPL-2.0-only
"""Inside vm/unit's guest: fpisa.service is started, reloaded and restarted by systemctl while a job runs.

    unit_end.py BUILD

The aggregator is the guest itself, its workers have namespaces (tests/lib/lab.py).
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys

BUILD = os.environ["FPISA_BUILD"] = sys.argv[1]
TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TREE, "tests", "lib"))
import lab  # noqa: E402 - found by the line above
import worker  # noqa: E402

CONFIG = "/etc/fpisa/fpisa.conf"
COUNT, CALLS, RESTARTS = 20000, 2000, 3  # calls: more than there is time for


class Here(lab.Netns):
    """The namespace that systemd is in."""

    def __init__(self):
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
        self.started = []


class Machine(lab.Lab):
    """A lab whose aggregator is this machine."""

    def netns(self):
        if self.spaces:
            return super().netns()
        self.spaces.append(Here())
        return self.spaces[0]


def systemctl(*argv):
    p = subprocess.run(["systemctl", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if p.returncode:
        log = subprocess.run(["systemctl", "status", "fpisa"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        sys.exit(f"systemctl {' '.join(argv)}: status {p.returncode}\n{p.stdout}{log.stdout}")
    return p.stdout.strip()


def configure(net):
    """Two jobs of all workers, of which the first will run."""
    os.makedirs(os.path.dirname(CONFIG), exist_ok=True)
    with open(CONFIG, "w") as f:
        f.writelines(f"[interface {p}]\nmode = native\n" for p in net.ports)
        for job, more in ((1, "pipeline = staged\nclz = lpm\n"), (2, "mode = fpisa64\n")):
            f.write(f"[job {job}]\nworkers = {','.join(net.addresses)}\naddress = {lab.ADDRESS}\n{more}")


def state(net):
    """What a restart must leave alone."""
    jobs = [(j["job"], j["generation"], j["window"]) for j in net.json("job", "list")]
    return jobs, [(i["name"], i["mode"], i["program_id"]) for i in net.json("status")["interfaces"]]


def start(net, rank, out):
    """A worker of job 1 that sums until it is ended."""
    plan = {"options": {"timeout_ms": 60000}, "steps": [{"count": COUNT, "kind": "integers"}] * CALLS}
    argv = [sys.executable, "-B", lab.WORKER, lab.LIBRARY, lab.ADDRESS, 1, json.dumps(plan)]
    return net.worker[rank].spawn(*argv, stdout=out)


def answers(out):
    """What a worker has said in whole lines: of its connection, then of each sum."""
    with open(out.name) as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


def main():
    with open("/proc/1/comm") as f:
        assert f.read() == "systemd\n"
    shutil.copy(lab.FPISA, "/usr/local/sbin/fpisa")
    net = Machine()
    configure(net)
    systemctl("start", "fpisa")
    assert systemctl("is-active", "fpisa") == "active"
    assert [mode for _, mode, _ in state(net)[1]] == ["native"] * len(net.ports), state(net)
    net.slow(3)
    said = [open(f"/run/worker{r}", "w+") for r in (0, 1)]
    procs = [start(net, r, said[r]) for r in (0, 1)]

    def results():
        ended = [p.communicate()[1] for p in procs if p.poll() is not None]
        if ended:
            sys.exit(f"workers ended: {ended} {[answers(f)[-1:] for f in said]}")
        return net.counters(1, lab.PIN)["v_result"]

    lab.wait_until("frames", lambda: results() > 20, 120)
    before = state(net)
    for verb in ["restart", "reload"] * RESTARTS:
        seen = results()
        systemctl(verb, "fpisa")
        assert systemctl("is-active", "fpisa") == "active" and state(net) == before, (before, state(net))
        lab.wait_until("frames after it", lambda: results() > seen, 120)
    calls = [len(answers(f)) for f in said]
    lab.wait_until("a sum begun after all", lambda: all(len(answers(f)) > n + 1 for f, n in zip(said, calls)), 120)
    for p in procs:
        lab.end(p)
    expect = hashlib.sha256(worker.exact_sum("integers", 2, COUNT)).hexdigest()
    digests = [a["digest"] for f in said for a in answers(f)[1:]]
    wrong = sum(d != expect for d in digests)
    version = subprocess.getoutput("systemctl --version").splitlines()[0]
    print(f"{os.uname().release}, {version}: fpisa.service restarted {RESTARTS} times and reloaded as often while a job "
          f"ran: {len(digests)} sums of {COUNT} elements, mismatches {wrong}")
    net.close()
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())

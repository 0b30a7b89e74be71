# SPDX-License-Identifier: GPL-2.0-only
"""One end of vm/pair inside a guest. This end aggregates for the workers of the other end, and runs workers for the other end's
jobs.

    pair_end.py NUMBER BUILD MODULE native|skb ELEMENTS SEED

The last line on stdout is JSON. A TCP connection through the same card, which the datapath passes on, synchronises both
ends. Otherwise a guest could power off while the other guest's workers still need its aggregator.
"""
import glob
import json
import os
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(os.path.dirname(HERE), "tests", "lib", "worker.py")
sys.path.insert(0, os.path.dirname(WORKER))
import worker  # noqa: E402, F401 - vm/pair takes the workers' data from it

WORKERS, JOB, FIRST_PORT, STEP_PORT = 4, 1, 19000, 7000
ADDRESS = ["10.99.7.1", "10.99.7.2"]
PIPELINE = [("fused", "bits"), ("staged", "lpm")]
PEER_S = 120


def run(*argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        sys.exit(f"{' '.join(argv)}: status {p.returncode}\n{p.stdout}{p.stderr}")
    return p.stdout


def card(module):
    """Wait until the driver has created the interface, and return the name of the network card."""
    run("modprobe", module)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for path in glob.glob("/sys/class/net/*/device/driver"):
            if os.path.basename(os.path.realpath(path)) == module:
                return path.split("/")[4]
        time.sleep(0.1)
    sys.exit(f"{module}: no network interface appeared in 30 s")


class Peer:
    """The connection to the other end, which is made as soon as both ends run."""

    def __init__(self, number):
        if number == 0:
            with socket.create_server((ADDRESS[0], STEP_PORT)) as s:
                s.settimeout(PEER_S)
                self.stream = s.accept()[0]
        else:
            end = time.monotonic() + PEER_S
            while True:
                try:
                    self.stream = socket.create_connection((ADDRESS[0], STEP_PORT), timeout=5)
                    break
                except OSError:
                    if time.monotonic() > end:
                        sys.exit("the other guest does not answer")
                    time.sleep(0.2)
        self.stream.settimeout(PEER_S)

    def meet(self):
        self.stream.sendall(b".")
        if self.stream.recv(1) != b".":
            sys.exit("the other guest has given up")


def load(fpisa, dev, mode, cpus):
    """Attach in this mode. In mode skb, first check that native mode is refused in one line. Return the output of the program
    and of the kernel.
    """
    said = []
    if mode == "skb":
        p = subprocess.run([fpisa, "load", dev, "--mode", "native"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
        said = p.stderr.splitlines()
        if p.returncode == 0 or len(said) != 1 or "--mode skb" not in said[0]:
            sys.exit(f"native XDP on {dev}: status {p.returncode}, not one line that names --mode skb: {said}")
    run(fpisa, "load", dev, "--mode", mode, *(("--cpus", cpus) if cpus else ()))
    return said + [line for line in run("dmesg").splitlines() if "XDP" in line and dev in line]


def main():
    number, build, module, mode, elements, seed, cpus = sys.argv[1:]
    number, fpisa = int(number), os.path.join(build, "fpisa")
    pipeline, clz = PIPELINE[number]
    dev = card(module)
    run("ip", "addr", "add", ADDRESS[number] + "/24", "dev", dev)
    run("ip", "link", "set", dev, "up")
    said = load(fpisa, dev, mode, cpus)
    others = ",".join(f"{ADDRESS[1 - number]}:{FIRST_PORT + r}" for r in range(WORKERS))
    run(fpisa, "job", "add", str(JOB), "--workers", others, "--address", ADDRESS[number], "--mode", "fpisa",
        "--rounding", "down", "--pipeline", pipeline, "--clz", clz)
    peer = Peer(number)
    peer.meet()
    procs = []
    for r in range(WORKERS):
        plan = {"options": {"local_port": FIRST_PORT + r, "order": True, "timeout_ms": 60000},
                "steps": [{"count": int(elements), "kind": "random", "seed": int(seed), "values": True}]}
        procs.append(subprocess.Popen([sys.executable, "-B", WORKER, os.path.join(build, "libfpisa.so"),
                                       ADDRESS[1 - number], str(JOB), json.dumps(plan)],
                                      stdout=subprocess.PIPE, text=True))
    outs = [p.communicate()[0] for p in procs]
    if any(p.returncode for p in procs):
        sys.exit(f"workers: {[p.returncode for p in procs]}\n{''.join(outs)[-3000:]}")
    peer.meet()
    status = json.loads(run(fpisa, "status", "--json"))
    attached, = [i for i in status["interfaces"] if i["name"] == dev]
    if attached["mode"] != mode:
        sys.exit(f"{dev}: XDP mode {attached['mode']}, not {mode}")
    answers = [json.loads(out.splitlines()[-1]) for out in outs]
    print(json.dumps({"kernel": os.uname().release, "driver": module, "mode": attached["mode"],
                      "pipeline": pipeline, "said": said,
                      "steering": json.loads(run(fpisa, "stats", "--json")).get("steering", []),
                      "stats": json.loads(run(fpisa, "stats", str(JOB), "--json")), "answers": answers}))
    peer.meet()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only
"""Groups sum and queries are answered during attacks. A host of the segment forges frames, connections without a key flood the manager,
ranks and workers with a key lie, and stderr is not read. No result is wrong, no call hangs, dead ranks are named, and no job or connection
is left."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from groups import Groups
from independent_client import ADD, FP32, HEADER, RESULT, Header
from lab import ADDRESS, BUILD, COMMAND_S, FPISA, HERE, PORT, TOP, children, draw_seed, end, once_within, wait_until
from queries import Queries

HERE_C = os.path.dirname(os.path.abspath(__file__))
LYING_WORKER = os.path.join(HERE, "..", "postgres", "lying_worker.c")
QUERY_PORT, LIAR_PORT = 18001, 18005
FLOODS = "G", "\x16\x03\x01\x02\x01", ""
NOTICED_S = 1
SUM = 1
# Hosts: ranks from 0 on, workers of queries, floods and lying ranks, the forger, and last the master of the queries. Floods have their own
# host, because they would fill the slow links of ranks.
RANKS, WORKERS, STRANGER, FORGER = 3, 3, 4, 5


class Forger(threading.Thread):
    """A host in the members' segment that forges contributions and results of other hosts, and sends changed copies of captured frames"""

    def __init__(self, host, macs, rng):
        super().__init__(daemon=True)
        with host.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            self.socket.bind(("eth0", 0))
            self.socket.settimeout(0.005)
        self.macs, self.rng, self.jobs, self.done, self.sent, self.changed = macs, rng, [], threading.Event(), 0, 0

    def frame(self, source, to, header):
        """Make a frame from any (address, port) to any (address, port)."""
        datagram = header.datagram(struct.pack("<64f", *[-1.0] * 64))
        udp = struct.pack(">HHHH", source[1], to[1], 8 + len(datagram), 0) + datagram
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(source[0]),
                         socket.inet_aton(to[0]))
        total = sum(struct.unpack(">10H", ip))
        total = (total & 0xffff) + (total >> 16)
        ip = ip[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xffff) + ip[12:]
        return self.macs[to[0]] + self.socket.getsockname()[4] + b"\x08\x00" + ip + udp

    def blind(self, job):
        """Yield the frames of an adversary that knows everything about a job except its secrets."""
        for rank, member in enumerate(job["members"]):
            chunk = self.rng.randrange(1, 200)
            common = {"format": FP32, "op": SUM, "job": job["job"], "generation": job["generation"], "count": 64, "chunk": chunk,
                      "slot": 2 * (chunk % job["window"]) + chunk // job["window"] % 2, "secret": self.rng.getrandbits(64)}
            at = (member["address"], member["port"])
            yield self.frame(at, (ADDRESS, PORT), Header(type=ADD, rank=rank, **common))
            yield self.frame((ADDRESS, PORT), at, Header(type=RESULT, rank=0xffff, contributors=len(job["members"]), **common))

    def changes(self, heard):
        """Make three frames from a result: the result itself, the result with a changed bit, and a result for a later round."""
        at = self.rng.randrange(42 + 4, len(heard))
        yield heard
        yield heard[:at] + bytes([heard[at] ^ 1 << self.rng.randrange(8)]) + heard[at + 1:]
        number, chunk = struct.unpack_from("<I", heard, 42 + 8)[0], struct.unpack_from("<Q", heard, 42 + 24)[0]
        window = next((job["window"] for job in self.jobs if job["job"] == number), 0)
        for c in range(chunk + 1, chunk + 1 + min(window, 8)):
            slot = struct.pack("<I", 2 * (c % window) + c // window % 2)
            yield heard[:42 + 16] + slot + heard[42 + 20:42 + 24] + struct.pack("<Q", c) + heard[42 + 32:42 + HEADER.size] + b"\xbf" * (len(heard) - 42 - HEADER.size)

    def run(self):
        while not self.done.is_set():
            for job in self.jobs:
                for f in self.blind(job):
                    self.send(f)
            try:
                heard = self.socket.recv(65536)
            except TimeoutError:
                continue
            if heard[42:44] == b"FP" and heard[45] == RESULT and heard[6:12] != self.socket.getsockname()[4]:
                # Use this host's own Ethernet address. With the aggregator's address this host would also receive the aggregator's frames.
                for f in self.changes(heard[:6] + self.socket.getsockname()[4] + heard[12:40] + b"\0\0" + heard[42:]):
                    self.send(f)
                self.changed += 1

    def send(self, frame):
        try:
            self.socket.send(frame)
            self.sent += 1
        except OSError:
            time.sleep(0.01)  # the queue is full

    def stop(self):
        self.done.set()
        self.join()
        self.socket.close()


def build(source, *libraries):
    program = os.path.splitext(os.path.basename(source))[0]
    path = os.path.join(build.folder, program)
    subprocess.run(["gcc", "-Wall", "-Werror", "-O1", "-D_GNU_SOURCE", *(f"-I{TOP}/{d}" for d in ("include", "user")), "-o", path, source,
                    *libraries, "-ldl", "-lpthread", "-lm"], check=True)
    return path


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


class Company:
    """All attackers and users, running at the same time"""

    def __init__(self, net, folder, fanout, rng):
        self.net, self.folder, self.rng, self.attackers, self.forger = net, folder, rng, [], None
        build.folder = folder
        os.mkdir(f"{folder}/groups")
        os.mkdir(f"{folder}/queries")
        net.fpisa("key", "new", "liar", f"{folder}/liar")
        with open(f"{folder}/liar") as f, open(os.open(f"{folder}/groups/keys", os.O_CREAT | os.O_WRONLY, 0o600), "w") as to:
            to.write(f.read())
        self.groups = Groups(net, f"{folder}/groups", f"fanout = {fanout}", sections="[key liar]\ngroups = 4\njobs = 4\nslots = 64\n")
        self.queries = Queries(net, f"{folder}/queries")
        self.rows = self.queries.table(WORKERS, [(rng.randrange(50), rng.random()) for _ in range(2000)])

    def serve(self):
        self.groups.serve()
        self.queries.serve([WORKERS])
        self.honest = f"{self.net.addresses[WORKERS]}:{QUERY_PORT}"
        self.pids = [self.groups.manager.pid, *children(self.groups.manager.pid), self.queries.workers[0].pid]

    def attack(self):
        worker, address = self.net.worker, self.net.addresses
        static, of_queries = (os.path.join(BUILD, f"lib{name}.a") for name in ("fpisa", "fpisa-query"))
        flood = build(os.path.join(HERE_C, "flood.c"))
        rank = build(os.path.join(HERE_C, "lying_rank.c"), static)
        liar = build(LYING_WORKER, of_queries, static)
        self.attackers = [worker[STRANGER].spawn(flood, ADDRESS, PORT, says) for says in FLOODS]
        self.attackers += [worker[STRANGER].spawn(flood, address[WORKERS], QUERY_PORT, says) for says in FLOODS[:2]]
        self.liars = [worker[STRANGER].spawn(rank, ADDRESS, PORT, f"{self.folder}/liar", self.rng.getrandbits(31))]
        self.attackers.append(worker[WORKERS].spawn(liar, self.queries.key, self.folder, LIAR_PORT))
        assert self.attackers[-1].stdout.readline() == "serving\n"
        macs = {a: w.mac("eth0") for a, w in zip(address, worker)}
        self.forger = Forger(worker[FORGER], {**macs, ADDRESS: self.net.agg.mac("p0")}, self.rng)
        self.forger.start()

    def jobs_to_forge(self):
        """Give the forger the jobs that exist now. The lying ranks meanwhile add and remove jobs."""
        shown = [self.net.agg.try_run(FPISA, "job", "show", j["job"], "--json") for j in self.groups.jobs()] if self.forger else []
        if self.forger:
            self.forger.jobs = [json.loads(out) for status, out, _ in shown if not status]

    def sums(self, name, ranks):
        """Run a group and recompute every result."""
        steps = [{"check": kind, "times": 60, "seed": self.rng.randrange(3000), "pause": 0.005} for kind in ("float32", "float16")]
        g = self.groups.group(name, range(ranks), *steps, {"leave": True})
        self.jobs_to_forge()
        for _ in steps:
            self.jobs_to_forge()
            said = [rank.line() for rank in g]
            assert all(answer["rc"] == 0 and answer["wrong"] == 0 and answer["calls"] == 60 for answer in said), json.dumps(said)
        for rank in g:
            assert rank.line()["rc"] == 0
            rank.end()

    def death(self, name):
        """Kill a rank. Return the time until another rank got the error about the death."""
        forever = {"sum": "float32", "count": 1000, "times": 10**6, "pause": 0.01}
        g = self.groups.group(name, range(2), forever)
        self.jobs_to_forge()
        time.sleep(self.rng.random() / 2)
        g[1].kill()
        began = time.monotonic()
        said = g[0].line()
        took = said["ended"] - began
        assert "rank 1 is gone: its process ended" in said["error"], said
        g[0].end()
        return took

    def ask(self):
        self.queries.check_groups(self.rows, "--prune", "none", workers=self.honest, network=False)
        with open(f"{self.folder}/{LIAR_PORT}", "w") as f:
            for _ in range(3):
                f.write(f"OPEN {self.rng.randrange(17, 23)} {self.rng.randbytes(self.rng.randrange(1, 300)).hex()}\n")
        said = self.queries.fails("--by", "k", "--prune", "none", workers=f"{self.honest},{self.net.addresses[WORKERS]}:{LIAR_PORT}", network=False)
        assert said.startswith("fpisa: "), said

    def stop(self):
        """Return the number of connections that the lying ranks made. The number must not be 0."""
        lied = 0
        for p in self.liars:
            p.send_signal(signal.SIGTERM)
            lied += int(p.communicate(timeout=COMMAND_S)[0])
        for p in self.attackers:
            end(p)
        self.forger.stop()
        return lied

    def held(self):
        """Count the objects that groups may leak, after all groups have ended."""
        wait_until("the end of all scans", lambda: not children(self.queries.workers[0].pid))
        return self.groups.settle()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.queries.workers[0].pid}/fd"))

    def close(self):
        for p in self.attackers + getattr(self, "liars", []):
            end(p)
        if self.forger and not self.forger.done.is_set():
            self.forger.stop()
        self.groups.close()
        self.queries.close()


@pytest.mark.alone
@pytest.mark.families("ipv4", why="the forger writes IPv4 headers; faults/test_adversary.py forges over both")
@pytest.mark.parametrize("fanout, seconds", [("multicast", 12), ("unicast", 12), pytest.param("multicast", 600, marks=pytest.mark.long)])
def test_company(lab, tmp_path, fanout, seconds):
    net = lab(workers=7, bridge=True)
    net.load()
    rng = random.Random(draw_seed())
    c = Company(net, str(tmp_path), fanout, rng)
    try:
        # With slow links, forged results may arrive before the real results.
        for w in net.worker[:RANKS]:
            w.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "4kb", "latency", "1s")
        c.serve()
        c.sums("before", RANKS)
        before, descriptors, memory = c.held(), c.descriptors(), None
        c.attack()
        began, deaths, rounds = time.monotonic(), [], 0

        def death():
            deaths.append(c.death(f"death-{len(deaths)}"))
            return deaths[-1]

        while time.monotonic() < began + seconds:
            c.sums(f"sums-{rounds}", RANKS)
            once_within(NOTICED_S, death)
            c.ask()
            rounds += 1
            # Measure once, after the first round. By then the attackers hold as many connections as they can get.
            memory = memory or [rss_kb(pid) for pid in c.pids]
        forged, changed, lied = c.forger.sent, c.forger.changed, c.stop()
        report = {"fanout": fanout, "seconds": round(time.monotonic() - began), "rounds": rounds, "deaths": sorted(round(d, 3) for d in deaths),
                  "forged": forged, "changed": changed, "lied": lied, "refused": net.json("status")["manager"]["refusals"],
                  "load": os.getloadavg()}
        print(json.dumps(report))
        assert forged > 100 and lied > 3 and (changed > 10) == (fanout == "multicast"), report
        after = c.held()
        assert after == before, (before, after)
        wait_until("the end of connections to the worker", lambda: c.descriptors() == descriptors)
        grown = [rss_kb(pid) - kb for pid, kb in zip(c.pids, memory)]
        assert max(grown) < 16384, (grown, report)
    finally:
        c.close()

# SPDX-License-Identifier: GPL-2.0-only
"""Groups of more than 64 ranks: sums over real XDP by 96 ranks on three hosts, and the time in which 4,096 ranks join a manager. The 96
ranks are threads of a process on each host."""
import contextlib
import fractions
import hashlib
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys

import numpy
import pytest

import mpi as mpis
from aggregators import pins
from bits import check_call
from groups import Groups
from lab import ADDRESS, BUILD, LIBRARY, PORT, TOP, draw_seed, end, once_within, wait_until
from rationals import EXACT
from test_leaves import PINS, Site, all_counters, nearest, needs_torch, run_torch, served, shares_of, two_roots

SOURCE = os.path.join(os.path.dirname(__file__), "join_ranks.c")
HOSTS, EACH = 3, 32
MPI_CALLS = "f1", "d1", "f1000", "d777", "F4096", "D100", "f5001"
RANKS, COUNT, CHUNK = HOSTS * EACH, 2048, 256
CALLS = ("avg", "float32"), ("avg", "float64"), ("min", "float32"), ("max", "float64")  # after a sum of float32
PARTS = [r * 7 % 41 for r in range(RANKS)]  # of a reduce-scatter
PROGRAM = """
import ctypes, hashlib, os, sys, threading, numpy, fpisa
manager, key, mode, host, seed = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])

def scatter(g, values):
    flags, counts = ctypes.c_uint32(), (ctypes.c_size_t * g.size)(*PARTS)
    sent, part = numpy.ascontiguousarray(values[:sum(PARTS)]), numpy.empty(PARTS[g.rank], "float32")
    rc = library.fpisa_group_reduce_scatter(g._pointer, ctypes.c_void_p(sent.ctypes.data), ctypes.c_void_p(part.ctypes.data if part.size else None),
                                            ctypes.c_size_t(sent.size), counts, 1, 1, ctypes.c_double(1), ctypes.byref(flags))
    assert rc == 0, rc
    return part

def work(rank):
    part = b""
    try:
        with fpisa.Group(manager, "many", rank, %(ranks)d, key_file=key, mode=mode, join_timeout=50, overflow="flag", elements=%(chunk)d) as g:
            rng = numpy.random.default_rng([seed, rank])
            values = numpy.ldexp(rng.uniform(-1, 1, %(count)d), rng.integers(-40, 41, %(count)d)).astype("float32")
            request = g.start(values, out=numpy.empty_like(values))
            got, n = [request.wait()[0]], len(request.ranks)
            for op, dtype in (CALLS if mode == "exact" else []):
                got.append(g.allreduce(values.astype(dtype), op)[0])
            if mode == "exact":
                whole = rng.integers(-2**24, 2**24, %(count)d).astype("int32")
                got += [g.allreduce(whole, op)[0] for op in ("sum", "max")]
                got.append(g.broadcast(whole, root=%(ranks)d - 1))
                g.barrier()
                # Each host's sum is too large, and the sum of all hosts is not.
                sign = (host == 0) - (host == 1)
                out, flags = g.allreduce(numpy.full(%(chunk)d, sign * (2**26 - 1), "int32"))
                assert not out.any() and not flags, (out, flags)
                out, flags = g.allreduce(numpy.full(%(chunk)d, sign * 2**27, "int32"))
                assert flags & fpisa.Flags.OVERFLOW, (out, flags)
                part = scatter(g, values).tobytes()
            say(rank, hashlib.sha256(b"".join(out.tobytes() for out in got)).hexdigest(), n, part.hex())
            while mode == "exact":
                g.allreduce(numpy.ones(1000, "float32"))
    except fpisa.Error as e:
        say(rank, type(e).__name__, e.ranks, e)

def say(*what):
    with lock:
        print(*what, sep="\\t", flush=True)

lock, library = threading.Lock(), ctypes.CDLL(os.environ["FPISA_LIBRARY"])
threads = [threading.Thread(target=work, args=(r,)) for r in range(host, %(ranks)d, %(hosts)d)]
for t in threads:
    t.start()
for t in threads:
    t.join()
""".replace("CALLS", repr(CALLS)).replace("PARTS", repr(PARTS)) % {"ranks": RANKS, "hosts": HOSTS, "count": COUNT, "chunk": CHUNK}


@pytest.fixture
def site(bpffs, tmp_path, family):
    with pins(PINS), served(Site(family == "ipv6", HOSTS), str(tmp_path)) as leaves:
        yield leaves


def start(site, seed, mode="exact"):
    """Start the ranks of each host."""
    env = {**os.environ, "PYTHONPATH": os.path.join(TOP, "adapters", "python"), "FPISA_LIBRARY": LIBRARY, "OPENBLAS_NUM_THREADS": "1"}
    return [host.spawn(sys.executable, "-B", "-c", PROGRAM, site.net.address, site.key, mode, i, seed, env=env)
            for i, host in enumerate(site.net.worker)]


def lines(process, n=EACH):
    """Return what the ranks of a host say: {rank: the other words of its next line}."""
    said = {}
    for _ in range(n):
        rank, *words = process.stdout.readline().rstrip("\n").split("\t")
        said[int(rank)] = words
    assert len(said) == n
    return said


def result(op, dtype, values):
    """Return the bytes of the exact result of a call with the values of all ranks, rounded to the nearest value."""
    exact = {"sum": sum, "avg": lambda v: sum(v) / RANKS, "min": min, "max": max}[op](values)
    return nearest(exact) if dtype == "float32" else struct.pack("<d", float(exact))


def right_answers(seed):
    """Return what each rank says: the digest of the results of all calls, the number of ranks, and its part of the reduce-scatter."""
    vectors, whole = [], []
    for rank in range(RANKS):
        rng = numpy.random.default_rng([seed, rank])
        vectors.append(numpy.ldexp(rng.uniform(-1, 1, COUNT), rng.integers(-40, 41, COUNT)).astype("float32").tolist())
        whole.append(rng.integers(-2**24, 2**24, COUNT))
    columns = [list(map(fractions.Fraction, column)) for column in zip(*vectors)]
    digest = hashlib.sha256(b"".join(result(*call, c) for call in [("sum", "float32"), *CALLS] for c in columns))
    for integers in sum(whole), numpy.max(whole, axis=0), whole[-1]:
        digest.update(integers.astype("int32").tobytes())
    parts = [b"".join(nearest(sum(c)) for c in columns[sum(PARTS[:r]):sum(PARTS[:r + 1])]) for r in range(RANKS)]
    return [[digest.hexdigest(), str(RANKS), part.hex()] for part in parts]


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("roots", [pytest.param(1, marks=pytest.mark.long), 2])
def test_sums_and_a_death(site, roots):
    """96 ranks get the exact sums, and their parts of a reduce-scatter. Each host sends one contribution for each chunk. When a host's ranks
    die, the others name one of them."""
    with two_roots(site) if roots == 2 else contextlib.nullcontext():
        check_sums_and_a_death(site, roots)


def check_sums_and_a_death(site, roots):
    seed = draw_seed()
    hosts = start(site, seed)
    try:
        right = right_answers(seed)
        for i, process in enumerate(hosts):
            assert lines(process) == {r: right[r] for r in range(i, RANKS, HOSTS)}
        assert [s["ranks"] for s in shares_of(site, "many")] == [[]] * roots + [list(range(i, RANKS, HOSTS)) for i in range(HOSTS)]
        assert all(all_counters(site, i, "v_up") >= COUNT // CHUNK for i in range(HOSTS))
        group, = site.net.json("group", "show", "many")
        assert group["here"] == list(range(RANKS)) and len(group["members"]) == RANKS
        hosts[2].send_signal(signal.SIGKILL)
        for i in range(2):
            for rank, (kind, named, text) in lines(hosts[i]).items():
                first, = re.findall(r"^\((\d+),\)$", named)
                assert kind == "RankLost" and int(first) % HOSTS == 2 and f"rank {first} is gone: its process ended" in text, (rank, kind, named, text)
    finally:
        for process in hosts:
            end(process)
    wait_until("the end of the group", lambda: not site.net.json("group", "list"))


@pytest.mark.families("ipv4")  # the family does not change the refusals
def test_refused(site):
    """The ranks of a group that is too large for its mode or its manager learn why."""
    hosts = start(site, 1, "fpisa64")
    for process in hosts:
        for kind, _, text in lines(process).values():
            assert kind == "Error" and "a job of 96 ranks needs mode exact, whose sums do not depend on their order" in text, (kind, text)
        end(process)
    wait_until("the end of the group", lambda: not site.net.json("group", "list"))
    with open(site.config) as f:
        text = f.read()
    with open(site.config, "w") as f:
        f.write(text.replace("leaves = yes\n", ""))
    site.read_again()
    for process in (hosts := start(site, 1)):
        for kind, _, said in lines(process).values():
            assert kind == "InvalidCall" and "without a tree a group has up to 64; set leaves = yes" in said, (kind, said)
    for process in hosts:
        end(process)


@pytest.mark.long
@pytest.mark.families("ipv4", why="test_frontends.py runs mpirun over both")
def test_mpi(bpffs, tmp_path):
    """An unchanged program of MPI with 72 ranks, 8 on each of 9 hosts, gets exact sums and its parts of reduce-scatters. Each host sends one
    contribution for each chunk. The ranks of MPICH would take minutes, because they do not yield their CPU while they wait."""
    mpi = "openmpi"
    why = mpis.lacking(mpi)
    if why:
        pytest.skip(why)
    folder, seed, hosts, each = str(tmp_path), draw_seed(), 9, 8
    ranks, rng, path = hosts * each, random.Random(seed), os.path.join(folder, "bits")
    with pins(PINS), served(Site(hosts=hosts), folder) as site:
        def run(program, *argv):
            out, err = mpis.run(where.space, mpi, ranks, folder, mpis.compiled(mpi, os.path.join(TOP, "tests", "mpi", program), folder), *argv,
                                hosts=where, FPISA_MANAGER=site.net.address, FPISA_KEY=site.key, FPISA_MIN_BYTES=0, FPISA_MODE="exact")
            assert "fpisa: " not in err, err
            return out, [all_counters(site, i, "v_up") for i in range(hosts)]

        where = mpis.Hosts(site.net, folder, each)
        _, ups = run("bits.c", path, seed, *MPI_CALLS)
        files = [open(f"{path}.{r}", "rb") for r in range(ranks)]
        for call in MPI_CALLS:
            check_call(files, call, EXACT, rng)
        assert not any(f.read() for f in files)
        assert len(set(ups)) == 1 and ups[0] > 10, ups
        out, more = run("scatter.c", seed % 2**31)
        said = json.loads(out)
        assert said["right"] == said["of"] == 40, said
        assert len(set(more)) == 1 and more[0] > ups[0] + 100, more


@needs_torch
@pytest.mark.long
@pytest.mark.families("ipv4", why="test_frontends.py runs PyTorch over both")
def test_torch(bpffs, tmp_path):
    """torchrun with 8 processes on each of 9 hosts trains an unchanged program. All 72 processes have the same weights, and each host sends
    one contribution for each chunk."""
    hosts, each = 9, 8
    with pins(PINS), served(Site(hosts=hosts), str(tmp_path)) as site:
        outs = run_torch(site, tmp_path, each)
        weights = re.findall(r"rank \d+: loss \S+ -> \S+, weights (\w+)", "".join(outs))
        assert len(weights) == hosts * each and len(set(weights)) == 1, outs
        ups = [all_counters(site, i, "v_up") for i in range(hosts)]
        assert len(set(ups)) == 1 and ups[0] > 100, ups


MANY, MANY_HOSTS, FIRST = 4096, 64, 100


@pytest.mark.alone
@pytest.mark.families("ipv4")  # join_ranks has IPv4 addresses
@pytest.mark.parametrize("keys", [True, False], ids=["keys", "without-keys"])
def test_join_of_4096_ranks(lab, tmp_path, keys):
    """4,096 ranks on 64 hosts, each with an aggregator, connect as fast as one process can and join within 5 s. One process, join_ranks.c, has all
    connections."""
    net = lab(workers=1)
    net.load()
    program, first = tmp_path / "join_ranks", f"10.99.1.{FIRST}"
    subprocess.run(["gcc", "-Wall", "-Werror", "-O1", "-D_GNU_SOURCE", *(f"-I{TOP}/{d}" for d in ("include", "user")), "-o", program, SOURCE,
                    os.path.join(BUILD, "libfpisa.a"), "-ldl", "-lpthread", "-lm"], check=True)
    net.worker[0].ip(*(f"addr add 10.99.1.{FIRST + i}/24 dev eth0" for i in range(MANY_HOSTS)))
    g = Groups(net, str(tmp_path), "leaves = yes", "aggregator-keys = train" if keys else "without-key = yes")

    def join():
        ranks = net.worker[0].spawn(program, ADDRESS, PORT, g.key or "-", first, MANY_HOSTS, MANY, stdin=subprocess.PIPE)
        try:
            said = ranks.stdout.readline()
            assert said, ranks.stderr.read()
            print(f"{MANY} ranks joined in {float(said):.2f} s")
            group, = net.json("group", "show", "many")
            assert len(group["here"]) == MANY and [len(s["ranks"]) for s in group["shares"]] == [0] + [MANY // MANY_HOSTS] * MANY_HOSTS
        finally:
            end(ranks)
        wait_until("the end of the group", lambda: not net.json("group", "list"))
        return float(said)

    try:
        g.serve()
        once_within(5, join)
    finally:
        g.close()

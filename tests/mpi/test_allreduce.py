# SPDX-License-Identifier: GPL-2.0-only
"""Test MPI programs with the adapter: every value, served calls, calls left to MPI, and the messages about them."""
import json
import os
import random
import re
import struct

import pytest

import mpi as mpis
from bits import check_call, is_wide, numbers_of
from rationals import EXACT
from lab import ADDRESS, COMMAND_S, TOP, draw_seed, once_within

RANKS = 4
EXAMPLES = os.path.join(TOP, "adapters", "mpi", "examples")
SWEEP = 3 * 3 * 6 * 2 * 2  # types x operations x counts x in place or not x blocking or not, for each communicator
CHECKED = 4 * SWEEP + 3
FORTRAN = "mpifh.f90", "module.f90", "f08.f90"


def counters(c):
    """Return the aggregator's counts of frames from all hosts."""
    return sum(json.loads(c.net.agg.run("ip", "-j", "-s", "link", "show", p))[0]["stats64"]["rx"]["packets"]
               for p in c.net.ports)


def said(err):
    return [line for line in err.splitlines() if line.startswith("fpisa: ")]


def sweep(c, **env):
    """Check that all values are correct. Return the number of frames that the sweep sent, and the messages that it printed."""
    before = c.sent()
    out, err = c.run(RANKS, "sweep.c", **env)
    assert json.loads(out)["checked"] == CHECKED
    return c.sent() - before, said(err)


def test_sweep(cluster):
    """MPI_COMM_WORLD, a copy and halves are served. Afterwards their jobs are removed."""
    c = cluster()
    took, lines = sweep(c)
    assert took > 1000 and lines == []
    c.groups.empty()


def test_progress(cluster):
    """A rank that waits in an all-reduce moves MPICH's large messages between hosts, because the sender must move them."""
    c = cluster()
    out, _ = c.run(2, "sweep.c", "progress", UCX_TLS="tcp,self")
    assert json.loads(out)["checked"] == 1


@pytest.mark.parametrize("level", ["single", "multiple"])
def test_requests(cluster, level):
    """Requests in flight together, on a freed communicator and in threads give right sums."""
    c = cluster()
    before = c.sent()
    out, err = c.run(RANKS, "requests.c", level)
    answer = json.loads(out)
    assert answer["right"] == answer["of"] and said(err) == []
    # Frames need at most 17 bytes for two doubles. So this number of bytes means that frames carried all 36 calls of 5000 doubles on each
    # rank.
    assert c.sent() - before > 36 * RANKS * 5000 * 8 / 3500
    c.groups.empty()


def test_a_cycle_of_requests(cluster):
    """Requests on overlapping communicators may be started in a cycle, as MPI allows, and no request waits forever. Once a communicator has
    agreed, the datapath serves its requests during any call that waits for all of them."""
    c = cluster()
    frames = {}
    for how in "never", "first", "barrier", "integers":
        before = c.sent()
        out, err = c.run(3, "cycle.c", how)
        answer = json.loads(out)
        assert answer["right"] == answer["of"] and said(err) == [], (out, err)
        frames[how] = c.sent() - before
    line, = said(c.run(RANKS, "sweep.c", "short", FPISA_MODE="exact")[1])[:1]
    assert "nonblocking reductions of float until the next MPI_Allreduce or MPI_Barrier" in line
    # Each round has 2000 doubles on each of two ranks of three communicators. Two doubles need at most 17 bytes in frames.
    round_of = 6 * 2000 * 8 / 3500
    assert frames["never"] < round_of, frames
    assert frames["first"] > 5 * round_of and min(frames["barrier"], frames["integers"]) > 4 * round_of, frames
    c.groups.empty()


def test_static_jobs(cluster):
    """Without a manager, MPI_COMM_WORLD has one static job for each type, and another communicator has jobs under its own name."""
    c = cluster()
    c.groups.kill()
    for job, kind in enumerate(("fp32", "fp64", "fp64")):
        c.net.add_job(job, "--format", kind, workers=[f"{c.net.addresses[0]}:{19000 + 100 * job + r}" for r in range(RANKS)])
    jobs = {"FPISA_MANAGER": "", "FPISA_AGGREGATOR": ADDRESS, "FPISA_JOBS": "0:19000,1:19100"}
    took, lines = sweep(c, **jobs)
    assert took > 1000 and len(lines) == 3 and all("FPISA_MANAGER is not set; set it to the host of fpisa serve" in x for x in lines)
    before = c.sent()
    out, err = c.run(RANKS, "requests.c", "single", **jobs, FPISA_JOBS_second="2:19200")
    answer = json.loads(out)
    assert answer["right"] == answer["of"] and said(err) == []
    assert c.sent() - before > 36 * RANKS * 5000 * 8 / 3500
    line, = [x for x in said(c.run(RANKS, "sweep.c", "short", **jobs, FPISA_TIMEOUT_MS=2 ** 32 + 1000)[1]) if "MPI_COMM_WORLD " in x]
    assert "FPISA_TIMEOUT_MS is '4294968296'; it must be milliseconds, 4294967295 at most" in line
    c.net.fpisa("job", "del", 0)
    c.net.add_job(0, "--mode", "exact", workers=[f"{c.net.addresses[0]}:{19000 + r}" for r in range(RANKS)])
    line, = [x for x in said(c.run(RANKS, "sweep.c", "short", **jobs)[1]) if "MPI_COMM_WORLD " in x]
    assert "nonblocking reductions of float until this call: " in line


@pytest.mark.parametrize("env, why", [
    *[({"FPISA_JOBS": jobs}, f"FPISA_JOBS is '{jobs}'; it must be a list of at most 4 JOB or JOB:PORT, separated by commas; PORT is the UDP port "
       "of the first rank of each host, default 18000") for jobs in ("7,x", "7:", "7:0", "7:65536", "7;8", "7,7,7,7,7")],
    ({"FPISA_JOBS": "7", "FPISA_AGGREGATOR": ""}, "FPISA_JOBS is set, but FPISA_AGGREGATOR is not; set it to the host of these jobs"),
    ({"FPISA_JOBS": "7"}, "job 7 has 3 ranks, but the communicator needs 4"),
    ({"FPISA_JOBS": "8"}, "MPI performs all reductions of float: no job of FPISA_JOBS has this format"),
])
def test_static_jobs_that_are_none(cluster, env, why):
    c = cluster()
    where = [f"{c.net.addresses[0]}:{18000 + r}" for r in range(RANKS)]
    c.net.add_job(7, workers=where[:3])
    c.net.add_job(8, "--format", "fp64", workers=where)
    _, err = c.run(RANKS, "sweep.c", "orders", **{"FPISA_AGGREGATOR": ADDRESS, "FPISA_TIMEOUT_MS": 3000, **env})
    assert len(said(err)) == 1 and why in said(err)[0]


def test_a_rank_taken_out_of_a_static_job(cluster):
    """If a rank is removed from the job, the other ranks get an error that names it, because an MPI sum covers all ranks."""
    c = cluster()
    c.net.add_job(0, workers=[f"{c.net.addresses[0]}:{19000 + r}" for r in range(RANKS)])
    p, _, folder = mpis.begin(c, RANKS, "call", FPISA_AGGREGATOR=ADDRESS, FPISA_JOBS="0:19000")
    c.net.fpisa("job", "shrink", 0, 1)
    answers, err = mpis.ends(folder, p, range(RANKS))
    by_rank = {a["rank"]: a["error"] for a in answers}
    assert "rank 1 was removed from the job" in by_rank.pop(1), answers
    assert all("lacks rank 1, which fpisa job shrink removed from the job" in error for error in by_rank.values()), answers
    assert len(said(err)) == RANKS


def test_two_levels(cluster):
    """Only one rank of each host sends, so the number of frames is halved. Mode exact refuses two levels and keeps its bits."""
    c = cluster(hosts=2, ranks_each=2)
    took = {}
    for levels in (0, 1):
        before = counters(c)
        out, err = c.run(RANKS, "sweep.c", "short", FPISA_TWO_LEVELS=levels)
        assert json.loads(out)["checked"] == SWEEP and said(err) == []
        took[levels] = counters(c) - before
    assert 0 < took[1] < took[0] * 0.6
    out, err = c.run(RANKS, "sweep.c", "orders", FPISA_TWO_LEVELS=1, FPISA_MODE="exact")
    line, = said(err)
    assert json.loads(out)["right"] == 24 and "FPISA_TWO_LEVELS is not used: mode exact rounds once" in line


def test_two_levels_of_static_jobs(cluster):
    """One rank of each host is in the static job. If the aggregator says that the job is exact, all calls are left to MPI, with a message.
    MPI_Reduce is always left to MPI."""
    c = cluster(hosts=2, ranks_each=2)
    c.groups.kill()
    jobs = {"FPISA_MANAGER": "", "FPISA_AGGREGATOR": ADDRESS, "FPISA_JOBS": "0", "FPISA_TWO_LEVELS": 1}
    lines = ["fpisa: MPI_COMM_WORLD of 4 ranks: MPI performs all reductions of float: mode exact rounds once, but with FPISA_TWO_LEVELS "
             "each host would round first"]
    for mode, results, says in ("fpisa", 25, []), ("exact", 1, lines):  # frames for 24 calls and the agreement's call
        c.net.add_job(0, "--mode", mode, workers=[f"{a}:18000" for a in c.net.addresses])
        _, err = c.run(RANKS, "sweep.c", "orders", **jobs)
        assert said(err) == says and c.net.json("stats", 0)["v_result"] == results, (mode, err)
        assert json.loads(c.run(RANKS, "reduce.c", **jobs)[0])["right"] == 3
        c.net.fpisa("job", "del", 0)


def test_specials(cluster):
    """Without FPISA_MODE the sums of two ranks equal those of IEEE 754, except for doubles very close to a tie. Mode fpisa rounds down."""
    c = cluster()
    differ = {mode: json.loads(c.run(2, "specials.c", FPISA_MODE=mode)[0]) for mode in ("", "exact", "fpisa")}
    assert (differ[""]["floats"], differ["exact"]["floats"], differ["exact"]["doubles"]) == (0, 0, 0), differ
    assert differ[""]["doubles"] <= 4, differ
    assert differ["fpisa"]["doubles"] > 100 and differ["fpisa"]["floats"] > 100, differ


def test_without_the_adapter(cluster):
    c = cluster()
    took, lines = sweep(c, preload=False)
    assert took < 100 and lines == []


def test_exact(cluster):
    """MPI performs requests that come before the first agreement, and each communicator reports this. All orders of values give the same
    sum, even for short arrays."""
    c = cluster()
    took, lines = sweep(c, FPISA_MODE="exact")
    assert took > 1000
    for kind in "float", "double":
        assert sum(f"nonblocking reductions of {kind} until the next MPI_Allreduce or MPI_Barrier: " in x for x in lines) == 4, lines
    # Expect one more line at the end, because these requests may round.
    assert len(lines) == 9 and sum(BEFORE in x for x in lines) == 1
    out, _ = c.run(RANKS, "sweep.c", "orders", FPISA_MODE="exact", FPISA_MIN_BYTES=1000)
    assert json.loads(out)["right"] == 24


def test_exact_doubles(cluster):
    """Sums of doubles and complex numbers by MPI_Allreduce and MPI_Reduce are correct. Without the adapter most orders give wrong sums."""
    c = cluster()
    before = c.sent()
    out, err = c.run(RANKS, "doubles.c", FPISA_MODE="exact")
    answer = json.loads(out)
    # There are four calls of six types in 24 orders.
    assert answer["right"] == answer["of"] == 4 * 6 * 24 + 1 and said(err) == [], (out, err)
    assert c.sent() - before > 4 * 6 * 24 * RANKS
    c.groups.empty()
    answer = json.loads(c.run(RANKS, "doubles.c", preload=False)[0])
    assert answer["right"] < answer["of"], answer


def test_reduce_alone(cluster):
    """In mode exact the datapath serves MPI_Reduce. In other modes no communicator has a group, and no rank connects to the manager."""
    c = cluster()
    frames = {}
    for mode in "exact", "", "fpisa":
        before = c.sent()
        out, err = c.run(RANKS, "reduce.c", FPISA_MODE=mode)
        assert json.loads(out)["right"] == 3 and said(err) == [], (mode, out, err)
        frames[mode] = c.sent() - before
    assert frames[""] < 10 and frames["fpisa"] < 10 and frames["exact"] > 3 * RANKS, frames
    c.groups.empty()


def test_reduce_refused(cluster):
    """An invalid root, and arrays that MPI refuses, give MPI's own error, in mode exact too, and no rank waits forever."""
    c = cluster()
    # MPICH's UCX prints warnings about messages that were sent to a root with an error.
    plain = json.loads(c.run(RANKS, "reduce.c", "refused", preload=False)[0].splitlines()[0])
    assert len({*plain["root"]}) == 1 and all(plain["arrays"]), plain
    for mode in "exact", "":
        out, err = c.run(RANKS, "reduce.c", "refused", FPISA_MODE=mode)
        answer = json.loads(out.splitlines()[0])
        # The datapath guarantees the next sum, but MPI does not.
        assert answer == {**plain, "next": 1 if mode else answer["next"]} and said(err) == [], (mode, out, err)
    c.groups.empty()


def test_reduce_without_memory(cluster):
    """If a rank cannot make a call, it still counts the call. So its next call has the right number, and no sum mixes values of two
    calls."""
    c = cluster()
    out, err = c.run(RANKS, "reduce.c", "hungry", FPISA_MODE="exact")
    assert json.loads(out.splitlines()[0]) == {"well": 0, "right": 0, "after": [1, 1]}
    assert sum("rank 1 of 4: not enough memory for a call that the other ranks make" in x for x in said(err)) == 1, err
    assert any("different calls" in x for x in said(err)), err
    c.groups.empty()


@pytest.mark.parametrize("mode", ["", "exact"])
@pytest.mark.parametrize("how", [(), ("requests",)], ids=["blocking", "requests"])
def test_reduce_scatter(cluster, mode, how):
    """MPI_Reduce_scatter, MPI_Reduce_scatter_block and their requests give each rank its part, and the datapath serves them."""
    c = cluster()
    seed = draw_seed() % 2**31
    for preload in False, True:
        before = c.sent()
        out, err = c.run(RANKS, "scatter.c", seed, *how, FPISA_MODE=mode, preload=preload)
        answer = json.loads(out)
        assert answer["right"] == answer["of"] and said(err) == [], (seed, out, err)
        # Most calls have parts, and each part makes at least one frame of each rank.
        assert c.sent() - before > answer["of"] * RANKS if preload else c.sent() - before < 10
    c.groups.empty()


@pytest.mark.parametrize("mode", ["", "exact"])
def test_reduce_scatter_refused(cluster, mode):
    """If a rank's array for its part is missing or MPI_IN_PLACE, its call fails, its input does not change, and the other ranks have their
    parts."""
    c = cluster()
    seed = draw_seed() % 2**31
    out, err = c.run(RANKS, "scatter.c", seed, "refused", FPISA_MODE=mode)
    assert json.loads(out) == {"failed": 4, "right": 4, "kept": 4, "next": 1, "of": 4} and said(err) == [], (seed, out, err)
    c.groups.empty()


def test_a_request_that_mpi_refuses(cluster):
    """The error is MPI's own error, not an error about memory. No rank waits forever or has a wrong sum."""
    c = cluster()
    out, err = c.run(RANKS, "refused_start.c")
    assert json.loads(out.splitlines()[0]) == {"wrong": [RANKS, RANKS], "after": 1}, (out, err)
    assert sum("rank 1 of 4: MPI cannot create a request for a call that the other ranks make: " in x for x in said(err)) == 1, err
    assert not any("not enough memory" in x for x in said(err)), err
    c.groups.empty()


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_fanout(cluster, fanout):
    """FPISA_FANOUT decides whether each host gets results by multicast, whatever the manager's default is."""
    c = cluster(f"fanout = {'unicast' if fanout == 'multicast' else 'multicast'}", hosts=2)

    def multicast():
        lines = [w.run("grep", "^IpExt:", "/proc/net/netstat").splitlines() for w in c.net.worker]
        return [int(dict(zip(names.split(), counts.split()))["InMcastPkts"]) for names, counts in lines]

    before = multicast()
    out, err = c.run(2, "sweep.c", "short", FPISA_FANOUT=fanout)
    assert json.loads(out)["checked"] == SWEEP and said(err) == []
    came = [b - a for a, b in zip(before, multicast())]
    # There are 36 calls of 40000 numbers. A frame holds at most 832 numbers.
    assert max(came) < 10 if fanout == "unicast" else min(came) > 36 * 40000 / 832, came


def test_solver(cluster):
    """The answer of a solver has the same bits however its parts are assigned to ranks. With MPI alone the bits differ."""
    c = cluster()
    program = os.path.join(EXAMPLES, "cg.c")
    for ranks in 2, 3, 4, 8:
        answers = [c.run(ranks, program, mapping, FPISA_MODE="exact")[0] for mapping in (0, 77)]
        assert answers[0].startswith("residual 0x1.") and len(set(answers)) == 1, (ranks, answers)
    with open(os.path.join(TOP, "doc", "mpi.md")) as f:
        assert f.read().count(answers[0].strip()) == 3, answers[0]
    assert len({c.run(8, program, mapping, preload=False)[0] for mapping in (0, 77)}) > 1


def test_halves(cluster):
    """A job of the 16-bit format sums MPICH's 16-bit floats. Open MPI has no such type, and Debian's MPICH does not add them itself."""
    c = cluster()
    if c.mpi != "mpich":
        pytest.skip("MPIX_C_FLOAT16 is MPICH's")
    before = counters(c)
    out, err = c.run(RANKS, "halves.c")
    answer = json.loads(out)
    assert answer["right"] == answer["of"] and said(err) == [], (out, err)
    # There are 12 calls of 5001 numbers on each rank. A frame holds at most 512 numbers.
    assert counters(c) - before > 12 * RANKS * 5001 / 512
    c.groups.empty()


def test_misuse(cluster):
    """MPI refuses invalid calls itself, and the next calls give right results. Objects that were not freed leave nothing behind."""
    c = cluster()
    before = c.sent()
    out, err = c.run(RANKS, "misuse.c")
    assert json.loads(out)["right"] == 13 and said(err) == [], err
    assert c.sent() - before > 7 * RANKS
    c.groups.empty()


def test_two_programs(cluster):
    """Two programs on one host, at the same time, have separate groups and ports."""
    c = cluster()
    c.compiled("requests.c")
    both = [c.start(RANKS, "requests.c", "single") for _ in range(2)]
    for p in both:
        out, err = p.communicate(timeout=COMMAND_S)
        assert p.returncode == 0, (out, err)
        answer = json.loads(out)
        assert answer["right"] == answer["of"] and said(err) == [], err
    c.groups.empty()


def test_manager_killed(cluster):
    """After its restart the manager has the groups again, and no call fails."""
    c = cluster()
    p, _, folder = mpis.begin(c, RANKS, "call")
    for _ in range(2):
        c.groups.kill()
        c.groups.serve()
    group, = c.net.json("group", "list")
    assert not any(os.path.exists(os.path.join(folder, f"end.{r}")) for r in range(RANKS))
    c.net.fpisa("group", "kill", group["name"])
    answers, _ = mpis.ends(folder, p, range(RANKS))
    # A rank that has not yet reconnected to the manager has no group.
    assert all(re.search("ended at the aggregator|the group no longer exists", a["error"]) for a in answers), answers


def test_other_mpi(cluster):
    c = cluster()
    other, = {*mpis.MPIS} - {c.mpi}
    if mpis.lacking(other):
        pytest.skip(mpis.lacking(other))
    argv, env = mpis.command(c.mpi, 1, c.folder, c.compiled("loop.c"), preload=mpis.adapter(other))
    status, _, err = c.host.try_run(*argv, env=env)
    assert status != 0 and f"preload the one in {c.mpi}/ instead of {other}/" in err, err


def test_exact_however_cut(cluster):
    """A vector's sum has the same bits in all runs, orders of the ranks, and cuts into calls."""
    c = cluster()
    seed = draw_seed()
    runs = [json.loads(c.run(RANKS, "cuts.c", seed, FPISA_MODE="exact")[0]) for _ in range(2)]
    assert runs[0] == runs[1] and (runs[0]["other"], runs[0]["inexact"]) == (0, 0), runs


def test_min_bytes(cluster):
    """With a large FPISA_MIN_BYTES, MPI performs all calls, although groups are connected to the manager."""
    c = cluster()
    few, lines = sweep(c, FPISA_MIN_BYTES=10**9)
    assert few < 500 and lines == []


def test_default_min_bytes(cluster):
    """Without FPISA_MIN_BYTES, MPI performs calls of a single number."""
    c = cluster()
    frames = []
    for least in "", "4":
        before = c.sent()
        c.run(RANKS, "sweep.c", "orders", FPISA_MIN_BYTES=least)
        frames.append(c.sent() - before)
    assert frames[1] - frames[0] > 20 * RANKS, frames


@pytest.mark.parametrize("env, why", [
    ({"FPISA_MANAGER": ""}, "FPISA_MANAGER is not set; set it to the host of fpisa serve"),
    pytest.param({"FPISA_MODE": "fast"}, "FPISA_MODE is 'fast'; it must be fpisa or fpisa-a or fpisa64 or exact", marks=pytest.mark.long),
    pytest.param({"FPISA_MIN_BYTES": "1k"}, "FPISA_MIN_BYTES is '1k'; it must be a number of bytes", marks=pytest.mark.long),
    pytest.param({"FPISA_TWO_LEVELS": 2}, "FPISA_TWO_LEVELS is '2'; it must be 0 or 1", marks=pytest.mark.long),
])
def test_said_once(cluster, env, why):
    """Settings belong to a process, so its communicators do not repeat the messages. Rank 0 prints three messages, and each half prints one
    from another rank."""
    c = cluster()
    took, lines = sweep(c, **env)
    assert took < 100 and lines and all(why in x for x in lines)
    assert len(lines) == 3


def test_no_manager(cluster):
    c = cluster()
    c.groups.kill()
    _, lines = sweep(c)
    assert len(lines) == 4 and all("is fpisa serve running there?" in x for x in lines)


def test_format_that_is_not_given(cluster):
    c = cluster("formats = fp32")
    took, lines = sweep(c)
    assert took > 1000
    assert len(lines) == 4 and all("MPI performs all reductions of double" in x and "the manager does not offer format fp64" in x
                                   for x in lines)


# If a signal ends a process, MPICH's launcher kills the other processes on its host, as doc/mpi.md says.
SHELL = "sh", "-c", 'trap "" USR1; "$0" "$@"; exit $?'


@pytest.mark.parametrize("how", ["call", "request"])
def test_failure(cluster, how):
    """The error handler gets the error, with the library's sentence, on every rank."""
    c = cluster()
    p, _, folder = mpis.begin(c, RANKS, how)
    group, = c.net.json("group", "list")
    c.net.fpisa("group", "kill", group["name"])
    answers, err = mpis.ends(folder, p, range(RANKS))
    assert all("ended at the aggregator" in a["error"] for a in answers), answers
    # mpirun of Open MPI 5 may lose the last line of a rank that exits at once
    assert 0 < len(said(err)) <= RANKS and all("MPI_COMM_WORLD, rank " in x for x in said(err))


@pytest.mark.parametrize("how, victim, hosts", [("call", 1, 1), ("request", 0, 4), ("late", 1, 1)])
def test_a_rank_dies(cluster, how, victim, hosts):
    """The other ranks get an error that names a dead rank within a second, even if they have not yet agreed on a datatype."""
    c = cluster(hosts=hosts)

    once_within(1, lambda: mpis.kill_one(c, RANKS, how, victim, *(SHELL if c.mpi == "mpich" and hosts == 1 else ())))


@pytest.mark.parametrize("source", FORTRAN)
def test_fortran(cluster, source):
    c = cluster(fortran=True)
    before = c.sent()
    out, err = c.run(RANKS, source)
    assert out.split() == ["12.00", "3.00", "6.00", "0.00", "1.50", "6.00", "3.00"] and said(err) == []
    served = c.sent() - before
    before = c.sent()
    c.run(RANKS, source, preload=False)
    assert c.sent() - before < 10 < served


CALLS_OF_FORTRAN = "r5", "d5", "c5", "z5", "r600", "d300", "c400", "z1001", "R3", "D40", "C501", "Z77"


def finite(rng, wide):
    """Return the bits of a number, with a random exponent of 250 or 2000."""
    m, exponent = (52, rng.randrange(20, 2020)) if wide else (23, rng.randrange(2, 250))
    return rng.getrandbits(1) << (63 if wide else 31) | exponent << m | rng.getrandbits(m)


def write_values(paths, calls, rng):
    """Write values for each rank, such that every second sum of four ranks loses its largest values."""
    files = [open(p, "wb") for p in paths]
    for call in calls:
        for i in range(numbers_of(call)):
            words = [finite(rng, is_wide(call)) for _ in paths]
            if i % 2:
                words[2] = words[0] ^ 1 << (63 if is_wide(call) else 31)
            for f, word in zip(files, rng.sample(words, len(words))):
                f.write(struct.pack("<Q" if is_wide(call) else "<I", word))
    for f in files:
        f.close()


@pytest.mark.parametrize("source", ["bits_mpifh.f90", "bits_module.f90", "bits_f08.f90"])
def test_fortran_exact(cluster, source):
    """MPI_Allreduce and MPI_Reduce give the oracle's bits for Fortran's real, double precision, complex and double complex."""
    c = cluster(fortran=True)
    rng = random.Random(draw_seed())
    path = os.path.join(c.folder, "bits")
    write_values([f"{path}.{r}.in" for r in range(RANKS)], CALLS_OF_FORTRAN, rng)
    before = c.sent()
    _, err = c.run(RANKS, source, path, *CALLS_OF_FORTRAN, FPISA_MODE="exact")
    assert said(err) == [] and c.sent() - before > RANKS * len(CALLS_OF_FORTRAN)
    files = [open(f"{path}.{r}", "rb") for r in range(RANKS)]
    for call in CALLS_OF_FORTRAN:
        check_call(files, call, EXACT, rng)
    assert not any(f.read() for f in files)


KEPT = {
    "exact": "3 in mode exact, 0 in other modes, 7 by MPI: 1 MPI_Iallreduce of MPI_DOUBLE by MPI_SUM, 4 ranks, 16 bytes (a request before "
             "the ranks agreed); 3 MPI_Allreduce of MPI_LONG_DOUBLE by MPI_SUM, 4 ranks, 16 to 48 bytes (the datatype is not supported); "
             "1 MPI_Allreduce of MPI_DOUBLE by MPI_PROD, 4 ranks, 40 bytes (the operation is not supported); 1 MPI_Allreduce of MPI_DOUBLE by "
             "the program's operation, 4 ranks, 8 bytes (the operation is not supported); 1 MPI_Reduce of MPI_LONG_DOUBLE by MPI_MAX, 2 ranks, "
             "112 bytes (the datatype is not supported)",
}
KEPT["fpisa64"] = KEPT["exact"].replace("3 in mode exact, 0 in other modes, 7 by", "0 in mode exact, 1 in other modes, 9 by") + \
    "; 1 MPI_Allreduce of MPI_DOUBLE by MPI_SUM, 4 ranks, 8 bytes (below FPISA_MIN_BYTES); 1 MPI_Reduce of MPI_DOUBLE by MPI_SUM, 4 ranks, 8 " \
    "bytes (served only in mode exact)"
BEFORE = "fpisa: rank 0: reductions of floating-point numbers: "


def reports(c, **env):
    """Return the last line of the adapter, or None, and the number of its other lines."""
    lines = said(c.run(RANKS, "kept.c", FPISA_MIN_BYTES="", **env)[1])
    ends = [x.removeprefix(BEFORE) for x in lines if x.startswith(BEFORE)]
    return ends, len(lines) - len(ends)


def test_report(cluster):
    """A line at MPI_Finalize gives the number of calls that the datapath served, the number that MPI performed, and the reasons. The line
    is printed in mode exact, or on request."""
    c = cluster()
    assert reports(c, FPISA_MODE="exact") == ([KEPT["exact"]], 1)
    assert reports(c, FPISA_MODE="exact", FPISA_REPORT=0) == ([], 1)
    assert reports(c, FPISA_MODE="fpisa64") == ([], 0)
    assert reports(c, FPISA_MODE="fpisa64", FPISA_REPORT=1) == ([KEPT["fpisa64"]], 0)
    ends, others = reports(c, FPISA_MANAGER="", FPISA_REPORT=1)
    assert others == 1 and ends[0].startswith("0 in mode exact, 0 in other modes, 10 by MPI: ") and "(not served: see the line about it)" in ends[0]
    assert reports(c, FPISA_REPORT="yes") == ([], 1)


@pytest.mark.parametrize("argv", [(), ("f08",)], ids=["mixed", "f08"])
def test_fortran_entries(cluster, argv):
    """The ranks agree in MPI_Barrier, whichever module each rank uses. Every routine that completes requests works."""
    c = cluster(fortran=True)
    before = c.sent()
    out, err = c.run(RANKS, "entries.f90", *argv)
    assert out.split() == ["10"] and said(err) == []
    # The datapath serves 9 of 10 rounds, with two requests each. Two doubles need at most 17 bytes in frames.
    assert c.sent() - before > 9 * 2 * RANKS * 2000 * 8 / 3500
    c.groups.empty()


@pytest.mark.parametrize("source", ["norm.c", "norm.f90"])
def test_examples(cluster, source):
    c = cluster(fortran=source.endswith("f90"))
    before = c.sent()
    out, err = c.run(RANKS, c.compiled(os.path.join(EXAMPLES, source)))
    assert out == "length 84.853, largest 4.0\n" and said(err) == []
    assert c.sent() - before > 10

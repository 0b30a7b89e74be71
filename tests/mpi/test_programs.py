# SPDX-License-Identifier: GPL-2.0-only
"""Preload programs from Debian. Their answers are correct, and the aggregator adds their sums."""
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

import mpi as mpis
from lab import ADDRESS, BUILD, SLOW, draw_seed, end

pytestmark = pytest.mark.long
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 4
LONGEST_S = 1200 * SLOW


def unserved(err):
    """Return the communicators of several ranks that the library left to MPI, from the output of a rank."""
    return [x for x in err.splitlines() if x.startswith("fpisa: ") and "MPI performs all reductions" in x and "of 1 ranks" not in x]


def run(c, *program, preload=True, env=(), ranks=RANKS, **more):
    """Run a program on all ranks. Return stdout, stderr, and the number of frames that the host sent."""
    argv, own = mpis.command(c.mpi, ranks, c.folder, *program, preload=preload, FPISA_MANAGER=ADDRESS, FPISA_MIN_BYTES=0,
                             **dict(env))
    before = c.sent()
    p = c.host.spawn(*argv, env=own, cwd=c.folder, **more)
    try:
        out, err = p.communicate(timeout=LONGEST_S)
    finally:
        end(p)
    assert p.returncode == 0, f"status {p.returncode}\n{out[-3000:]}{err[-3000:]}"
    assert not unserved(err), err
    return out, err, c.sent() - before


def program(name, package):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed: the package {package}; make test-long installs it")
    return shutil.which(name)


@pytest.fixture
def openmpi(cluster, request):
    """Skip unless the MPI is Open MPI, because Debian builds these programs only for Open MPI."""
    if "openmpi" not in request.node.name:
        pytest.skip("Debian builds this for Open MPI alone")
    return cluster()


def numbers(text):
    return [[float(x) for x in line.split()] for line in text]


def test_lammps(openmpi):
    lmp, source = program("lmp", "lammps"), os.path.join(HERE, "melt.lammps")
    tables = []
    for preload in (False, True):
        out, _, sent = run(openmpi, lmp, "-in", source, "-log", "none", preload=preload)
        rows = re.findall(r"^ +\d+(?: +[-+.e\d]+){5} *$", out, re.M)
        assert len(rows) == 21, out
        tables.append((numbers(rows), sent))
    (plain, few), (ours, many) = tables
    worst = max(abs(a - b) / max(abs(a), 1e-300) for p, o in zip(plain, ours) for a, b in zip(p, o))
    differ = sum(p != o for p, o in zip(plain, ours))
    print(f"lammps: {many} frames, {few} without; {differ} of 21 rows differ, by {worst:.1e} at most")
    assert worst < 1e-12
    assert many - few > 100 * RANKS


GRIDS = {2: (2, 1, 1), 3: (3, 1, 1), 4: (2, 2, 1), 8: (2, 2, 2)}


def thermo(c, ranks, boxes, **env):
    """Return LAMMPS' table with all digits if rank i has box boxes[i] of the grid. Use Open MPI alone unless env is given."""
    x, y, z = GRIDS[ranks]
    grid, source = (os.path.join(c.folder, name) for name in ("grid", "melt"))
    with open(grid, "w") as f:
        f.write(f"{x} {y} {z}\n")
        f.writelines(f"{rank} {box % x + 1} {box // x % y + 1} {box // x // y + 1}\n" for rank, box in enumerate(boxes))
    with open(os.path.join(HERE, "melt.lammps")) as f, open(source, "w") as to:
        to.write(f.read().replace("region box", f"processors * * * grid custom {grid}\nregion box").replace("%20.15g", "%24.17g"))
    out, err, _ = run(c, program("lmp", "lammps"), "-in", source, "-log", "none", preload=bool(env), env=env, ranks=ranks)
    rows = re.findall(r"^ +\d+(?: +[-+.e\d]+){5} *$", out, re.M)
    assert len(rows) == 21 and ("FPISA_REPORT" not in env or re.search(r"numbers: \d{3} in mode exact, .* 0 by MPI$", err, re.M)), (out, err)
    return "\n".join(rows)


@pytest.mark.parametrize("ranks", GRIDS)
def test_lammps_bits(openmpi, ranks):
    """In mode exact LAMMPS' table has the same digits for every assignment of boxes to ranks. With Open MPI alone the digits differ on 4 and 8
    ranks."""
    boxes = list(range(ranks))
    others = boxes[1::2] + boxes[::2], random.Random(draw_seed()).sample(boxes, ranks)
    assert len({thermo(openmpi, ranks, m, FPISA_MODE="exact", FPISA_REPORT=1) for m in (boxes, *others)}) == 1
    assert ranks < 4 or thermo(openmpi, ranks, boxes) != thermo(openmpi, ranks, others[0])


# -- Quantum ESPRESSO ---------------------------------------------------------------

PSEUDO = "/usr/share/espresso/pseudo"
ENERGIES = re.compile(r"^(!? +total energy|.* contribution|.* energy|.*accuracy) +[=<] +([-+.E\d]+) Ry$", re.M)


def test_pw(openmpi):
    pw = program("pw.x", "quantum-espresso")
    if not os.path.exists(os.path.join(PSEUDO, "Si.pz-vbc.UPF")):
        pytest.skip("no pseudopotential of silicon: the package quantum-espresso-data; make test-long installs it")
    source = os.path.join(openmpi.folder, "silicon.pw")
    with open(os.path.join(HERE, "silicon.pw")) as f, open(source, "w") as to:
        to.write(f.read().replace("PSEUDO'", PSEUDO + "'"))
    runs = []
    for preload in (False, True):
        out, _, sent = run(openmpi, pw, "-in", source, preload=preload, env={"OMP_NUM_THREADS": 1})
        assert "JOB DONE." in out, out
        runs.append((ENERGIES.findall(out), re.findall(r"bands \(ev\):\n\n([-.\d\s]+)\n", out), sent))
    (plain, bands, few), (ours, our_bands, many) = runs
    assert len(plain) > 10 and len(bands) >= 2 and [name for name, _ in plain] == [name for name, _ in ours], (plain, ours)
    differ = [(name.strip(), p, o) for (name, p), (_, o) in zip(plain, ours) if p != o]
    print(f"pw.x: {many} frames, {few} without; {len(differ)} of {len(plain)} energies differ: {differ}; bands "
          f"{'equal' if bands == our_bands else 'not equal'}")
    # Energies in Ry, with 8 digits. The estimate of the accuracy is the remainder of a nearly total cancellation.
    assert all(abs(float(p) - float(o)) <= 2e-8 for name, p, o in differ)
    assert max(abs(a - b) for p, o in zip(numbers(bands), numbers(our_bands)) for a, b in zip(p, o)) <= 1e-4
    assert many - few > 200 * RANKS


# -- mpi4py's own tests -------------------------------------------------------------

RANKS_OF_TESTS = 3	# the tests make communicators of up to this many ranks
# Skip programs that start other programs, because Open MPI 4.1 does not always end them, with or without the library.
WITHOUT = "--exclude", "test_spawn", "--exclude", "test_dynproc"


def source_of_mpi4py():
    """Return the folder of mpi4py's source package, whose tests run against Debian's module."""
    place = os.path.join(BUILD, "mpi4py")
    argv = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:",
            "--no-build-isolation", "--require-hashes", "-r", os.path.join(HERE, "mpi4py.txt"), "-d", place]
    p = subprocess.run(argv, text=True, capture_output=True)
    if p.returncode:
        pytest.skip(f"mpi4py's source package is not to be had from PyPI: {p.stderr.strip().splitlines()[-1]}")
    archive, = (x for x in os.listdir(place) if x.endswith(".tar.gz"))
    with tarfile.open(os.path.join(place, archive)) as t:
        t.extractall(place)
    return os.path.join(place, archive.removesuffix(".tar.gz"))


def test_mpi4py(openmpi):
    program("mpirun.openmpi", "openmpi-bin")
    if subprocess.run([sys.executable, "-c", "import mpi4py"], capture_output=True).returncode:
        pytest.skip("mpi4py is not installed: the package python3-mpi4py; make test-long installs it")
    tests = os.path.join(source_of_mpi4py(), "test", "runtests.py")
    frames = []
    for preload in (False, True):
        # Give each rank a file, because mpirun mixes the ranks' output within lines.
        _, _, sent = run(openmpi, "sh", "-c", 'exec "$@" > said.$OMPI_COMM_WORLD_RANK 2>&1', "sh", sys.executable, tests,
                         "--no-builddir", *WITHOUT, preload=preload, ranks=RANKS_OF_TESTS)
        said = [pathlib.Path(openmpi.folder, f"said.{rank}").read_text() for rank in range(RANKS_OF_TESTS)]
        ran = [re.findall(r"^Ran (\d+) tests in .*\n\nOK\b", text, re.M) for text in said]
        assert len(ran[0]) == 1 and ran == ran[:1] * RANKS_OF_TESTS and not any(map(unserved, said)), said
        frames.append(sent)
    print(f"mpi4py: {ran[0][0]} tests, {frames[1]} frames, {frames[0]} without")
    assert frames[1] - frames[0] > 300 * RANKS_OF_TESTS

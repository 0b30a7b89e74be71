# SPDX-License-Identifier: GPL-2.0-only
"""Test the tree on arm64: a cross build without a warning, whose unit tests pass under qemu's user-mode emulation. The datapath runs in
an arm64 kernel in a virtual machine."""
import glob
import os
import re
import shutil
import subprocess

import pytest

import install
from lab import BUILD, TOP, setting

ARM = os.path.join(BUILD, "arm64")
CC, SKIP, NO_GUEST = "aarch64-linux-gnu-gcc", 77, 125
UNIT = [os.path.relpath(p, setting("B")) for p in setting("UNIT").split()]
# qemu-user lacks these system calls and socket options. Programs that need them run in the guest.
NEED_KERNEL = {"query/test_partition", "query/test_query_master", "test_fork", "test_group", "test_shards", "test_time", "test_udp"}
DEADLINES = {"test_time"}  # its deadlines are a second long, and an emulated machine takes longer
KERNEL = "6.1"  # a name in vm/kernels
IN_GUEST = ["uname -srm", "fpisa resources", "FPISA_CASES=64 FPISA_ROUNDS=1 tests/prog/test_ops",
            "FPISA_ROUNDS=1 tests/prog/query/test_query", "fpisa demo --workers 2 --vector 2000",
            *(f"FPISA_SLOW=10 tests/unit/{name}" for name in sorted(NEED_KERNEL - DEADLINES))]


@pytest.fixture(scope="module")
def sysroot():
    """Return the root of Debian's libraries for arm64. The tree is built with them."""
    for tool in CC, "qemu-aarch64":
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed; make test installs it")
    p = subprocess.run([os.path.join(TOP, "vm", "sysroot")], text=True, capture_output=True)
    if p.returncode == SKIP:
        pytest.skip(p.stdout.strip().removeprefix("skip: "))
    assert p.returncode == 0, p.stderr
    root = p.stdout.split()[-1]
    p = subprocess.run(["make", f"-j{os.cpu_count()}", "arm64", f"B={BUILD}", f"SYSROOT={root}"], cwd=TOP, text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")})
    assert p.returncode == 0, p.stdout[-4000:]
    assert not re.findall(r".*\bwarning: .*", p.stdout)
    return root


def emulated(root, *argv, **env):
    return subprocess.run(["qemu-aarch64", "-L", root, *argv], cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **env})


def test_built_for_arm64(sysroot):
    """Every program and library is built for arm64, and none for this machine."""
    for path in glob.glob(ARM + "/fpisa*") + glob.glob(ARM + "/lib*.so.*"):
        machine = re.search(r"Machine: +(.*)", subprocess.run(["readelf", "-h", path], text=True, capture_output=True).stdout)
        if machine:
            assert machine[1] == ("Linux BPF" if path.endswith(".o") else "AArch64"), path
    assert emulated(sysroot, ARM + "/fpisa", "--version").stdout == f"fpisa {setting('VERSION')}\n"


def test_library(sysroot, tmp_path):
    """A program runs against the shared library."""
    (tmp_path / "p.c").write_text(install.PROGRAM)
    subprocess.run([CC, "--sysroot=" + sysroot, "-Wall", "-Werror", "-I" + TOP + "/include", tmp_path / "p.c", "-o", tmp_path / "p", "-L" + ARM,
                    "-lfpisa"], check=True)
    p = emulated(sysroot, tmp_path / "p", QEMU_SET_ENV="LD_LIBRARY_PATH=" + ARM)
    assert (p.returncode, p.stdout.strip()) == (0, "1 2.5 -3 0 1e-30"), p.stdout


@pytest.mark.parametrize("name", [path.removeprefix("tests/unit/") for path in UNIT])
def test_unit(sysroot, name):
    if name in NEED_KERNEL:
        pytest.skip("qemu-user has not all of its system calls: test_kernel runs it (make test-long)")
    p = emulated(sysroot, os.path.join(ARM, "tests/unit", name))
    assert p.returncode == 0, p.stdout[-4000:]


def test_kernel(sysroot):
    """All objects load and sum, a demo runs over real packets, and the programs that qemu-user cannot run succeed in the guest."""
    p = subprocess.run([os.path.join(TOP, "vm", "arm64"), KERNEL, BUILD, *IN_GUEST], text=True, capture_output=True)
    if p.returncode == NO_GUEST:
        pytest.skip(p.stderr.strip())
    assert p.returncode == 0 and "PASS: " in p.stdout, p.stdout[-4000:] + p.stderr

# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: mounts of our own, a fresh BPF filesystem and a lab for each test."""
import os
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lab as labs  # noqa: E402

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE, MNT_DETACH = 16384, 1 << 18, 2


def mount(source, target, kind, flags=0):
    labs.must(labs.libc.mount(source, target, kind, flags, None), f"mount {target.decode()}")


@pytest.fixture(scope="session", autouse=True)
def mounts():
    """A mount namespace of our own, whoever started us; it ends with us."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    labs.must(labs.libc.unshare(CLONE_NEWNS), "unshare")
    mount(None, b"/", None, MS_REC | MS_PRIVATE)
    mount(b"tmpfs", b"/run", b"tmpfs")  # where xdp-loader has its lock


@pytest.fixture(autouse=True)
def bpffs(mounts):
    """Pins are global to a BPF filesystem: one for each test."""
    mount(b"bpf", labs.BPFFS.encode(), b"bpf")
    yield labs.BPFFS
    labs.must(labs.libc.umount2(labs.BPFFS.encode(), MNT_DETACH), "umount " + labs.BPFFS)


@pytest.fixture
def lab(bpffs):
    """lab(workers=2, ...) makes a Lab; it goes when the test ends."""
    made = []

    def make(*args, **kwargs):
        made.append(None)
        made[-1] = labs.Lab(*args, **kwargs)
        return made[-1]

    yield make
    for m in made:
        if m:
            m.close()

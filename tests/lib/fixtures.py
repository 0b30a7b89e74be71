# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: mounts of our own, a fresh BPF filesystem and a lab for each test."""
import os

import pytest

import lab as labs
import shared as shares

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE, MNT_DETACH = 16384, 1 << 18, 2


def mount(source, target, kind, flags=0, data=None):
    labs.must(labs.libc.mount(source, target, kind, flags, data), f"mount {target.decode()}")


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
    """Pins are global to a BPF filesystem: one for each test; root's, as systemd's is, but for users to look into."""
    mount(b"bpf", labs.BPFFS.encode(), b"bpf", data=b"mode=0755")
    yield labs.BPFFS
    labs.must(labs.libc.umount2(labs.BPFFS.encode(), MNT_DETACH), "umount " + labs.BPFFS)


@pytest.fixture(scope="session")
def shared(mounts):
    """What the first load of this session has made, for those after it."""
    return shares.Shared(lambda directory: mount(b"bpf", directory.encode(), b"bpf"))


@pytest.fixture
def lab(bpffs, shared, request):
    """lab(workers=2, ...) makes a Lab; it goes when the test ends. Of a test marked `cold` each load is a real one."""
    made, cold = [], request.node.get_closest_marker("cold")

    def make(*args, **kwargs):
        made.append(None)
        made[-1] = labs.Lab(*args, **kwargs)
        made[-1].shared = None if cold else shared
        return made[-1]

    yield make
    for m in made:
        if m:
            m.close()

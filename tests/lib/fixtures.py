# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: mounts of our own, a fresh BPF filesystem and a lab for each test."""
import os

import pytest

import lab as labs
import shared as shares
from groups import Groups


@pytest.fixture(scope="session", autouse=True)
def mounts():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    labs.own_mounts()
    labs.open_to_others(labs.TOP)
    labs.mount(b"tmpfs", "/run", b"tmpfs")  # where xdp-loader has its lock


@pytest.fixture(autouse=True)
def bpffs(mounts):
    """Pins are global to a BPF filesystem: one for each test; root's, as systemd's is, but for users to look into."""
    labs.mount(b"bpf", labs.BPFFS, b"bpf", data=b"mode=0755")
    yield labs.BPFFS
    labs.unmount(labs.BPFFS)


@pytest.fixture(scope="session")
def shared(mounts):
    """Objects that the first load of this session has made, for later loads."""
    return shares.Shared(lambda directory: labs.mount(b"bpf", directory, b"bpf"))


@pytest.fixture
def lab(bpffs, shared, request):
    """lab(workers=2, ...) makes a Lab; it goes when the test ends. In a test marked `cold` each load is a real one."""
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


@pytest.fixture
def groups(lab, tmp_path):
    """groups(workers, *config) makes a Lab with a datapath, loaded with the options `load` unless that is None, and a manager."""
    made = []

    def make(workers, *config, sections="", serve=True, load=()):
        net = lab(workers=workers)
        if load is not None:
            net.load(*load)
        made.append(Groups(net, str(tmp_path), *config, sections=sections))
        if serve:
            made[-1].serve()
        return made[-1]

    yield make
    for g in made:
        g.close()

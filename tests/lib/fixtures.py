# SPDX-License-Identifier: GPL-2.0-only
"""Give each test private mounts, a fresh BPF filesystem and a lab."""
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
    labs.mount(b"tmpfs", "/run", b"tmpfs")  # xdp-loader keeps its lock there


@pytest.fixture(autouse=True)
def bpffs(mounts):
    """Mount a BPF filesystem for each test, because pins are global in a filesystem. Like systemd's filesystem, it belongs to root, but
    users may read it."""
    labs.mount(b"bpf", labs.BPFFS, b"bpf", data=b"mode=0755")
    yield labs.BPFFS
    labs.unmount(labs.BPFFS)


@pytest.fixture(scope="session")
def shared(mounts):
    """Keep the objects of this session's first load for later loads."""
    return shares.Shared(lambda directory: labs.mount(b"bpf", directory, b"bpf"))


@pytest.fixture(scope="module")
def family(request):
    """Return the family of the lab's addresses, for tests with the mark `families` (netns/conftest.py)."""
    return getattr(request, "param", "ipv4")


@pytest.fixture
def lab(bpffs, shared, family, request):
    """Yield lab(workers=2, ...), which creates a Lab that lasts until the test ends. A test marked `cold` does not share loads."""
    made, cold = [], request.node.get_closest_marker("cold")

    def make(*args, **kwargs):
        made.append(None)
        made[-1] = labs.Lab(*args, **{"ipv6": family == "ipv6", **kwargs})
        made[-1].shared = None if cold else shared
        return made[-1]

    yield make
    for m in made:
        if m:
            m.close()


@pytest.fixture
def groups(lab, tmp_path):
    """Yield groups(workers, *config), which creates a Lab with a datapath and a manager. The datapath is loaded with the options `load`, or
    not at all if `load` is None."""
    made = []

    def make(workers, *config, sections="", serve=True, load=(), bridge=False):
        net = lab(workers=workers, bridge=bridge)
        if load is not None:
            net.load(*load)
        made.append(Groups(net, str(tmp_path), *config, sections=sections))
        if serve:
            made[-1].serve()
        return made[-1]

    yield make
    for g in made:
        g.close()

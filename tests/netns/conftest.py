# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: mounts of our own, a fresh BPF filesystem and a lab for each test."""
import os
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lab as labs  # noqa: E402
import shared as shares  # noqa: E402

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE, MNT_DETACH = 16384, 1 << 18, 2


MARKS = ("cold: each load is a real one (shared.py)",
         "alone: measures time or takes all CPUs, so nothing runs beside it",
         "long: a part of `make test-long`",
         "together: the tests of a file share something that takes long to make",
         "early: takes long, so it is begun first, lest others wait for it at the end")


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.get_closest_marker("early"))


def claimed(items, folder):
    """Of the tests those that no other process of this run has taken: functions with all of their cases, or files."""
    taken = {}
    for item in items:
        key = item.nodeid.split("::" if item.get_closest_marker("together") else "[")[0].replace("/", "+")
        if key not in taken:
            try:
                os.close(os.open(os.path.join(folder, key), os.O_CREAT | os.O_EXCL))
                taken[key] = True
            except FileExistsError:
                taken[key] = False
        if taken[key]:
            yield item


def pytest_runtestloop(session):
    """tests/run starts several of us, and $FPISA_CLAIMS is the folder where each says what it takes, when it does."""
    folder = os.environ.get("FPISA_CLAIMS")
    if not folder or session.testsfailed or session.config.option.collectonly:
        return None
    items = claimed(session.items, folder)
    item = next(items, None)
    while item:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail or session.shouldstop:
            raise (session.Failed if session.shouldfail else session.Interrupted)(session.shouldfail or session.shouldstop)
        item = following
    return True


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

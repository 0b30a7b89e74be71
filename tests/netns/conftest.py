# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for netns: marks, the tests that begin first, and the distribution of tests over processes"""
import os
import sys
import zlib

import pytest

sys.dont_write_bytecode = True
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, part) for part in ("lib", "interop")]

from fixtures import bpffs, family, groups, lab, mounts, shared  # noqa: E402, F401

MARKS = ("cold: each load is a real one (shared.py)",
         "alone: measures time or takes all CPUs, so nothing runs beside it",
         "long: a part of `make test-long`",
         "families(*names, spread, why): the lab's addresses are of these families, by default of both; spread=True: cases take turns; why: the "
         "reason for IPv4 alone",
         "together: the tests of a file share something that takes long to make",
         "early: takes long, so it is begun first, lest others wait for it at the end")


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


FAMILIES = ["ipv4", "ipv6"]
OVER_BOTH = "faults", "groups", "traffic"  # in these directories each test of a lab runs over both families or says why not


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("families")
    if mark and "family" in metafunc.fixturenames:
        metafunc.parametrize("family", mark.args or FAMILIES, indirect=True)


def has_family(item):
    """Return whether the item is a case of a family."""
    return hasattr(item, "callspec") and "family" in item.callspec.params


def check_families(items):
    """Fail if a test of a lab in one of these directories does not say over which families it runs."""
    for item in items:
        if item.path.parent.name in OVER_BOTH and "family" in item.fixturenames and not has_family(item):
            raise pytest.UsageError(f"{item.nodeid}: the mark families is missing")


def spread_families(items):
    """Give each case of a test with the mark families(spread=True) one family, in turn. The test's name decides which family begins. The
    other family of each case is a part of `make test-long`."""
    cases = {}
    for item in items:
        mark = item.get_closest_marker("families")
        if not mark or not mark.kwargs.get("spread") or not has_family(item):
            continue
        name = item.nodeid.split("[")[0]
        family = item.callspec.params["family"]
        case = cases.setdefault(name, {}).setdefault(str({**item.callspec.params, "family": None}), len(cases[name]))
        if (case + FAMILIES.index(family) + zlib.crc32(name.encode())) % 2:
            item.add_marker("long")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items):
    check_families(items)
    spread_families(items)
    items.sort(key=lambda item: not item.get_closest_marker("early"))


def claimed(items, folder):
    """Return the tests that no other process of this run has claimed. A test is claimed as a function with all its cases, or as a file."""
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
    """Run the tests. tests/run starts several processes, each of which records its claimed tests in the folder $FPISA_CLAIMS."""
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

# SPDX-License-Identifier: GPL-2.0-only
"""The version is stated once or agrees everywhere, and NEWS.md describes each release. Test release.py, and the tree."""
import hashlib
import os
import subprocess

import pytest

import release
from interfaces import TOP, news, read, setting
from lab import BUILD

NEXT = {"0.2.0": "Not released yet.\n\n- This.\n\n**API**\n\n- That.\n", "0.1.0": "Tag `v0.1.0`, 2026-01-02.\n\n- The first.\n"}


INSTALLED = "1d603f3c47db85b6f32d739d75fc220aee3118f24249eb6c53b27e81f8641977"  # the configuration file that is installed since 0.2.0


def test_configuration_that_packages_install():
    """If the text of the installed configuration changes, dpkg asks every user who has edited the file, and without a terminal the upgrade
    fails. Change the text only for a reason that NEWS.md states."""
    with open(os.path.join(TOP, "user", "system", "fpisa.conf"), "rb") as f:
        assert hashlib.sha256(f.read()).hexdigest() == INSTALLED


def test_tree():
    assert list(release.misstated(setting("VERSION"), read)) == []
    assert list(release.ill_begun(news())) == []


def test_source():
    """The built command, the library's file and the changelog of the packages follow the Makefile."""
    version = setting("VERSION")
    assert subprocess.run([os.path.join(BUILD, "fpisa"), "--version"], capture_output=True, text=True).stdout == f"fpisa {version}\n"
    assert os.path.isfile(os.path.join(BUILD, f"libfpisa.so.{version}"))
    made = subprocess.run(["make", "-n", "-C", TOP, "deb", "VERSION=7.8.9"], capture_output=True, text=True).stdout
    assert "fpisa (7.8.9) unstable" in made and not os.path.exists(os.path.join(TOP, "debian", "changelog"))
    assert "git tag -a v" in read("DEVELOPING.md") and "make release" in read("DEVELOPING.md")


@pytest.mark.parametrize("name", release.STATED)
def test_states_another(name):
    """The check names each file that states an earlier version or no version."""
    version = setting("VERSION")
    for text in read(name).replace(version, "0.0.9"), "":
        found = list(release.misstated(version, lambda n: text if n == name else read(n)))
        assert len(found) == 1 and found[0].startswith(name + ": states")


@pytest.mark.parametrize("change, said", [
    ({}, None),
    ({"0.2.0": "Tag `v0.2.0`, 2026-01-02.\n\n- This.\n"}, None),
    ({"0.2.0": "Tag `v0.2.1`, 2026-01-03.\n\n- This.\n"}, "0.2.0 begins with"),
    ({"0.2.0": "Tag `v0.2.0`, 3 May 2026.\n\n- This.\n"}, "0.2.0 begins with"),
    ({"0.2.0": "Tag `v0.2.0`, 2026-01-01.\n\n- This.\n"}, "an earlier day"),
    ({"0.2.0": "Not released yet.\n\n**API**\n\n- That.\n"}, "1 to 10 highlights"),
    ({"0.2.0": "Not released yet.\n\n" + "- This.\n" * 11}, "1 to 10 highlights"),
    ({"0.2.0": "Not released yet.\n\n- This\n  and that.\n"}, "1 to 10 highlights"),
    ({"0.2.0": "Not released yet.\n\n- " + "x" * 149 + "\n"}, "1 to 10 highlights"),
    ({"0.1.0": "Not released yet.\n\n- The first.\n"}, "0.1.0 begins with"),
    ({"0.1.0": None, "0.3.0": "Tag `v0.3.0`, 2026-01-04.\n\n- More.\n"}, "order of their versions")])
def test_head(change, said):
    found = list(release.ill_begun({v: t for v, t in {**NEXT, **change}.items() if t}))
    assert [said in f for f in found] == ([True] if said else [])


def test_head_at_a_release():
    """A release begins with its tag, so an unreleased section cannot be tagged."""
    assert ["0.2.0 begins with" in f for f in release.ill_begun(NEXT, releasing=True)] == [True]

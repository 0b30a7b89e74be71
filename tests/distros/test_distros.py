# SPDX-License-Identifier: GPL-2.0-only
"""Run README's commands on releases of Debian. Each release is a root directory that has only git and make; "native" is a clone on this
machine.

Each step continues from the previous step: the demo, the packages, suites of `make test`, the wheel with the first program of doc/sums.md,
and some tests of netns. table.py has the table of outcomes."""
import functools
import os
import re
import shutil
import subprocess
import tempfile

import pytest

import root as roots
import table
from lab import BUILD, TOP

RELEASES = os.environ.get("FPISA_RELEASES", "stable").split()  # tests/run names all releases, each as a program with its own time limit
# Tests of each way to load and to fan out, of an upgrade, and of other installed programs that these use
NETNS = "test_load[ or test_bpftool or test_upgrade_to or test_fanout[native or test_healthy or test_load_refusals or test_tags"
OLDER = {"stable": "oldstable", "testing": "stable"}
ROOT_ONLY = {"newest", "arm64", "rpm", "postgresql"}  # these steps install packages that this machine does not need
BUILDS = {"demo", "packages", "newest"}  # a release that changes each day runs only these steps
STEPS = {
    "demo": "make demo",
    "packages": "make deps && make deb",
    "newest": "tests/distros/packages.sh newest",
    "again": "tests/distros/packages.sh again",
    **{suite: f"make test SUITES={suite}" for suite in ("unit", "prog", "postgres", "mpi", "python", "package")},
    # Without Python's headers, run the page's first program from the wheel and from the source distribution.
    "wheel": "apt-get -qq update && apt-get -qq install -y --no-install-recommends gcc libc6-dev python3-pip python3-venv && make wheel && "
    "awk '/^```python/ {n++; next} /^```/ && n == 1 {exit} n == 1' doc/sums.md > /srv/page.py && grep -q '^import fpisa' /srv/page.py && "
    "for made in build/wheel/fpisa-*-py3-none-manylinux*.whl build/wheel/fpisa-*.tar.gz; do python3 -m venv --clear /srv/env && "
    "/srv/env/bin/pip install -q $made && (cd / && /srv/env/bin/python3 /srv/page.py) || exit; done",
    "netns": f"PYTEST_ADDOPTS='-k \"{NETNS}\"' make test SUITES=netns",
    "arm64": "tests/distros/packages.sh arm64",
    "rpm": "tests/distros/packages.sh rpm",
    "postgresql": "tests/distros/packages.sh postgresql $1 $2",
}


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    """Yield (the word for the release, its name, a function that runs a command in its root). The folder is removed afterwards."""
    if not shutil.which("mmdebstrap"):
        pytest.skip("mmdebstrap is not installed; make test installs it")
    place = tempfile.mkdtemp(dir=BUILD, prefix="root-")
    path = os.path.join(place, request.param)
    if request.param == "native":
        run = functools.partial(roots.beside, path)
    else:
        with roots.making(path, request.param, "minbase", ["ca-certificates", "git", "make"]):
            pass
        run = functools.partial(roots.inside, path)
    subprocess.run(["git", "clone", "-q", TOP, path + "/srv/fpisa"], check=True)
    _, name = run("sh", "-c", '. /etc/os-release; echo "$PRETTY_NAME"')
    yield request.param, f"{name.strip()}{', native' if request.param == 'native' else ''}", run
    shutil.rmtree(place)


@pytest.mark.parametrize("step", STEPS)
def test_release(release, step):
    word, name, run = release
    if step in ROOT_ONLY and word == "native" or step == "postgresql" and word not in OLDER:
        pytest.skip("not on this machine itself" if word == "native" else "the archive has no release before it")
    if word == "unstable" and step not in BUILDS:
        pytest.skip("it changes each day: README's commands and the newest compilers are tried")
    status, out = run("sh", "-c", "cd /srv/fpisa && " + STEPS[step], "sh", word, OLDER.get(word, ""))
    table.record(name, step, status, out)
    assert status == 0, out[-4000:]
    # Ignore messages that Debian's own packages print during their installation.
    assert not re.findall(r"^(?!update-alternatives: |dpkg: ).*\bwarning: .*", out, re.M)
    if step in ("demo", "newest"):
        assert "PASS: " in out

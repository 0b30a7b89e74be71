# SPDX-License-Identifier: GPL-2.0-only
"""README's commands on releases of Debian: each in a root directory that has only git and make, and "native" in a clone on this machine.

Each step continues from the step before it: the demo, the packages, suites of `make test`, the wheel with the first program of
doc/sums.md, netns in short. table.py has the table of outcomes."""
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

RELEASES = os.environ.get("FPISA_RELEASES", "oldstable stable testing").split()
# Each way to load and to fan out, an upgrade, and other installed programs that these use
NETNS = "test_load[ or test_bpftool or test_upgrade_to or test_fanout[native or test_healthy or test_load_refusals or test_tags"
STEPS = {
    "demo": "make demo",
    "packages": "make deps && make deb",
    "reproducible": "git clone -q . /srv/again && make -C /srv/again deb && cd build/deb && for f in *.deb; do cmp $f /srv/again/build/deb/$f || exit; done",
    **{suite: f"make test SUITES={suite}" for suite in ("unit", "prog", "postgres", "mpi", "python", "package")},
    # Without Python's headers: the page's first program, from the wheel and from the source distribution
    "wheel": "apt-get -qq update && apt-get -qq install -y --no-install-recommends gcc libc6-dev python3-pip python3-venv && make wheel && "
    "awk '/^```python/ {n++; next} /^```/ && n == 1 {exit} n == 1' doc/sums.md > /srv/page.py && grep -q '^import fpisa' /srv/page.py && "
    "for made in build/wheel/fpisa-*-py3-none-manylinux*.whl build/wheel/fpisa-*.tar.gz; do python3 -m venv --clear /srv/env && "
    "/srv/env/bin/pip install -q $made && (cd / && /srv/env/bin/python3 /srv/page.py) || exit; done",
    "netns": f"PYTEST_ADDOPTS='-k \"{NETNS}\"' make test SUITES=netns",
}


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    """Yield (the release's name, a function that runs a command there). The folder is removed afterwards."""
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
    yield f"{name.strip()}{', native' if request.param == 'native' else ''}", run
    shutil.rmtree(place)


@pytest.mark.parametrize("step", STEPS)
def test_release(release, step):
    name, run = release
    status, out = run("sh", "-c", "cd /srv/fpisa && " + STEPS[step])
    table.record(name, step, status, out)
    assert status == 0, out[-4000:]
    # Messages of Debian's own packages during their installation do not count.
    assert not re.findall(r"^(?!update-alternatives: |dpkg: ).*\bwarning: .*", out, re.M)
    if step == "demo":
        assert "PASS: " in out

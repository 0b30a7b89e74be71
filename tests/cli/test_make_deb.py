# SPDX-License-Identifier: GPL-2.0-only
"""`make deb` prints its current step, logs the other output, and ends with the build's status. tests/package tests the packages
themselves."""
import os
import subprocess

import pytest

from lab import TOP

BUILD = """#!/bin/sh
printf '   debian/rules override_dh_auto_build\\nmake[1]: a line of the build\\n   dh_strip\\n'
touch ../fpisa_9.9.9_amd64.deb
exit %d
"""


@pytest.mark.parametrize("status", [0, 1])
def test_steps(tmp_path, status):
    stub = tmp_path / "bin" / "dpkg-buildpackage"
    stub.parent.mkdir()
    stub.write_text(BUILD % status)
    stub.chmod(0o755)
    deb = tmp_path / "deb"
    p = subprocess.run(["make", "--no-print-directory", "deb", f"DEB={deb}", "VERSION=9.9.9"], cwd=TOP, text=True, capture_output=True,
                       env={**os.environ, "PATH": f"{stub.parent}:{os.environ['PATH']}"})
    steps = "  DEB     auto_build\n  DEB     strip\n"
    log = (deb / "build.log").read_text()
    assert "a line of the build" in log
    if status:
        assert p.returncode and p.stdout == steps + log
    else:
        assert p.returncode == 0 and p.stdout == steps + f"{deb}/fpisa_9.9.9_amd64.deb\n", p

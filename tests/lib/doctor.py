# SPDX-License-Identifier: GPL-2.0-only
"""Run `fpisa doctor` for its tests. Check its findings, and that the printed command removes each finding."""
import json
import os
import shutil

import pytest

from lab import BUILD, COMMAND_S, FPISA

needs_ethtool = pytest.mark.skipif(not shutil.which("ethtool"), reason="ethtool is not installed")
ENV = {**os.environ, "PATH": BUILD + ":" + os.environ["PATH"]}


def examine(ns, *argv, **options):
    """Return {(subject, check): finding} of `fpisa doctor`, after checking that the exit status and the counts agree with the findings."""
    status, out, err = ns.try_run(FPISA, "doctor", *argv, "--json", **options)
    report = json.loads(out)
    levels = [f["level"] for f in report["findings"]]
    assert all(levels.count(level) == report[level] for level in ("ok", "warn", "fault"))
    assert status == (1 if report["fault"] else 0), err
    found = {(f["subject"], f["check"]): f for f in report["findings"]}
    assert len(found) == len(levels) and not any(f["fix"] for f in found.values() if f["level"] == "ok")
    return found


def bad(found):
    return {key: f for key, f in found.items() if f["level"] != "ok"}


def fixes(ns, argv, subject, check, level="fault", says="", env=None, text=False):
    """Check that the finding is reported in JSON, and as text if `text`. Run its command, and check that the finding is gone. Return the
    command."""
    env = env or ENV
    f = examine(ns, *argv, env=env)[subject, check]
    assert f["level"] == level and says in f["text"], f
    if text:  # the text needs another trial load, so test it once for each level
        out = ns.try_run(FPISA, "doctor", *argv, env=env)[1]
        line, = [x for x in out.splitlines() if f" {subject}: {check}: " in x]
        assert line == f"{level:5}  {subject}: {check}: {f['text']}; fix: {f['fix']}"
    ns.run("sh", "-ec", f["fix"], env=env)
    assert (subject, check) not in bad(examine(ns, *argv, env=env))
    return f["fix"]


def inhabited(net):
    """Start a process in each worker's namespace, so that other processes can find the namespace."""
    for w in net.worker:
        w.spawn("sleep", "600")
    return net


def ethtool_gro(ns, dev, value):
    ns.run("ethtool", "-K", dev, "gro", value)


def sums(net, job, timeout_ms=1500, **options):
    """Return whether all ranks get the sum."""
    procs = [net.start(r, job, {"count": 500, "kind": "integers"}, timeout_ms=timeout_ms, **options)
             for r in range(len(net.worker))]
    return all([p.wait(COMMAND_S) == 0 for p in procs])

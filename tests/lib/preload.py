# SPDX-License-Identifier: GPL-2.0-only
"""Libraries that stand between a command and the kernel or libbpf."""
import os
import subprocess

from lab import FPISA

INTERRUPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "interrupt.c")


def library(source, directory):
    """The C file as a library for LD_PRELOAD, made in that directory: its path."""
    path = os.path.join(directory, os.path.basename(source).replace(".c", ".so"))
    if not os.path.exists(path):
        subprocess.run(["gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


def interrupted(ns, directory, step, nth, *argv):
    """`fpisa argv`, to which SIGTERM comes in the middle (interrupt.c has the steps): (status, stdout, stderr)."""
    return ns.try_run("env", "--default-signal=TERM", FPISA, *argv, env={
        **os.environ, "LD_PRELOAD": library(INTERRUPT, directory), "STEP": step, "NTH": str(nth)})

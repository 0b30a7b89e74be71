# SPDX-License-Identifier: GPL-2.0-only
"""Libraries that are preloaded between a command and the kernel or libbpf"""
import os
import subprocess

from lab import FPISA

INTERRUPT, SCARCE = (os.path.join(os.path.dirname(os.path.abspath(__file__)), name) for name in ("interrupt.c", "shortage.c"))


def library(source, directory):
    """Compile the C file as a library for LD_PRELOAD into that directory. Return its path."""
    path = os.path.join(directory, os.path.basename(source).replace(".c", ".so"))
    if not os.path.exists(path):
        subprocess.run(["gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


def interrupted(ns, directory, step, nth, *argv):
    """Run `fpisa argv` and send it SIGTERM at a step. interrupt.c lists the steps. Return (status, stdout, stderr)."""
    return ns.try_run("env", "--default-signal=TERM", FPISA, *argv, env={
        **os.environ, "LD_PRELOAD": library(INTERRUPT, directory), "STEP": step, "NTH": str(nth)})

# SPDX-License-Identifier: GPL-2.0-only
"""Functions that check.py and area.py share. The functions provide the tools, and run commands on all processors."""

import concurrent.futures
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
SKIP = 77
RTL = ["fpisa_pipeline.v", "banzai_alu.v", "banzai_raw.v", "fp32_add.v", "fp_mul.v"]


class Failed(Exception):
    pass


class Tools:
    """Unpack Debian's packages under BUILD/hw/root. Skip the run if they are not available."""

    def __init__(self, build):
        p = subprocess.run([os.path.join(HERE, "tools"), build], text=True, stdout=subprocess.PIPE)
        print(p.stdout, end="", flush=True)
        if p.returncode:
            sys.exit(p.returncode)
        self.out = os.path.join(os.path.abspath(build), "hw")
        self.root = os.path.join(self.out, "root")
        self.usr = os.path.join(self.root, "usr")
        self.verilator = os.path.join(self.usr, "share", "verilator")
        self.env = {**os.environ, "VERILATOR_ROOT": self.verilator, "LC_ALL": "C",
                    "PATH": os.path.join(self.usr, "bin") + ":" + os.environ.get("PATH", ""),
                    "LD_LIBRARY_PATH": ":".join(glob.glob(os.path.join(self.usr, "lib", "*-linux-gnu"))),
                    "TCL_LIBRARY": os.path.join(self.usr, "share", "tcltk", "tcl8.6")}

    def bin(self, name):
        return os.path.join(self.usr, "bin", name)

    def run(self, argv, cwd=HERE, timeout=1200):
        """Run a command. Return its exit status and the output of both streams. The caller decides whether the status is an
        error.
        """
        p = subprocess.run(argv, cwd=cwd, env=self.env, text=True, errors="replace", timeout=timeout,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return p.returncode, p.stdout

    def must(self, argv, cwd=HERE):
        status, out = self.run(argv, cwd)
        if status:
            raise Failed(f"{os.path.basename(argv[0])}: exit status {status}\n"
                         + "\n".join(out.splitlines()[-20:]))
        return out


def everywhere(jobs):
    """Run (function, arguments...) tuples on all processors. Return the results in the same order."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [pool.submit(f, *args) for f, *args in jobs]
        try:
            return [f.result() for f in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise

# SPDX-License-Identifier: GPL-2.0-only
"""Compile programs of Open MPI and MPICH, and run them in a namespace of a Lab, with or without the adapter of doc/mpi.md."""
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from lab import BUILD, COMMAND_S, SLOW, wait_until

MPIS = "openmpi", "mpich"
# MPICH's ranks do not yield their CPU while they wait. If other processes need the CPU, sweep.c takes two minutes, with or without the
# adapter.
LONGEST_S = 400 * SLOW
# A program with mpif.h passes arrays of several types to one routine.
COMPILER = {".c": ("mpicc",), ".f90": ("mpifort", "-fallow-argument-mismatch")}
# Allow more ranks than CPUs (for Open MPI 4, and for PRRTE, which starts the ranks of Open MPI 5), and allow root to run them. Let the
# sender move a large message, as it does between hosts.
OPENMPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
           "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none",
           "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def adapter(mpi):
    return os.path.join(BUILD, "mpi", mpi, "libfpisa-mpi.so")


def lacking(mpi, fortran=False):
    """Return the reason why programs of this MPI cannot be run here, or None."""
    for tool in (f"mpicc.{mpi}", f"mpirun.{mpi}", *([f"mpifort.{mpi}", "gfortran"] if fortran else [])):
        if not shutil.which(tool):
            return f"{tool} is not installed; make test installs it"
    if not os.path.exists(adapter(mpi)):
        return f"the adapter is not built for {mpi}; make mpi"
    return None


def compiled(mpi, source, folder):
    """Compile a program once in a folder. A second compilation could overwrite a program that mpirun is starting."""
    program = os.path.join(folder, f"{os.path.basename(source)}.{mpi}")
    if os.path.exists(program):
        return program
    compiler, *options = COMPILER[os.path.splitext(source)[1]]
    command = [f"{compiler}.{mpi}", "-O1", "-w", *options, source, "-o", program, "-lm"]
    p = subprocess.run(command, text=True, capture_output=True)
    assert p.returncode == 0, p.stderr
    return program


class Hosts:
    """Workers of a Lab that share a bridge. They act as hosts on which mpirun starts ranks, with a remote shell that enters the network
    namespaces."""

    def __init__(self, net, folder, ranks_each=1):
        self.net, self.each, self.space = net, ranks_each, getattr(net, "switch", net.spaces[-1])
        self.network = ipaddress.ip_network(f"{net.addresses[0]}/24", strict=False)
        self.address = self.network[254]
        self.space.ip(f"addr replace {self.address}/24 dev br0")
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w") as f:
            f.write("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\ncase $host in\n")
            for r, (address, w) in enumerate(zip(net.addresses, net.worker)):
                f.write(f'{address}) exec nsenter --net={w.path} unshare --uts sh -c "hostname w{r}; $*" ;;\n')
            f.write("esac\nexit 1\n")
        os.chmod(self.agent, 0o700)

    def options(self, mpi, folder):
        """Return options of mpirun. With one rank on each host, use only TCP, because hosts do not share memory."""
        if mpi == "mpich":
            apart = ["-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"] if self.each == 1 else []
            return ["-launcher", "rsh", "-launcher-exec", self.agent, "-localhost", self.address, "-hosts",
                    ",".join(self.net.addresses), "-ppn", self.each, *apart]
        mca = {"plm_rsh_agent": self.agent, "plm_rsh_no_tree_spawn": 1, "oob_tcp_if_include": self.network,
               "btl_tcp_if_include": self.network, "pml": "ob1", "orte_tmpdir_base": folder,
               "btl": "tcp,self" + (",vader" if self.each > 1 else "")}
        # Without this, PRRTE may oversubscribe the first host and start all ranks there.
        return ["--host", ",".join(f"{a}:{self.each}" for a in self.net.addresses), "--map-by", f"ppr:{self.each}:node:oversubscribe",
                *(x for k, v in mca.items() for x in ("--mca", k, v))]


def command(mpi, ranks, folder, program, *argv, preload=True, hosts=None, options=(), **env):
    """Return mpirun's argv and environment. Ranks run on `hosts` if given, else where mpirun is started. preload: True for the adapter, or
    the path of another library."""
    env = {k: str(v) for k, v in env.items()}
    if preload:
        env["LD_PRELOAD"] = adapter(mpi) if preload is True else preload
    pass_on = [x for k, v in env.items() for x in (("-x", f"{k}={v}") if mpi == "openmpi" else ("-genv", k, v))]
    own = {k: v for k, v in os.environ.items() if not k.startswith("FPISA_")}
    where = hosts.options(mpi, folder) if hosts else []
    return [f"mpirun.{mpi}", "-n", ranks, *where, *options, *pass_on, program, *argv], {**own, **OPENMPI, "TMPDIR": folder}


def run(host, mpi, *rest, **more):
    """Run mpirun in a namespace. It must succeed. Return (stdout, stderr)."""
    argv, env = command(mpi, *rest, **more)
    status, out, err = host.try_run(*argv, env=env, timeout_s=LONGEST_S)
    assert status == 0, f"mpirun.{mpi}: status {status}\n{out}{err}"
    return out, err


def no_clean_up(mpi):
    """Return the options of mpirun with which the other ranks continue when a rank has died."""
    if mpi == "mpich":
        return ["-disable-auto-cleanup"]
    said = subprocess.run(["mpirun.openmpi", "--version"], text=True, capture_output=True).stdout
    # With --enable-recovery, Open MPI 5 ends the ranks of other hosts when rank 0 dies.
    return ["--enable-recovery"] if ") 4." in said else ["--with-ft", "ulfm"]


def begin(c, ranks, how, *shell, **env):
    """Start loop.c on all ranks of a cluster, optionally each rank in a shell. Return the process of mpirun, the processes of the ranks,
    and the folder for their last output."""
    folder = tempfile.mkdtemp(dir=c.folder)
    argv = *shell, c.compiled("loop.c"), how, os.path.join(folder, "end")
    p = c.start(ranks, *argv, options=no_clean_up(c.mpi), **env)
    return p, {a["rank"]: a["pid"] for a in (json.loads(p.stdout.readline()) for _ in range(ranks))}, folder


def ends(folder, p, ranks):
    """Return the last output of these ranks, and the output of mpirun. MPICH's mpirun may end before the ranks."""
    out, err = p.communicate(timeout=COMMAND_S)
    paths = [os.path.join(folder, f"end.{r}") for r in ranks]
    wait_until("the ranks' ends", lambda: all(os.path.exists(path) for path in paths), COMMAND_S)
    answers = []
    for path in paths:
        with open(path) as f:
            answers.append(json.load(f))
    return answers, f"mpirun: status {p.returncode}\n{out}{err}"


def kill_one(c, ranks, how, victim, *shell):
    """Kill one rank of loop.c. Return the seconds until all other ranks have reported its name."""
    p, pids, folder = begin(c, ranks, how, *shell)
    killed = time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    answers, _ = ends(folder, p, {*range(ranks)} - {victim})
    assert all(f"rank {victim} is gone: " in a["error"] for a in answers), answers
    return max(a["at"] for a in answers) - killed

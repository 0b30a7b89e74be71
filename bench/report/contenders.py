# SPDX-License-Identifier: GPL-2.0-only
"""Contenders as results have them, and as pictures and pages call them."""
NAMES = {
    "fpisa": "FPISA",
    "fpisa-hook": "FPISA, hook",
    "fpisa-openmpi": "FPISA, in Open MPI",
    "fpisa-mpich": "FPISA, in MPICH",
    "openmpi": "Open MPI",
    "mpich": "MPICH",
    "gloo": "Gloo",
    "switchml": "SwitchML-style",
}

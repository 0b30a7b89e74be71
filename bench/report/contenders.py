# SPDX-License-Identifier: GPL-2.0-only
"""Names of contenders in results, pictures and pages."""
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

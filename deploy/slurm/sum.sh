#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#SBATCH --job-name=sum --nodes=4 --ntasks-per-node=1
# sbatch sum.sh regression.py: run a program of adapters/python/examples with one rank on each node.
set -eu
. /etc/fpisa/slurm.conf
export FPISA_MANAGER FPISA_KEY=/run/fpisa/$SLURM_JOB_ID/keys
srun sh -c 'exec python3 "$1" "$FPISA_MANAGER" "job-$SLURM_JOB_ID" "$SLURM_PROCID" "$SLURM_NTASKS"' sh "$1"

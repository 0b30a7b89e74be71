#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#SBATCH --job-name=train --nodes=4 --ntasks-per-node=1
# sbatch train.sh ddp.py --mode exact: train with torchrun, one rank on each node. The prolog has installed the key.
set -eu
. /etc/fpisa/slurm.conf
export FPISA_MANAGER FPISA_KEY=/run/fpisa/$SLURM_JOB_ID/keys
master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun sh -c 'exec torchrun --nnodes="$SLURM_NNODES" --nproc_per_node=1 --node_rank="$SLURM_NODEID" --master_addr='"$master"' "$@"' sh "$@"

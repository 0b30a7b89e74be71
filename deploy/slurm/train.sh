#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#SBATCH --job-name=train --nodes=4 --ntasks-per-node=1
# sbatch train.sh ddp.py --mode exact: a training by torchrun, a rank a node; prolog has put the key there.
set -eu
. /etc/fpisa/slurm.conf
export FPISA_MANAGER FPISA_KEY=/run/fpisa/$SLURM_JOB_ID/keys
master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun sh -c 'exec torchrun --nnodes="$SLURM_NNODES" --nproc_per_node=1 --node_rank="$SLURM_NODEID" --master_addr='"$master"' "$@"' sh "$@"

/* SPDX-License-Identifier: GPL-2.0-only */
/* Generations of jobs. */
#ifndef FPISA_DATAPATH_GENERATION_H
#define FPISA_DATAPATH_GENERATION_H

#include "fpisa/job.h"

/*
 * Seed the number of the next generation from the clock, so that no number is repeated when the datapath is loaded
 * again.
 */
void generations_seed(struct fpisa_control *control);

#endif

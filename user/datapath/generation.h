/* SPDX-License-Identifier: GPL-2.0-only */
/* Generations of jobs. */
#ifndef FPISA_DATAPATH_GENERATION_H
#define FPISA_DATAPATH_GENERATION_H

#include "fpisa/job.h"

/* They go on from the clock, so that none comes back when the datapath is loaded anew. */
void generations_seed(struct fpisa_control *control);

#endif

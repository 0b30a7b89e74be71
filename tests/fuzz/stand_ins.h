/* SPDX-License-Identifier: GPL-2.0-only */
/* Stand-ins for the layers below the verbs, for fuzzing their parsers */
#ifndef FPISA_FUZZ_STAND_INS_H
#define FPISA_FUZZ_STAND_INS_H

#include <stdbool.h>
#include <stdlib.h>
#include "check.h"

/* If set, datapath_open() succeeds. A verb may then create a job, which must be valid for datapath_job_add(). */
extern bool stand_in_opens;

#endif

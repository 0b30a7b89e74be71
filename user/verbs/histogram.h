/* SPDX-License-Identifier: GPL-2.0-only */
/* A job's histogram of discarded magnitudes for people and for programs. */
#ifndef FPISA_HISTOGRAM_H
#define FPISA_HISTOGRAM_H

#include "fpisa/discard.h"
#include "fpisa/job.h"

struct json_object;

/* A line for each bucket that is not empty. */
void histogram_print(const struct fpisa_histogram *h, const struct fpisa_job *j);

/* The same as an array of {exponent, adds}. */
struct json_object *histogram_json(const struct fpisa_histogram *h, const struct fpisa_job *j);

#endif

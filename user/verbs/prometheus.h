/* SPDX-License-Identifier: GPL-2.0-only */
/* Counters in Prometheus' text format, for `fpisa stats --prometheus`. */
#ifndef FPISA_PROMETHEUS_H
#define FPISA_PROMETHEUS_H

#include "datapath/datapath.h"

/*
 * Writes job `job`, or all jobs, frames of no job and the manager of groups, where one
 * has run, if it is negative, to `file`, or to stdout if that is NULL. A file appears whole or not at all:
 * it is written beside its place and moved there. Reports errors.
 */
int prometheus_write(struct datapath *dp, int job, const char *file);

#endif

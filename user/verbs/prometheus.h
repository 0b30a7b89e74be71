/* SPDX-License-Identifier: GPL-2.0-only */
/* Counters in Prometheus' text format, for `fpisa stats --prometheus` */
#ifndef FPISA_PROMETHEUS_H
#define FPISA_PROMETHEUS_H

#include "datapath/datapath.h"

/*
 * Write job `job` to `file`, or to stdout if that is NULL. If `job` is negative, write all jobs, frames of no job and,
 * if a manager of groups has run, the manager. A file appears whole or not at all: it is written under a temporary name
 * and renamed. Report errors.
 */
int prometheus_write(struct datapath *dp, int job, const char *file);

#endif

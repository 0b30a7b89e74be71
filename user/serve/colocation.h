/* SPDX-License-Identifier: GPL-2.0-only */
/* Preparation for `fpisa serve --colocated`, on a host that is the aggregator of its own ranks. */
#ifndef FPISA_SERVE_COLOCATION_H
#define FPISA_SERVE_COLOCATION_H

#include "config/config.h"

/* The interfaces on which this process has loaded the datapath. */
struct colocated {
	char *dev[2];
	int n;
};

/*
 * Load the datapath, by [datapath] of the file, in generic mode, unless it is loaded already or the file has no
 * `colocated`. The interfaces are those of `colocated` in [manager], and `lo`. The datapath stays loaded when this
 * process ends. Return 0, or report an error and return a negative errno.
 */
int colocate(const struct config *c, const char *pin, struct colocated *loaded);

/* Unload the datapath again, because this process cannot serve. Report an error, if any. */
void colocate_undo(const struct colocated *loaded, const char *pin);

#endif

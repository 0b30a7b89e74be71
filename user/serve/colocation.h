/* SPDX-License-Identifier: GPL-2.0-only */
/* Preparation of a host whose ranks and aggregator are one machine, before `fpisa serve --colocated` serves. */
#ifndef FPISA_SERVE_COLOCATION_H
#define FPISA_SERVE_COLOCATION_H

#include "config/config.h"

/* The interfaces that this process has loaded the datapath on */
struct colocated {
	char *dev[2];
	int n;
};

/*
 * Load the datapath, by [datapath] of the file, in generic mode, unless it is loaded already or the file has no
 * `colocated`. The interfaces are [manager]'s `colocated` and `lo`. It stays loaded when this process ends. Return 0 or
 * -errno, reported.
 */
int colocate(const struct config *c, const char *pin, struct colocated *loaded);

/* Take the datapath off again, because this process cannot serve. An error is reported. */
void colocate_undo(const struct colocated *loaded, const char *pin);

#endif

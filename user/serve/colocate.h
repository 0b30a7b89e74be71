/* SPDX-License-Identifier: GPL-2.0-only */
/* Preparation of a host whose ranks and aggregator are one machine, before `fpisa serve --colocated` serves. */
#ifndef FPISA_SERVE_COLOCATE_H
#define FPISA_SERVE_COLOCATE_H

#include "config/config.h"

/*
 * Load the datapath, by [datapath] of the file, in generic mode, unless it is loaded already. The interfaces are
 * [manager]'s `colocated` and `lo`. It stays loaded when this process ends. Return 0 or -errno, reported.
 */
int colocate(const struct config *c, const char *pin);

#endif

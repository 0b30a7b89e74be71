/* SPDX-License-Identifier: GPL-2.0-only */
/* Resources of objects that are loaded over the maps of fpisa.o. */
#ifndef FPISA_DATAPATH_RESOURCES_H
#define FPISA_DATAPATH_RESOURCES_H

#include "datapath.h"

struct bpf_object;

/*
 * Load an opened object over the maps of `base`, add its programs and its other maps to *r, and close it. If the object
 * is NULL, opening it has failed and the error has been reported. `what` and `name` identify the object in messages,
 * and `name` is the family.
 */
int resources_measure(struct bpf_object *base, struct bpf_object *o, const char *what, const char *name,
		      struct datapath_resources *r);

#endif

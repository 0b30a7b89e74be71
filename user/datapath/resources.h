/* SPDX-License-Identifier: GPL-2.0-only */
/* Costs of objects that are loaded over the maps of fpisa.o. */
#ifndef FPISA_DATAPATH_RESOURCES_H
#define FPISA_DATAPATH_RESOURCES_H

#include "datapath.h"

struct bpf_object;

/*
 * Loads an opened object (NULL: its opener has reported an error) over the maps of `base`, adds its programs and its other maps to
 * *r, and closes it. `what` and `name` say on a terminal which it is; name is the family.
 */
int resources_measure(struct bpf_object *base, struct bpf_object *o, const char *what, const char *name,
		      struct datapath_resources *r);

#endif

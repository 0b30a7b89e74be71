/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_VERBS_RESOURCES_H
#define FPISA_VERBS_RESOURCES_H

#include "datapath/datapath.h"

/* The whole of a verb that prints what `measure` finds, as text or JSON. */
int resources_verb(const char *verb, int (*measure)(struct datapath_resources *r), int argc, char **argv);

#endif

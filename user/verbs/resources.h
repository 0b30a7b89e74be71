/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_VERBS_RESOURCES_H
#define FPISA_VERBS_RESOURCES_H

#include "datapath/datapath.h"

/* Run a verb that prints the result of `measure` as text or JSON. */
int resources_verb(const char *verb, int (*measure)(struct datapath_resources *r), int argc, char **argv);

#endif

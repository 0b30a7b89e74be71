/* SPDX-License-Identifier: GPL-2.0-only */
/* The options of fpisa load, for the verb and for the configuration file. */
#ifndef FPISA_CONFIG_LOAD_H
#define FPISA_CONFIG_LOAD_H

#include <getopt.h>

#include "datapath/datapath.h"

struct common;

/* From OPT_VERB on an option is load's, below one of every verb. */
extern const struct option load_options[];

/* Takes one option as getopt_long() leaves it: its argument in optarg. 0, BAD_USAGE or -errno. */
int load_option(struct datapath_load *o, int opt, struct common *c);

#endif

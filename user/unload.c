// SPDX-License-Identifier: GPL-2.0-only
/* fpisa unload [DEV...] */
#include <stdio.h>

#include "cli.h"
#include "datapath.h"

int verb_unload(int argc, char **argv)
{
	static const struct option options[] = { COMMON_OPTIONS, { 0 } };
	struct common c = COMMON_INIT;
	bool removed;
	int opt, err;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (common_option(&c, opt))
			return BAD_USAGE;
	err = datapath_unload(c.pin, argv + optind, argc - optind, &removed);
	if (!err && removed && optind < argc)
		puts("last interface detached: datapath and its jobs removed");
	return err;
}

// SPDX-License-Identifier: GPL-2.0-only
/* fpisa upgrade */
#include <stddef.h>

#include "cli/options.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "verbs.h"

int verb_upgrade(int argc, char **argv)
{
	static const struct option options[] = { COMMON_OPTIONS, { 0 } };
	struct common c = COMMON_INIT;
	int opt;

	while ((opt = next_option(argc, argv, options)) != -1)
		if (common_option(&c, opt))
			return BAD_USAGE;
	if (optind < argc)
		return refuse(BAD_USAGE, "upgrade: what is '%s'?", argv[optind]);
	return datapath_upgrade(c.pin);
}

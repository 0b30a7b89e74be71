// SPDX-License-Identifier: GPL-2.0-only
/* fpisa upgrade */
#include <stddef.h>

#include "cli/options.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "verbs.h"

int verb_upgrade(int argc, char **argv)
{
	struct common c = COMMON_INIT;

	if (bare_options(&c, argc, argv))
		return BAD_USAGE;
	if (optind < argc)
		return refuse(BAD_USAGE, "upgrade: what is '%s'?", argv[optind]);
	return datapath_upgrade(c.pin);
}

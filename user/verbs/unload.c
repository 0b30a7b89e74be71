// SPDX-License-Identifier: GPL-2.0-only
/* fpisa unload [DEV...] */
#include <stdio.h>

#include "cli/options.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "verbs.h"

int verb_unload(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct datapath_unloaded u;
	int err;

	if (bare_options(&c, argc, argv))
		return BAD_USAGE;
	err = datapath_unload(c.pin, argv + optind, argc - optind, &u);
	if (!err && u.removed && optind < argc)
		puts("last interface detached: datapath and its jobs removed");
	if (!err && *u.elsewhere.dev)
		printf("detached in this network namespace; datapath and jobs stay, for they run on %s of another; "
		       "%sfpisa unload%s%s\n",
		       u.elsewhere.dev, u.elsewhere.enter, c.pin ? " --pin " : "", c.pin ?: "");
	else if (!err && u.elsewhere.hidden && !u.removed)
		printf("detached in this network namespace; datapath and jobs stay, for they may run in those of processes that "
		       "do not let this one look; run fpisa unload%s%s with CAP_SYS_PTRACE\n",
		       c.pin ? " --pin " : "", c.pin ?: "");
	return err;
}

// SPDX-License-Identifier: GPL-2.0-only
/* fpisa unload [DEV...] */
#include <json-c/json.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "verbs.h"

int verb_unload(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct datapath_unloaded u;
	struct json_object *o;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	err = datapath_unload(c.pin, argv + optind, argc - optind, &u);
	if (!err)
		note_done("unload");
	if (!err && c.json) {
		o = json_done("unload");
		json_object_object_add(o, "removed", json_object_new_boolean(u.removed));
		json_add_string(o, "elsewhere", *u.elsewhere.dev ? u.elsewhere.dev : NULL);
		return print_json(o, false);
	}
	if (!err && u.removed && optind < argc)
		puts("the last interface is detached, and the datapath and its jobs are removed");
	if (!err && *u.elsewhere.dev)
		printf("detached in this network namespace; the datapath and its jobs stay, because they run on %s of "
		       "another; run %sfpisa unload%s%s\n",
		       u.elsewhere.dev, u.elsewhere.enter, c.pin ? " --pin " : "", c.pin ?: "");
	else if (!err && u.elsewhere.hidden && !u.removed)
		printf("detached in this network namespace; the datapath and its jobs stay, because they may run in "
		       "namespaces that this process cannot inspect; with CAP_SYS_PTRACE, run fpisa unload%s%s\n",
		       c.pin ? " --pin " : "", c.pin ?: "");
	return err;
}

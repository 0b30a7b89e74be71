// SPDX-License-Identifier: GPL-2.0-only
/* fpisa upgrade */
#include <stddef.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "verbs.h"

int verb_upgrade(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	int err;

	if (common_options(&c, argc, argv) || no_operands("upgrade", argc, argv))
		return BAD_USAGE;
	err = datapath_upgrade(c.pin);
	return err || !c.json ? err : print_json(json_done("upgrade"), false);
}

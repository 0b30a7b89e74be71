// SPDX-License-Identifier: GPL-2.0-only
/* fpisa load DEV... */
#include <stdio.h>

#include "cli.h"
#include "datapath.h"

static const struct name modes[] = { { DATAPATH_NATIVE, "native" }, { DATAPATH_SKB, "skb" }, { 0 } };

enum { OPT_MODE = OPT_VERB, OPT_PORT };

int verb_load(int argc, char **argv)
{
	static const struct option options[] = { { "mode", required_argument, NULL, OPT_MODE },
						 { "port", required_argument, NULL, OPT_PORT },
						 COMMON_OPTIONS,
						 { 0 } };
	struct datapath_load o = { .mode = DATAPATH_NATIVE };
	struct common c = COMMON_INIT;
	int opt, err = 0, mode = o.mode;
	uint64_t port = 0;

	while (!err && (opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == OPT_MODE)
			err = parse_name("--mode", optarg, modes, &mode);
		else if (opt == OPT_PORT)
			err = parse_number("--port", optarg, 1, 65535, &port);
		else
			err = common_option(&c, opt);
	}
	if (err)
		return err;
	if (optind == argc)
		return refuse(BAD_USAGE, "load: name at least one interface");
	o.pin = c.pin;
	o.mode = mode;
	o.port = port;
	return datapath_load(&o, argv + optind, argc - optind);
}

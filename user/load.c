// SPDX-License-Identifier: GPL-2.0-only
/* fpisa load DEV... */
#include <errno.h>
#include <grp.h>
#include <stdio.h>

#include "cli.h"
#include "datapath.h"

static const struct name modes[] = { { DATAPATH_NATIVE, "native" }, { DATAPATH_SKB, "skb" }, { 0 } };

enum { OPT_MODE = OPT_VERB, OPT_PORT, OPT_GROUP };

/* By name or number. */
static int parse_group(const char *s, gid_t *group)
{
	const struct group *g = getgrnam(s);
	uint64_t number;
	int err;

	if (g) {
		*group = g->gr_gid;
		return 0;
	}
	if (*s < '0' || *s > '9')
		return refuse(-ENOENT, "--group: no group '%s'; groupadd %s", s, s);
	err = parse_number("--group", s, 0, UINT32_MAX - 1ull, &number);
	*group = err ? DATAPATH_NO_GROUP : (gid_t)number;
	return err;
}

int verb_load(int argc, char **argv)
{
	static const struct option options[] = { { "mode", required_argument, NULL, OPT_MODE },
						 { "port", required_argument, NULL, OPT_PORT },
						 { "group", required_argument, NULL, OPT_GROUP },
						 COMMON_OPTIONS,
						 { 0 } };
	struct datapath_load o = { .mode = DATAPATH_NATIVE, .group = DATAPATH_NO_GROUP, .drop = true };
	struct common c = COMMON_INIT;
	int opt, err = 0, mode = o.mode;
	uint64_t port = 0;

	while (!err && (opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == OPT_MODE)
			err = parse_name("--mode", optarg, modes, &mode);
		else if (opt == OPT_PORT)
			err = parse_number("--port", optarg, 1, 65535, &port);
		else if (opt == OPT_GROUP)
			err = parse_group(optarg, &o.group);
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

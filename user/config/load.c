// SPDX-License-Identifier: GPL-2.0-only
/* The options of fpisa load, which are also keys of a configuration file. */
#include <errno.h>
#include <grp.h>
#include <stddef.h>

#include "cli/names.h"
#include "config.h"

enum { OPT_MODE = OPT_VERB, OPT_PORT, OPT_SLOTS, OPT_GROUP, OPT_CPUS, OPT_QUEUE };

/* Parse a Unix group, by name or number. */
static int parse_group(const char *s, gid_t *group)
{
	const struct group *g = getgrnam(s);
	uint64_t number;
	int err;

	if (g) {
		*group = g->gr_gid;
		return 0;
	}
	if (!*s || *s == '-')
		return refuse(BAD_USAGE, "--group: '%s' is neither the name nor the number of a Unix group", s);
	if (*s < '0' || *s > '9')
		return refuse(-ENOENT, "--group: the Unix group '%s' does not exist; run groupadd %s", s, s);
	err = parse_number("--group", s, 0, UINT32_MAX - 1ull, &number);
	*group = err ? DATAPATH_NO_GROUP : (gid_t)number;
	return err;
}

const struct option load_options[] = {{"mode", required_argument, NULL, OPT_MODE},
				      {"port", required_argument, NULL, OPT_PORT},
				      {"slots", required_argument, NULL, OPT_SLOTS},
				      {"group", required_argument, NULL, OPT_GROUP},
				      {"cpus", required_argument, NULL, OPT_CPUS},
				      {"cpu-queue", required_argument, NULL, OPT_QUEUE},
				      COMMON_OPTIONS,
				      JSON_OPTION,
				      {0}};

int load_option(struct datapath_load *o, int opt, struct common *c)
{
	int err, mode = o->mode;
	uint64_t number = 0;

	switch (opt) {
	case OPT_MODE:
		err = parse_name("--mode", optarg, attach_mode_names, &mode);
		o->mode = mode;
		return err;
	case OPT_PORT:
		err = parse_number("--port", optarg, 1, 65535, &number);
		o->port = number;
		return err;
	case OPT_SLOTS:
		err = parse_number("--slots", optarg, FPISA_LEAST_SLOTS, FPISA_MAX_SLOTS, &number);
		o->slots = number;
		return err;
	case OPT_GROUP:
		return parse_group(optarg, &o->group);
	case OPT_CPUS:
		return parse_cpus("--cpus", optarg, o->steering.cpu, FPISA_STEER_CPUS, &o->steering.cpus);
	case OPT_QUEUE:
		err = parse_number("--cpu-queue", optarg, 1, FPISA_STEER_MAX_QUEUE, &number);
		o->steering.queue = number;
		return err;
	}
	return common_option(c, opt);
}

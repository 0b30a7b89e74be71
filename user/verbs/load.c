// SPDX-License-Identifier: GPL-2.0-only
/* fpisa load DEV... */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "host/veth.h"
#include "load.h"
#include "verbs.h"

enum { OPT_MODE = OPT_VERB, OPT_PORT, OPT_GROUP, OPT_CPUS, OPT_QUEUE };

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
	if (!*s || *s == '-')
		return refuse(BAD_USAGE, "--group: '%s' is neither a group nor a number", s);
	if (*s < '0' || *s > '9')
		return refuse(-ENOENT, "--group: no group '%s'; groupadd %s", s, s);
	err = parse_number("--group", s, 0, UINT32_MAX - 1ull, &number);
	*group = err ? DATAPATH_NO_GROUP : (gid_t)number;
	return err;
}

const struct option load_options[] = { { "mode", required_argument, NULL, OPT_MODE },
				       { "port", required_argument, NULL, OPT_PORT },
				       { "group", required_argument, NULL, OPT_GROUP },
				       { "cpus", required_argument, NULL, OPT_CPUS },
				       { "cpu-queue", required_argument, NULL, OPT_QUEUE },
				       COMMON_OPTIONS,
				       { 0 } };

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

/* Loading gives up the privileges by which peers are looked at: first look, then warn of what then runs. */
static int load(const struct datapath_load *o, char *const *devs, int n)
{
	struct veth_peer *peer = calloc(n, sizeof(*peer));
	struct link *link = calloc(n, sizeof(*link));
	int err = peer && link ? 0 : fail(-ENOMEM, NULL, "load");

	for (int i = 0; !err && i < n; i++)
		if (!link_get(if_nametoindex(devs[i]), &link[i]))
			veth_look(&link[i], &peer[i]);
	if (!err)
		err = datapath_load(o, devs, n);
	for (int i = 0; !err && o->mode == DATAPATH_NATIVE && i < n; i++)
		veth_warn(&link[i], &peer[i]);
	free(peer);
	free(link);
	return err;
}

int verb_load(int argc, char **argv)
{
	struct datapath_load o = { .mode = DATAPATH_NATIVE, .group = DATAPATH_NO_GROUP, .drop = true };
	struct common c = COMMON_INIT;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, load_options)) != -1)
		err = load_option(&o, opt, &c);
	if (err)
		return err;
	if (optind == argc)
		return refuse(BAD_USAGE, "load: name at least one interface");
	if (o.steering.queue && !o.steering.cpus)
		return refuse(BAD_USAGE, "load: --cpu-queue goes with --cpus");
	o.pin = c.pin;
	return load(&o, argv + optind, argc - optind);
}

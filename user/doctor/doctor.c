// SPDX-License-Identifier: GPL-2.0-only
/* fpisa doctor [DEV...]: what this machine can do, what is wrong, the command that fixes it. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "cli/options.h"
#include "doctor.h"

/* Every interface that a datapath could be loaded on. */
static void all_devices(struct doctor *d)
{
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *i = all; i && i->if_index; i++)
		if (strcmp(i->if_name, "lo"))
			doctor_device(d, i->if_name, false);
	if (all)
		if_freenameindex(all);
}

static void open_datapath(struct doctor *d, struct datapath *dp)
{
	d->dp_err = datapath_pinned(d->pin, d->dir);
	if (!d->dp_err)
		d->dp_err = datapath_open(dp, d->pin);
	d->dp = d->dp_err ? NULL : dp;
}

enum { OPT_WORKER = OPT_VERB };

int verb_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{ "worker", required_argument, NULL, OPT_WORKER }, COMMON_OPTIONS, JSON_OPTION, { 0 }
	};
	struct common c = COMMON_INIT;
	struct doctor d = { 0 };
	struct datapath dp;
	__u32 ifindex[DATAPATH_MAX_INTERFACES];
	__be32 aggregator = 0;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1)
		err = opt == OPT_WORKER ? parse_machine("--worker", optarg, &aggregator)
					: common_option(&c, opt);
	if (err)
		return err;
	err = find_interfaces(argv + optind, argc - optind, ifindex);
	if (err)
		return err;
	d.pin = c.pin;
	d.found = c.json ? json_object_new_array() : NULL;
	if (aggregator) {
		/* A worker takes no BPF and no privilege. */
		for (int i = optind; i < argc; i++)
			doctor_worker(&d, argv[i], aggregator);
		if (optind == argc)
			doctor_worker(&d, NULL, aggregator);
	} else {
		open_datapath(&d, &dp);
		doctor_kernel(&d);
		doctor_tools(&d);
		for (int i = optind; i < argc; i++)
			doctor_device(&d, argv[i], true);
		if (optind == argc)
			all_devices(&d);
		doctor_datapath(&d);
	}
	if (d.dp)
		datapath_close(&dp);
	err = report_findings(&d);
	return err ?: d.count[LEVEL_FAULT] ? -ENOTRECOVERABLE : 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/* fpisa doctor [DEV...]: check this machine, and print each fault with the command that fixes it */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "cli/options.h"
#include "doctor.h"

/* Check every interface that a datapath could be loaded on. */
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

enum { OPT_WORKER = OPT_VERB, OPT_CONFIG, OPT_RATE };

int verb_doctor(int argc, char **argv)
{
	static const struct option options[] = {{"worker", required_argument, NULL, OPT_WORKER},
						{"config", required_argument, NULL, OPT_CONFIG},
						{"rate", required_argument, NULL, OPT_RATE},
						COMMON_OPTIONS,
						JSON_OPTION,
						{0}};
	struct common c = COMMON_INIT;
	struct doctor d = {0};
	struct datapath dp;
	__u32 ifindex[DATAPATH_MAX_INTERFACES];
	const char *config = NULL, *worker = NULL;
	struct fpisa_address aggregator;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		if (opt == OPT_WORKER)
			err = parse_machine("--worker", worker = optarg, &aggregator);
		else if (opt == OPT_CONFIG)
			config = optarg;
		else if (opt == OPT_RATE)
			err = parse_rate("--rate", optarg, &d.rate);
		else
			err = common_option(&c, opt);
	}
	if (!err && worker && config)
		err = refuse(
			BAD_USAGE,
			"doctor: --config checks an aggregator, and --worker checks a worker; give only one of them");
	if (err)
		return err;
	err = find_interfaces(argv + optind, argc - optind, ifindex);
	if (err)
		return err;
	d.pin = c.pin;
	d.found = c.json ? json_object_new_array() : NULL;
	if (worker) {
		/* A worker does not need BPF or privilege. */
		for (int i = optind; i < argc; i++)
			doctor_worker(&d, argv[i], aggregator);
		if (optind == argc)
			doctor_worker(&d, NULL, aggregator);
		doctor_group(&d, worker);
	} else {
		open_datapath(&d, &dp);
		doctor_kernel(&d);
		doctor_tools(&d);
		for (int i = optind; i < argc; i++)
			doctor_device(&d, argv[i], true);
		if (optind == argc)
			all_devices(&d);
		doctor_datapath(&d);
		doctor_manager(&d, config);
	}
	if (d.dp)
		datapath_close(&dp);
	err = report_findings(&d);
	return err ?: d.count[LEVEL_FAULT] ? -ENOTRECOVERABLE : 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/* fpisa load DEV... */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "config/config.h"
#include "host/veth.h"
#include "verbs.h"

/*
 * Load the datapath, and warn of veth peers. Loading gives up the privileges needed to examine peers, so examine them
 * first.
 */
static int load(const struct datapath_load *o, char *const *devs, int n)
{
	struct veth_peer *peer = calloc(n, sizeof(*peer));
	struct link *link = calloc(n, sizeof(*link));
	int err = peer && link ? 0 : fail(-ENOMEM, NULL, "load: cannot list the interfaces");

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

static int print_loaded(const struct datapath_load *l, char *const *devs, int n)
{
	struct json_object *o = json_done("load"), *a = json_object_new_array();

	for (int i = 0; i < n; i++)
		json_object_array_add(a, json_text(devs[i]));
	json_object_object_add(o, "interfaces", a);
	json_add_string(o, "mode", name_of(xdp_mode_names, l->mode));
	json_add_string(o, "pin", l->pin ?: DATAPATH_PIN);
	return print_json(o, false);
}

/* Replace names by those of the interfaces that are loaded in their place; `names` holds these. */
static char **place(const struct datapath_load *o, char **devs, int n, char names[][IF_NAMESIZE])
{
	static char *placed[DATAPATH_MAX_INTERFACES];

	if (n > DATAPATH_MAX_INTERFACES) /* refused later */
		return devs;
	for (int i = 0; i < n; i++)
		placed[i] = (char *)datapath_place(devs[i], o->mode, names[i]);
	return placed;
}

int verb_load(int argc, char **argv)
{
	struct datapath_load o = {.mode = DATAPATH_NATIVE, .group = DATAPATH_NO_GROUP, .drop = true};
	struct common c = COMMON_INIT;
	char names[DATAPATH_MAX_INTERFACES][IF_NAMESIZE], **devs;
	int opt, n, err = 0;

	while (!err && (opt = next_option(argc, argv, load_options)) != -1)
		err = load_option(&o, opt, &c);
	if (err)
		return err;
	if (optind == argc)
		return refuse(BAD_USAGE, "load requires at least one interface");
	if (o.steering.queue && !o.steering.cpus)
		return refuse(BAD_USAGE, "load: --cpu-queue requires --cpus");
	o.pin = c.pin;
	n = argc - optind;
	devs = place(&o, argv + optind, n, names);
	err = load(&o, devs, n);
	for (int i = 0; !err && !c.json && i < n; i++)
		if (strcmp(devs[i], argv[optind + i]))
			printf("%s: loaded on %s, below it, which takes the frames of its VLAN\n", argv[optind + i],
			       devs[i]);
	return err || !c.json ? err : print_loaded(&o, devs, n);
}

// SPDX-License-Identifier: GPL-2.0-only
/* Preparation for `fpisa serve --colocated DEV`; colocation.h has the contract. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "colocation.h"
#include "datapath/datapath.h"
#include "host/link.h"

static int check_up(const char *dev, const char *hint)
{
	struct link l;

	if (link_get(if_nametoindex(dev), &l))
		return refuse(-ENODEV,
			      "serve: %s: no such interface; set colocated to an interface of this host (ip -br link)",
			      dev);
	if (!(l.flags & IFF_UP))
		return refuse(-ENETDOWN, "serve: %s is down; run ip link set %s up%s", dev, dev, hint);
	return 0;
}

/*
 * Return whether the datapath is on the interface. If the datapath is on the interface but cannot send to lo, report
 * this and return -EBUSY.
 */
static int check_loaded(const struct datapath *dp, const char *dev)
{
	struct datapath_interface i;
	char off[DETACH_LEN];
	int got = datapath_attached(dp, if_nametoindex(dev), &i);

	if (got > 0 && i.mode == DATAPATH_NATIVE)
		return refuse(
			-EBUSY,
			"serve: %s: the datapath is in native mode, which cannot send to this host's own ranks through "
			"lo; run %s, and start fpisa serve again",
			dev, datapath_detach_text(dev, i.mode, off));
	return got > 0;
}

/* List the interfaces of `devs` that have no datapath yet. Return their number, or a negative errno. */
static int missing(const char *pin, char *devs[2], char *out[2])
{
	struct datapath dp;
	char dir[PATH_MAX];
	int n = 0, err = datapath_pinned(pin, dir);

	if (err == -ENOENT) {
		memcpy(out, devs, 2 * sizeof(*out));
		return 2;
	}
	err = err ?: datapath_open(&dp, pin);
	if (err)
		return err;
	for (int i = 0; i < 2 && err >= 0; i++) {
		err = check_loaded(&dp, devs[i]);
		if (!err)
			out[n++] = devs[i];
	}
	datapath_close(&dp);
	return err < 0 ? err : n;
}

int colocate(const struct config *c, const char *pin, struct colocated *loaded)
{
	char *devs[2] = {(char *)c->manager.colocated, (char *)"lo"}, *out[2];
	struct datapath_load how = c->load;
	int n, err;

	if (!c->manager.colocated)
		return 0;
	err = check_up(devs[0], "") ?: check_up(devs[1], ", through which this host's ranks send");
	if (err)
		return err;
	n = missing(pin, devs, out);
	if (n <= 0)
		return n;
	how.pin = pin;
	how.mode = DATAPATH_SKB;
	err = datapath_load(&how, out, n);
	if (err)
		return err;
	*loaded = (struct colocated){{out[0], n > 1 ? out[1] : NULL}, n};
	dprintf(STDOUT_FILENO, "loaded on %s%s%s in generic mode; fpisa unload%s%s removes it\n", out[0],
		n > 1 ? " and " : "", n > 1 ? out[1] : "", pin ? " --pin " : "", pin ?: "");
	return 0;
}

void colocate_undo(const struct colocated *loaded, const char *pin)
{
	struct datapath_unloaded u;

	if (loaded->n && !datapath_unload(pin, loaded->dev, loaded->n, &u))
		dprintf(STDOUT_FILENO, "taken off %s%s%s again\n", loaded->dev[0], loaded->n > 1 ? " and " : "",
			loaded->n > 1 ? loaded->dev[1] : "");
}

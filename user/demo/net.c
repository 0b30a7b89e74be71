// SPDX-License-Identifier: GPL-2.0-only
/*
 * The demo's network: a star of veth pairs. Every worker is in a subnet of
 * its own; the aggregator has one address on lo that all of them route to,
 * so results have the same source for everybody and pass rp_filter.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/report.h"
#include "demo.h"
#include "testbed/lab.h"

int demo_aggregator_links(const struct demo *d)
{
	uint32_t mtu = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + d->job.elements * d->f.bytes;
	struct lab_batch b = lab_batch_open();
	char message[256];
	int err;

	if (mtu < 1500)
		mtu = 1500;
	lab_batch_add(&b, "link set lo up");
	lab_batch_add(&b, "addr add %u.%u.%u.%u/32 dev lo", DOTTED(DEMO_ADDRESS));
	for (uint32_t r = 0; r < d->o.workers; r++) {
		uint32_t net = DEMO_NETWORK | r << 8;

		lab_batch_add(&b, "link add " DEMO_PORT_NAME " mtu %u type veth peer name eth0 mtu %u netns %d",
			  r, mtu, mtu, d->child[r].pid);
		lab_batch_add(&b, "addr add %u.%u.%u.%u/24 dev " DEMO_PORT_NAME, DOTTED(net | 1), r);
		lab_batch_add(&b, "link set " DEMO_PORT_NAME " up", r);
	}
	err = lab_batch_run(&b, message, sizeof(message));
	return err ? refuse(err, "demo: make links: %s", message) : 0;
}

int demo_worker_link(uint32_t rank, char *message, size_t size)
{
	uint32_t net = DEMO_NETWORK | rank << 8;
	struct lab_batch b = lab_batch_open();
	int err;

	lab_batch_add(&b, "addr add %u.%u.%u.%u/24 dev eth0", DOTTED(net | 2));
	lab_batch_add(&b, "link set eth0 up");
	lab_batch_add(&b, "route add %u.%u.%u.%u via %u.%u.%u.%u", DOTTED(DEMO_ADDRESS), DOTTED(net | 1));
	err = lab_batch_run(&b, message, size);
	if (err)
		return err;
	err = lab_gro_on("eth0");
	if (err)
		snprintf(message, size, "eth0: turn GRO on: %s", strerror(-err));
	return err;
}

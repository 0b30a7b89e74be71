// SPDX-License-Identifier: GPL-2.0-only
/*
 * The network of --colocated. Hosts are connected to a switch, which is a bridge in the parent's namespace. Each host
 * is a namespace with a worker, and with the datapath on eth0 and on lo. demo.h documents the functions.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "demo.h"
#include "lab/testbed/lab.h"

#define PIN_LEN (sizeof(DATAPATH_PIN) + 10) /* number of digits in a host number */

static void pin_of(uint32_t host, char pin[PIN_LEN])
{
	snprintf(pin, PIN_LEN, DATAPATH_PIN "%u", host);
}

void demo_hosts_text(const struct demo *d, char text[DEMO_HOSTS_LEN])
{
	int n = 0;

	for (uint32_t r = 0; r < d->o.workers; r++)
		n += snprintf(text + n, (size_t)(DEMO_HOSTS_LEN - n), "%s%u.%u.%u.%u", r ? "," : "",
			      DOTTED(DEMO_HOST(r)));
}

/* -- the network --------------------------------------------------------- */

int demo_hosts_make(struct demo *d)
{
	struct lab_batch b = lab_batch_open();
	char message[256], path[64];
	int err;

	lab_batch_add(&b, "link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0");
	lab_batch_add(&b, "link set br0 up");
	for (uint32_t r = 0; r < d->o.workers; r++) {
		lab_batch_add(&b, "link add " DEMO_PORT "%u mtu %u type veth peer name eth0 mtu %u netns %d", r,
			      d->star.mtu, d->star.mtu, d->process[r].pid);
		lab_batch_add(&b, "link set " DEMO_PORT "%u master br0 up", r);
	}
	err = lab_batch_run(&b, message, sizeof(message));
	if (err)
		return refuse(err, "demo: cannot create links: %s", message);
	for (uint32_t r = 0; r < d->o.workers; r++) {
		char port[IF_NAMESIZE];

		snprintf(port, sizeof(port), DEMO_PORT "%u", r);
		snprintf(path, sizeof(path), "/proc/%d/ns/net", d->process[r].pid);
		d->netns[r] = open(path, O_RDONLY | O_CLOEXEC);
		if (d->netns[r] < 0 || lab_gro_on(port))
			return fail(-errno, NULL, "demo: rank %u: cannot open its network namespace", r);
	}
	return 0;
}

int demo_hosts_join(uint32_t rank, char *message, size_t size)
{
	struct lab_batch b = lab_batch_open();
	int err;

	lab_batch_add(&b, "link set lo up");
	lab_batch_add(&b, "addr add %u.%u.%u.%u/24 dev eth0", DOTTED(DEMO_HOST(rank)));
	lab_batch_add(&b, "link set eth0 up");
	err = lab_batch_run(&b, message, size);
	if (err)
		return err;
	err = lab_gro_on("eth0");
	if (err)
		snprintf(message, size, "eth0: cannot turn GRO on: %s", strerror(-err));
	return err;
}

/* -- the aggregators ----------------------------------------------------- */

static int load(struct demo *d, uint32_t host)
{
	struct datapath_load how = {.mode = DATAPATH_SKB, .group = DATAPATH_NO_GROUP};
	char pin[PIN_LEN], *devs[] = {(char *)"eth0", (char *)"lo"};
	__u32 ifindex[FPISA_MAX_WORKERS];
	struct fpisa_job job = d->job;
	int err;

	pin_of(host, pin);
	how.pin = pin;
	err = datapath_load(&how, devs, 2);
	if (!err)
		err = datapath_open(&d->dp[host], pin);
	if (err)
		return err;
	job.address = fpisa_ipv4(htonl(DEMO_HOST(host)));
	job.rank[host].given = 1;
	for (uint32_t r = 0; r < d->o.workers; r++)
		ifindex[r] = if_nametoindex(r == host ? "lo" : "eth0");
	return datapath_job_add(&d->dp[host], DEMO_JOB, &job, ifindex);
}

int demo_hosts_load(struct demo *d)
{
	int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), err = 0;

	for (uint32_t r = 0; !err && r < d->o.workers; r++)
		err = home < 0 || setns(d->netns[r], CLONE_NEWNET) ?
			      fail(-errno, NULL, "demo: cannot enter a network namespace") :
			      load(d, r);
	if (home >= 0 && setns(home, CLONE_NEWNET) && !err)
		err = fail(-errno, NULL, "demo: cannot enter a network namespace");
	if (home >= 0)
		close(home);
	return err;
}

/* -- traffic of the links --------------------------------------------------- */

/* Read the counters of the switch's ports. A port receives the frames that its host sends. */
int demo_hosts_traffic(struct demo_traffic *t, uint32_t hosts)
{
	FILE *f = fopen("/proc/thread-self/net/dev", "re");
	uint64_t received, sent;
	char line[512];
	uint32_t host;

	if (!f)
		return fail(-errno, NULL, "demo: cannot read the counters of links");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, " " DEMO_PORT "%" SCNu32 ": %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &host,
			   &received, &sent) == 3 &&
		    host < hosts) {
			t[host].sent = received - t[host].sent;
			t[host].received = sent - t[host].received;
		}
	fclose(f);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The network of a measurement, with its links, workers, our datapath and its jobs. contenders.h documents the
 * functions.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/report.h"
#include "contenders.h"
#include "fpisa/wire.h"

#define ADDRESS 0x0a4eff01u /* addresses of the aggregators, 10.78.255.1 and following */
#define NETWORK 0x0a4e0000u /* 10.78.LINK.1 and .2 are the ends of a link */

/* Give the links names that are unique on the machine, because the threads that poll the links are found by name. */
static void lay_out(struct bench *b)
{
	for (uint32_t i = 0; i < b->what->stars; i++) {
		struct star *s = &b->plan.star[i];

		*s = (struct star){.address = ADDRESS + i,
				   .network = NETWORK + (i * PROCESSES_MAX << 8),
				   .mtu = star_mtu(b->plan.packet * sizeof(float))};
		snprintf(s->port, sizeof(s->port), "w%da%u-", getpid(), i);
		snprintf(s->peer, sizeof(s->peer), "w%dw%u-", getpid(), i);
	}
}

static int run_fpisa(const struct bench *b, const char *words)
{
	char command[2048];
	int status;

	snprintf(command, sizeof(command), "'%s' %s", b->fpisa, words);
	status = system(command);
	return status ? refuse(-1, "%s: the command failed with status %d", command, status) : 0;
}

static int load(const struct bench *b)
{
	char words[PROCESSES_MAX * 17 + 8] = "load", dev[IF_NAMESIZE];
	size_t used = 4;

	for (uint32_t r = 0; r < b->plan.workers; r++) {
		star_port(dev, &b->plan.star[0], r);
		used += (size_t)snprintf(words + used, sizeof(words) - used, " %s", dev);
	}
	return run_fpisa(b, words);
}

int network_add_job(const struct bench *b, int number, uint32_t elements, const char *options)
{
	const struct star *star = &b->plan.star[0];
	char words[1024];
	size_t used = (size_t)snprintf(words, sizeof(words),
				       "job add %d --address %u.%u.%u.%u --elements %u --window %u %s --workers ",
				       number, DOTTED(star->address), elements, b->plan.window, options);

	for (uint32_t r = 0; r < b->plan.workers; r++)
		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%u.%u.%u.%u:%d", r ? "," : "",
					 DOTTED(star_worker_address(star, r)), FPISA_PORT + number);
	return run_fpisa(b, words);
}

pid_t wire_poll(const char *dev)
{
	int err = lab_gro_on(dev) ?: lab_tso_off(dev);

	return err ? fail(err, NULL, "%s: cannot turn GRO on and TSO off", dev) : napi_thread(dev);
}

static int poll_links(struct bench *b)
{
	char dev[IF_NAMESIZE];

	for (uint32_t i = 0; i < b->what->stars; i++)
		for (uint32_t r = 0; r < b->plan.workers; r++) {
			star_port(dev, &b->plan.star[i], r);
			b->napi[i][r] = b->what->poll(dev);
			if (b->napi[i][r] < 0)
				return -1;
		}
	return 0;
}

int network_order(const struct bench *b, const struct order *o, struct report *sum)
{
	const char *who = o->task == TASK_LINK ? b->what->name : contender_name[o->contender];

	return processes_order(&b->workers, who, o, sizeof(*o), sum);
}

int network_make(struct bench *b)
{
	struct plan *p = &b->plan;
	int rc;

	lay_out(b);
	rc = lab_enter("bench") ?: enter_sysfs();
	for (uint32_t i = 0; i < p->workers && !rc; i++)
		rc = processes_spawn(&b->workers, b->what->work, &(struct bench_worker){p, i});
	for (uint32_t i = 0; i < b->what->stars && !rc; i++)
		rc = star_make(&p->star[i], b->workers.process, p->workers);
	if (!rc)
		rc = network_order(b, &(struct order){.task = TASK_LINK}, NULL);
	return rc ?: load(b) ?: b->what->serve(b) ?: poll_links(b);
}

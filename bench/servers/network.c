// SPDX-License-Identifier: GPL-2.0-only
/* The network of bench/servers: links, workers, aggregators, and accounting of CPU time; contenders.h has the contracts. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "contenders.h"
#include "server.h"

#define ADDRESS 0x0a4eff01u			  /* 10.78.255.1 and up: the contenders' aggregators */
#define NETWORK 0x0a4e0000u			  /* 10.78.0.0 and up */
#define GROUP_OF(c) (0xef465000u + (uint32_t)(c)) /* 239.70.80.c, as `fpisa job add` sets it */

const char *const wire_contender[CONTENDERS] = {"fpisa", "udp-avx2", "xdp-avx2"};

/* Give the links names that are unique on the machine: the names lead to the threads that poll the links. */
static void lay_out(struct plan *p)
{
	for (enum contender c = 0; c < CONTENDERS; c++) {
		struct star *s = &p->star[c];

		*s = (struct star){.address = ADDRESS + c,
				   .network = NETWORK + (c * PROCESSES_MAX << 8),
				   .mtu = star_mtu(p->packet * sizeof(float))};
		snprintf(s->port, sizeof(s->port), "w%da%u-", getpid(), c);
		snprintf(s->peer, sizeof(s->peer), "w%dw%u-", getpid(), c);
	}
}

/* -- the aggregators --------------------------------------------------------------- */

struct aggregator {
	const struct plan *plan;
	enum contender c;
};

static void serve(void *arg, int control)
{
	const struct aggregator *a = arg;
	const struct plan *p = a->plan;
	const struct star *star = &p->star[a->c];
	char dev[PROCESSES_MAX][IF_NAMESIZE];
	struct server s = {.number = a->c};
	int rc;

	s.job = (struct fpisa_job){
		.active = 1,
		.workers = p->workers,
		.live = ~0ull >> (64 - p->workers),
		.address = htonl(star->address),
		.group = a->c == XDP_AVX2 ? htonl(GROUP_OF(a->c)) : 0,
		.group_port = htons((uint16_t)(FPISA_PORT + a->c)),
		.elements = (uint16_t)p->packet,
		.window = p->window,
		.format = FPISA_FORMAT_FP32,
		.mode = FPISA_MODE_FPISA,
		.rounding = FPISA_ROUND_NEAREST,
		.fanout = a->c == XDP_AVX2 ? FPISA_FANOUT_MULTICAST : FPISA_FANOUT_UNICAST,
	};
	for (uint32_t r = 0; r < p->workers; r++) {
		s.job.rank[r] = (struct fpisa_rank){.addr = htonl(star_worker_address(star, r)),
						    .port = htons((uint16_t)(FPISA_PORT + a->c))};
		star_port(dev[r], star, r);
	}
	rc = server_init(&s);
	if (!rc)
		rc = a->c == XDP_AVX2 ? server_xsk(&s, control, dev) : server_udp(&s, control);
	fprintf(stderr, "wire: %s: %s\n", wire_contender[a->c], strerror(-rc));
}

static int start_fpisa(const struct wire *w)
{
	const struct plan *p = &w->plan;
	const struct star *star = &p->star[FPISA_XDP];
	char devs[PROCESSES_MAX * 17], workers[PROCESSES_MAX * 24];
	size_t d = 0, n = 0;

	for (uint32_t r = 0; r < p->workers; r++) {
		char dev[IF_NAMESIZE];

		star_port(dev, star, r);
		d += (size_t)snprintf(devs + d, sizeof(devs) - d, " %s", dev);
		n += (size_t)snprintf(workers + n, sizeof(workers) - n, "%s%u.%u.%u.%u:%d", r ? "," : "",
				      DOTTED(star_worker_address(star, r)), FPISA_PORT + FPISA_XDP);
	}
	return run_fpisa(w->fpisa, "load%s", devs) ?:
		       run_fpisa(w->fpisa, "job add %d --workers %s --address %u.%u.%u.%u --elements %u --window %u",
				 FPISA_XDP, workers, DOTTED(star->address), p->packet, p->window);
}

static int start_servers(struct wire *w)
{
	int rc = 0;

	for (enum contender c = UDP_AVX2; c < CONTENDERS && !rc; c++)
		rc = processes_spawn(&w->servers, serve, &(struct aggregator){&w->plan, c});
	return rc;
}

pid_t wire_poll(const char *dev)
{
	int err = lab_gro_on(dev) ?: lab_tso_off(dev);

	return err ? fail(err, NULL, "%s: offloads", dev) : napi_thread(dev);
}

static int thread_ports(struct wire *w)
{
	char dev[IF_NAMESIZE];

	for (enum contender c = 0; c < CONTENDERS; c++)
		for (uint32_t r = 0; r < w->plan.workers; r++) {
			star_port(dev, &w->plan.star[c], r);
			w->napi[c][r] = wire_poll(dev);
			if (w->napi[c][r] < 0)
				return -1;
		}
	return 0;
}

uint64_t wire_polled_ns(const struct wire *w, enum contender c)
{
	uint64_t ns = 0;

	for (uint32_t r = 0; r < w->plan.workers; r++)
		ns += task_ns(w->napi[c][r]);
	return ns;
}

uint64_t wire_served_ns(const struct wire *w, enum contender c)
{
	return c == FPISA_XDP ? 0 : task_ns(w->servers.process[c - UDP_AVX2].pid);
}

/* -- workers and links ------------------------------------------------------------- */

int wire_order(const struct wire *w, const struct order *o, struct report *sum)
{
	return processes_order(&w->workers, wire_contender[o->contender], o, sizeof(*o), sum);
}

int wire_set_up(struct wire *w)
{
	struct plan *p = &w->plan;
	int rc;

	lay_out(p);
	rc = lab_enter("bench") ?: enter_sysfs();
	for (uint32_t i = 0; i < p->workers && !rc; i++)
		rc = processes_spawn(&w->workers, wire_work, &(struct wire_worker){p, i});
	for (enum contender c = 0; c < CONTENDERS && !rc; c++)
		rc = star_make(&p->star[c], w->workers.process, p->workers);
	if (!rc)
		rc = wire_order(w, &(struct order){.task = TASK_LINK}, NULL);
	return rc ?: start_fpisa(w) ?: start_servers(w) ?: thread_ports(w);
}

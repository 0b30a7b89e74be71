// SPDX-License-Identifier: GPL-2.0-only
/* The network of bench/wire: links, workers, aggregators, and who is charged; contenders.h has the contracts. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "testbed/lab.h"
#include "server.h"
#include "contenders.h"

#define GROUP_OF(c) (0xef465000u + (uint32_t)(c)) /* 239.70.80.c, as `fpisa job add` has it */

const char *const wire_contender[CONTENDERS] = {"fpisa", "udp-avx2", "xdp-avx2"};

void wire_port(char name[16], const struct plan *p, enum contender c, uint32_t rank)
{
	snprintf(name, 16, "w%da%u-%u", p->master, c, rank);
}

void wire_link(char name[16], const struct plan *p, enum contender c, uint32_t rank)
{
	snprintf(name, 16, "w%dw%u-%u", p->master, c, rank);
}

uint32_t wire_subnet(enum contender c, uint32_t rank)
{
	return (uint32_t)c * CREW_MAX + rank;
}

/* -- the aggregators --------------------------------------------------------------- */

struct post {
	struct wire *w;
	enum contender c;
};

static void serve(void *arg, int ready)
{
	const struct post *post = arg;
	const struct plan *p = &post->w->plan;
	char address[32], dev[CREW_MAX][16];
	struct server s = {.number = post->c};
	int rc;

	snprintf(address, sizeof(address), WIRE_ADDRESS "%u", WIRE_ADDRESS_OF(post->c));
	s.job = (struct fpisa_job){
		.active = 1,
		.workers = p->workers,
		.live = ~0ull >> (64 - p->workers),
		.address = inet_addr(address),
		.group = post->c == XDP_AVX2 ? htonl(GROUP_OF(post->c)) : 0,
		.group_port = htons((uint16_t)(FPISA_PORT + post->c)),
		.elements = (uint16_t)p->packet,
		.window = p->window,
		.format = FPISA_FORMAT_FP32,
		.mode = FPISA_MODE_FPISA,
		.rounding = FPISA_ROUND_NEAREST,
		.fanout = post->c == XDP_AVX2 ? FPISA_FANOUT_MULTICAST : FPISA_FANOUT_UNICAST,
	};
	for (uint32_t r = 0; r < p->workers; r++) {
		snprintf(address, sizeof(address), "10.78.%u.2", wire_subnet(post->c, r));
		s.job.rank[r] = (struct fpisa_rank){.addr = inet_addr(address),
						    .port = htons((uint16_t)(FPISA_PORT + post->c))};
		wire_port(dev[r], p, post->c, r);
	}
	rc = server_init(&s);
	if (!rc)
		rc = post->c == XDP_AVX2 ? server_xsk(&s, ready, dev) : server_udp(&s, ready);
	fprintf(stderr, "wire: %s: %s\n", wire_contender[post->c], strerror(-rc));
}

static int start_fpisa(const struct wire *w)
{
	const struct plan *p = &w->plan;
	char devs[CREW_MAX * 17], workers[CREW_MAX * 24];
	size_t d = 0, n = 0;

	for (uint32_t r = 0; r < p->workers; r++) {
		char dev[16];

		wire_port(dev, p, FPISA_XDP, r);
		d += (size_t)snprintf(devs + d, sizeof(devs) - d, " %s", dev);
		n += (size_t)snprintf(workers + n, sizeof(workers) - n, "%s10.78.%u.2:%d", r ? "," : "",
				      wire_subnet(FPISA_XDP, r), FPISA_PORT + FPISA_XDP);
	}
	return run_fpisa(w->fpisa, "load%s", devs)
		       ?: run_fpisa(w->fpisa,
				    "job add %d --workers %s --address " WIRE_ADDRESS
				    "%d --elements %u --window %u",
				    FPISA_XDP, workers, WIRE_ADDRESS_OF(FPISA_XDP), p->packet, p->window);
}

static int start_servers(struct wire *w)
{
	char byte;

	for (enum contender c = UDP_AVX2; c < CONTENDERS; c++) {
		struct post post = {w, c};

		if (crew_hire(&w->servers, serve, &post) ||
		    crew_hear(&w->servers, w->servers.n - 1, &byte, 1))
			return -1;
	}
	return 0;
}

static int tso_off(const char *dev)
{
	struct ethtool_value value = {.cmd = ETHTOOL_STSO};
	struct ifreq ifr = {.ifr_data = (void *)&value};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -1;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", dev);
	rc = ioctl(fd, SIOCETHTOOL, &ifr);
	close(fd);
	return rc;
}

pid_t wire_poll(const char *dev)
{
	return lab_gro_on(dev) || tso_off(dev) ? die(dev) : napi_thread(dev);
}

static int thread_ports(struct wire *w)
{
	char dev[16];

	for (enum contender c = 0; c < CONTENDERS; c++)
		for (uint32_t r = 0; r < w->plan.workers; r++) {
			wire_port(dev, &w->plan, c, r);
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
	return c == FPISA_XDP ? 0 : task_ns(w->servers.pid[c - UDP_AVX2]);
}

/* -- workers and links ------------------------------------------------------------- */

int wire_together(const struct wire *w, const struct order *o, uint64_t *retransmits)
{
	struct report r;
	int failed = 0;

	if (crew_tell(&w->workers, o, sizeof(*o)))
		return -1;
	for (uint32_t i = 0; i < w->plan.workers; i++) {
		if (crew_hear(&w->workers, i, &r, sizeof(r)))
			return -1;
		if (r.error)
			fprintf(stderr, "wire: %s: rank %u: %s\n", wire_contender[o->contender], i,
				r.message);
		failed |= r.error;
		if (retransmits)
			*retransmits += r.retransmits;
	}
	return failed ? -1 : 0;
}

static int make_links(struct wire *w)
{
	const struct plan *p = &w->plan;
	uint32_t mtu = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + p->packet * sizeof(float);
	struct lab_batch b = lab_batch_open();
	char message[256];

	mtu = mtu < 1500 ? 1500 : mtu;
	lab_batch_add(&b, "link set lo up");
	for (enum contender c = 0; c < CONTENDERS; c++) {
		lab_batch_add(&b, "addr add " WIRE_ADDRESS "%d/32 dev lo", WIRE_ADDRESS_OF(c));
		for (uint32_t r = 0; r < p->workers; r++) {
			char here[16], there[16];

			wire_port(here, p, c, r);
			wire_link(there, p, c, r);
			lab_batch_add(&b, "link add %s mtu %u type veth peer name %s mtu %u netns %d", here,
				      mtu, there, mtu, w->workers.pid[r]);
			lab_batch_add(&b, "addr add 10.78.%u.1/24 dev %s", wire_subnet(c, r), here);
			lab_batch_add(&b, "link set %s up", here);
		}
	}
	if (lab_batch_run(&b, message, sizeof(message))) {
		fprintf(stderr, "wire: make links: %s\n", message);
		return -1;
	}
	return wire_together(w, &(struct order){.task = TASK_LINK}, NULL);
}

int wire_set_up(struct wire *w)
{
	struct report r;

	w->plan.master = getpid();
	if (lab_enter("bench") || own_sysfs())
		return -1;
	for (uint32_t i = 0; i < w->plan.workers; i++) {
		w->worker[i] = (struct wire_worker){&w->plan, i};
		if (crew_hire(&w->workers, wire_work, &w->worker[i]) ||
		    crew_hear(&w->workers, i, &r, sizeof(r)))
			return -1;
	}
	return make_links(w) ?: start_fpisa(w) ?: start_servers(w) ?: thread_ports(w);
}

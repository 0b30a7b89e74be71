// SPDX-License-Identifier: GPL-2.0-only
/* Links of an aggregator and its workers. star.h documents the functions. */
#include <stdio.h>
#include <string.h>

#include "cli/report.h"
#include "fpisa/wire.h"
#include "lib/base/address.h"
#include "star.h"

#define LEAST_MTU 1500

uint32_t star_mtu(uint32_t payload)
{
	uint32_t mtu = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + payload;

	return mtu < LEAST_MTU ? LEAST_MTU : mtu;
}

void star_port(char name[IF_NAMESIZE], const struct star *s, uint32_t link)
{
	snprintf(name, IF_NAMESIZE, "%s%u", s->port, link);
}

void star_peer(char name[IF_NAMESIZE], const struct star *s, uint32_t link)
{
	if (*s->peer)
		snprintf(name, IF_NAMESIZE, "%s%u", s->peer, link);
	else
		strcpy(name, "eth0");
}

static uint32_t gateway(const struct star *s, uint32_t link)
{
	return (s->network + (link << 8)) | 1;
}

/* Add the IPv6 address that belongs to an IPv4 address with a prefix of this length, if the star has IPv6 addresses. */
static void add_ipv6(struct lab_batch *b, const struct star *s, uint32_t address, int bits, const char *dev)
{
	const struct fpisa_address a = star_ipv6(address);
	char text[FPISA_ADDRESS_LEN];

	if (s->ipv6)
		lab_batch_add(b, "addr add %s/%d dev %s nodad", fpisa_address_text(&a, text), 96 + bits, dev);
}

static void add_ipv6_route(struct lab_batch *b, const struct star *s, uint32_t link)
{
	const struct fpisa_address to = star_ipv6(s->address), via = star_ipv6(gateway(s, link));
	char text[FPISA_ADDRESS_LEN], by[FPISA_ADDRESS_LEN];

	if (s->ipv6)
		lab_batch_add(b, "route add %s via %s", fpisa_address_text(&to, text), fpisa_address_text(&via, by));
}

void star_add_address(struct lab_batch *b, const struct star *s)
{
	lab_batch_add(b, "link set lo up");
	lab_batch_add(b, "addr add %u.%u.%u.%u/32 dev lo", DOTTED(s->address));
	add_ipv6(b, s, s->address, 32, "lo");
}

void star_add_link(struct lab_batch *b, const struct star *s, uint32_t link, const char *netns)
{
	char port[IF_NAMESIZE], peer[IF_NAMESIZE];

	star_port(port, s, link);
	star_peer(peer, s, link);
	lab_batch_add(b, "link add %s mtu %u type veth peer name %s mtu %u netns %s", port, s->mtu, peer, s->mtu, netns);
	lab_batch_add(b, "addr add %u.%u.%u.%u/24 dev %s", DOTTED(gateway(s, link)), port);
	add_ipv6(b, s, gateway(s, link), 24, port);
	lab_batch_add(b, "link set %s up", port);
}

void star_add_worker(struct lab_batch *b, const struct star *s, uint32_t link)
{
	char peer[IF_NAMESIZE];

	star_peer(peer, s, link);
	lab_batch_add(b, "addr add %u.%u.%u.%u/24 dev %s", DOTTED(star_worker_address(s, link)), peer);
	add_ipv6(b, s, star_worker_address(s, link), 24, peer);
	lab_batch_add(b, "link set %s up", peer);
	lab_batch_add(b, "route add %u.%u.%u.%u via %u.%u.%u.%u", DOTTED(s->address), DOTTED(gateway(s, link)));
	add_ipv6_route(b, s, link);
}

int star_make(const struct star *s, const struct process *worker, uint32_t workers)
{
	struct lab_batch b = lab_batch_open();
	char message[256], netns[16];
	int err;

	star_add_address(&b, s);
	for (uint32_t r = 0; r < workers; r++) {
		snprintf(netns, sizeof(netns), "%d", worker[r].pid);
		star_add_link(&b, s, r, netns);
	}
	err = lab_batch_run(&b, message, sizeof(message));
	return err ? refuse(err, "cannot create links: %s", message) : 0;
}

int star_join(const struct star *s, uint32_t link, char *message, size_t size)
{
	struct lab_batch b = lab_batch_open();
	char peer[IF_NAMESIZE];
	int err;

	star_peer(peer, s, link);
	star_add_worker(&b, s, link);
	err = lab_batch_run(&b, message, size);
	if (err)
		return err;
	err = lab_gro_on(peer);
	if (err)
		snprintf(message, size, "%s: cannot turn GRO on: %s", peer, strerror(-err));
	return err;
}

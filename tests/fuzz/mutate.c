/* SPDX-License-Identifier: GPL-2.0-only */
/* The mutations of a frame. See mutate.h. To add a mutation, write a function and add a line to the table. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stddef.h>
#include <string.h>
#include "mutate.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LEAST 14  /* BPF_PROG_TEST_RUN needs an Ethernet header */
#define IP_LEN 16 /* byte of the frame where a header's length fields start */
#define UDP_LEN 38

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint64_t any_number(struct vectors_rng *rng, uint64_t now)
{
	static const uint64_t some[] = {0,    1,    2,	    31,	    32,		63,	    64,		65,
					0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 1ull << 63, ~0ull};

	switch (vectors_below(rng, 5)) {
	case 0:
		return some[vectors_below(rng, COUNT(some))];
	case 1:
		return now + 1;
	case 2:
		return now - 1;
	case 3:
		return now ^ 1ull << vectors_below(rng, 64);
	default:
		return vectors_next(rng);
	}
}

/* Change an `n`-byte field in either byte order. */
static void change(struct vectors_rng *rng, struct frame *f, uint32_t at, uint32_t n, bool big)
{
	uint64_t v = 0;

	if (at + n > f->len)
		return;
	for (uint32_t i = 0; i < n; i++)
		v |= (uint64_t)f->data[big ? at + n - 1 - i : at + i] << (8 * i);
	v = any_number(rng, v);
	for (uint32_t i = 0; i < n; i++)
		f->data[big ? at + n - 1 - i : at + i] = (uint8_t)(v >> (8 * i));
}

/* Insert `n` zero bytes into the frame at `at`. Truncate the frame at the largest size. */
static void insert(struct frame *f, uint32_t at, uint32_t n)
{
	uint32_t len = f->len + n < FPISA_MAX_FRAME ? f->len + n : FPISA_MAX_FRAME;

	if (at + n > len || at > f->len)
		return;
	memmove(f->data + at + n, f->data + at, len - at - n);
	memset(f->data + at, 0, n);
	f->len = len;
}

/* Make the headers' lengths agree with the frame's length. */
static void agree(struct frame *f)
{
	if (f->len < FPISA_OFFSET)
		return;
	put16(f->data + IP_LEN, f->len - FPISA_ETH_LEN);
	put16(f->data + UDP_LEN, f->len - FPISA_ETH_LEN - FPISA_IP_LEN);
}

static void ether_type(struct vectors_rng *rng, struct frame *f)
{
	static const uint16_t types[] = {ETH_P_IPV6, ETH_P_ARP, ETH_P_8021Q, ETH_P_8021AD, ETH_P_MPLS_UC, 0, 64};

	put16(f->data + 12, types[vectors_below(rng, COUNT(types))]);
}

static void mac(struct vectors_rng *rng, struct frame *f)
{
	f->data[vectors_below(rng, 12)] ^= (uint8_t)(1 + vectors_below(rng, 255));
}

static void vlan(struct vectors_rng *rng, struct frame *f)
{
	int tags = 1 + (int)vectors_below(rng, 2);

	for (int i = 0; i < tags; i++) {
		insert(f, 12, 4);
		put16(f->data + 12, i ? ETH_P_8021AD : ETH_P_8021Q);
		put16(f->data + 14, vectors_below(rng, 4) ? vectors_below(rng, 4096) : 0);
	}
}

static void ip_options(struct vectors_rng *rng, struct frame *f)
{
	uint32_t words = 1 + vectors_below(rng, 10);

	if (f->len < FPISA_OFFSET)
		return;
	insert(f, FPISA_ETH_LEN + FPISA_IP_LEN, 4 * words);
	f->data[14] = (uint8_t)(0x45 + words);
	put16(f->data + IP_LEN, get16(f->data + IP_LEN) + 4 * words);
}

static void ipv6(struct vectors_rng *rng, struct frame *f)
{
	uint32_t payload;

	(void)rng;
	if (f->len < FPISA_OFFSET)
		return;
	insert(f, FPISA_ETH_LEN, 20);
	payload = f->len - FPISA_ETH_LEN - 40;
	put16(f->data + 12, ETH_P_IPV6);
	memset(f->data + FPISA_ETH_LEN, 0, 40);
	f->data[14] = 0x60;
	put16(f->data + 18, payload);
	f->data[20] = 17;
	f->data[21] = 64;
	f->data[37] = f->data[53] = 1;
}

static void ip_byte(struct vectors_rng *rng, struct frame *f)
{
	change(rng, f, FPISA_ETH_LEN + vectors_below(rng, FPISA_IP_LEN), 1, true);
}

static void ecn(struct vectors_rng *rng, struct frame *f)
{
	if (f->len > FPISA_ETH_LEN + 1)
		f->data[FPISA_ETH_LEN + 1] = (uint8_t)(f->data[FPISA_ETH_LEN + 1] ^ (1 + vectors_below(rng, 3)));
}

static void fragment(struct vectors_rng *rng, struct frame *f)
{
	static const uint16_t flags[] = {0x2000, 0x2001, 1, 185, 0x1fff, 0x8000, 0x4000, 0x6000};

	put16(f->data + 20, flags[vectors_below(rng, COUNT(flags))]);
}

static void ip_length(struct vectors_rng *rng, struct frame *f)
{
	change(rng, f, IP_LEN, 2, true);
}
static void udp_length(struct vectors_rng *rng, struct frame *f)
{
	change(rng, f, UDP_LEN, 2, true);
}

static void both_lengths(struct vectors_rng *rng, struct frame *f)
{
	change(rng, f, UDP_LEN, 2, true);
	put16(f->data + IP_LEN, get16(f->data + UDP_LEN) + FPISA_IP_LEN);
}

static void port(struct vectors_rng *rng, struct frame *f)
{
	change(rng, f, FPISA_ETH_LEN + FPISA_IP_LEN + 2 * vectors_below(rng, 2), 2, true);
}

/* Choose another port that the aggregator listens on, or the port after the last. */
static void other_port(struct vectors_rng *rng, struct frame *f)
{
	if (f->len >= FPISA_OFFSET)
		put16(f->data + 36, FPISA_PORT + vectors_below(rng, FPISA_MAX_PORTS + 1));
}

static void udp_checksum(struct vectors_rng *rng, struct frame *f)
{
	change(rng, f, UDP_LEN + 2, 2, true);
}

/* Choose the address of another member, or an address that no member has. */
static void source(struct vectors_rng *rng, struct frame *f)
{
	uint32_t a = htonl(HARNESS_WORKER(vectors_below(rng, 70)));

	memcpy(f->data + 26, &a, sizeof(a));
}

static void destination(struct vectors_rng *rng, struct frame *f)
{
	change(rng, f, 30, 4, true);
}

static void field(struct vectors_rng *rng, struct frame *f)
{
#define FIELD(name)                                                                     \
	{                                                                               \
		offsetof(struct fpisa_hdr, name), sizeof(((struct fpisa_hdr *)0)->name) \
	}
	static const struct {
		uint32_t at, n;
	} fields[] = {
		FIELD(magic),	     FIELD(version), FIELD(type),   FIELD(flags),      FIELD(result_flags),
		FIELD(format),	     FIELD(op),	     FIELD(job),    FIELD(generation), FIELD(slot),
		FIELD(rank),	     FIELD(count),   FIELD(chunk),  FIELD(digest),     FIELD(call),
		FIELD(contributors), FIELD(reason),  FIELD(secret), FIELD(bitmap),     FIELD(aux),
		FIELD(checksum),
	};
#undef FIELD
	uint32_t k = vectors_below(rng, COUNT(fields));

	change(rng, f, FPISA_OFFSET + fields[k].at, fields[k].n, false);
}

static void other_rank(struct vectors_rng *rng, struct frame *f)
{
	if (f->len >= FPISA_PAYLOAD_OFFSET)
		harness_hdr(f)->rank = (uint16_t)vectors_below(rng, 66);
}

static void other_type(struct vectors_rng *rng, struct frame *f)
{
	if (f->len >= FPISA_PAYLOAD_OFFSET)
		harness_hdr(f)->type = (uint8_t)(vectors_below(rng, 8) +
						 16 * vectors_below(rng, 2)); /* includes the types of queries */
}

static void other_job(struct vectors_rng *rng, struct frame *f)
{
	if (f->len >= FPISA_PAYLOAD_OFFSET)
		harness_hdr(f)->job = vectors_below(rng, FPISA_MAX_JOBS + 2);
}

/* Choose another chunk, and the slot that fits the chunk in a window that the frame's slot allows. */
static void other_chunk(struct vectors_rng *rng, struct frame *f)
{
	struct fpisa_hdr *h = harness_hdr(f);

	if (f->len < FPISA_PAYLOAD_OFFSET)
		return;
	h->chunk += (vectors_below(rng, 9) - 4ull) * 4;
	h->slot = fpisa_slot_of(h->chunk, 1u << vectors_below(rng, 4));
}

uint64_t mutate_factor(struct vectors_rng *rng, bool narrow)
{
	uint64_t fraction = vectors_next(rng) >> 12, sign = (uint64_t)vectors_below(rng, 2) << 63;
	uint64_t e = vectors_below(rng, 2) ? 1013 + vectors_below(rng, 20) : vectors_below(rng, 0x7ff);

	if (narrow)
		fraction &= ~((1ull << 29) - 1);
	/* A factor of zero is invalid. */
	return sign | (e + (!e && !fraction)) << 52 | fraction;
}

/*
 * Choose another operation, or an unknown one. Take the operand that the new operation needs, or keep the current
 * operand.
 */
static void other_op(struct vectors_rng *rng, struct frame *f)
{
	struct fpisa_hdr *h = harness_hdr(f);

	if (f->len < FPISA_PAYLOAD_OFFSET)
		return;
	h->op = (uint8_t)vectors_below(rng, FPISA_OP_END + 1);
	if (vectors_below(rng, 4))
		h->aux = h->op == FPISA_OP_SCALE ? mutate_factor(rng, h->format != FPISA_FORMAT_FP64) : 0;
}

/* Choose a factor that is valid for all formats, only for fp64, or for none. */
static void other_factor(struct vectors_rng *rng, struct frame *f)
{
	static const uint64_t none[] = {
		0, 1ull << 63, 0x7ffull << 52, 0xfffull << 52, 0x7ff8ull << 48, 0x7ffull << 52 | 1,
	};
	uint32_t kind = vectors_below(rng, 3);

	if (f->len < FPISA_PAYLOAD_OFFSET)
		return;
	harness_hdr(f)->aux = kind ? mutate_factor(rng, kind == 1) : none[vectors_below(rng, COUNT(none))];
}

static void other_count(struct vectors_rng *rng, struct frame *f)
{
	if (f->len >= FPISA_PAYLOAD_OFFSET)
		harness_hdr(f)->count = (uint16_t)(32 * vectors_below(rng, 30));
}

static void truncate(struct vectors_rng *rng, struct frame *f)
{
	f->len = LEAST + vectors_below(rng, f->len - LEAST + 1);
}

static void truncate_whole(struct vectors_rng *rng, struct frame *f)
{
	truncate(rng, f);
	agree(f);
}

static void pad(struct vectors_rng *rng, struct frame *f)
{
	uint32_t n = 1 + vectors_below(rng, vectors_below(rng, 2) ? 64 : 1024);

	for (; n && f->len < FPISA_MAX_FRAME; n--)
		f->data[f->len++] = (uint8_t)vectors_next(rng);
}

static void pad_whole(struct vectors_rng *rng, struct frame *f)
{
	pad(rng, f);
	agree(f);
}

static void bits(struct vectors_rng *rng, struct frame *f)
{
	for (uint32_t n = 1 + vectors_below(rng, 8); n; n--)
		f->data[vectors_below(rng, f->len)] ^= (uint8_t)(1u << vectors_below(rng, 8));
}

static void bytes(struct vectors_rng *rng, struct frame *f)
{
	uint32_t at = vectors_below(rng, f->len), n = 1 + vectors_below(rng, 16);

	for (; n && at < f->len; n--)
		f->data[at++] = (uint8_t)vectors_next(rng);
}

static void noise(struct vectors_rng *rng, struct frame *f)
{
	uint32_t from = vectors_below(rng, 3) * (FPISA_OFFSET / 2);

	for (uint32_t i = from; i < f->len; i++)
		f->data[i] = (uint8_t)vectors_next(rng);
}

static const struct {
	const char *name;
	void (*change)(struct vectors_rng *rng, struct frame *f);
	uint32_t weight;
} mutations[] = {
	{"field", field, 24},
	{"ether_type", ether_type, 2},
	{"mac", mac, 1},
	{"vlan", vlan, 2},
	{"ip_options", ip_options, 2},
	{"ipv6", ipv6, 2},
	{"ip_byte", ip_byte, 4},
	{"ecn", ecn, 3},
	{"fragment", fragment, 3},
	{"ip_length", ip_length, 2},
	{"udp_length", udp_length, 2},
	{"both_lengths", both_lengths, 3},
	{"port", port, 3},
	{"other_port", other_port, 3},
	{"udp_checksum", udp_checksum, 1},
	{"source", source, 3},
	{"destination", destination, 2},
	{"other_rank", other_rank, 4},
	{"other_type", other_type, 3},
	{"other_job", other_job, 3},
	{"other_chunk", other_chunk, 5},
	{"other_count", other_count, 3},
	{"other_op", other_op, 4},
	{"other_factor", other_factor, 3},
	{"truncate", truncate, 3},
	{"truncate_whole", truncate_whole, 4},
	{"pad", pad, 3},
	{"pad_whole", pad_whole, 3},
	{"bits", bits, 6},
	{"bytes", bytes, 4},
	{"noise", noise, 2},
};

void mutate(struct vectors_rng *rng, struct frame *f, int times, char *names)
{
	uint32_t all = 0;

	names[0] = 0;
	for (size_t k = 0; k < COUNT(mutations); k++)
		all += mutations[k].weight;
	while (times--) {
		uint32_t pick = vectors_below(rng, all);
		size_t k = 0;

		for (; pick >= mutations[k].weight; k++)
			pick -= mutations[k].weight;
		mutations[k].change(rng, f);
		strncat(names, " ", MUTATE_NAMES - strlen(names) - 1);
		strncat(names, mutations[k].name, MUTATE_NAMES - strlen(names) - 1);
	}
}

void mutate_repair(struct frame *f, bool ip, bool fpisa)
{
	struct frame whole;
	uint32_t len;

	if (f->len < FPISA_PAYLOAD_OFFSET)
		return;
	whole.len = f->len;
	memcpy(whole.data, f->data, f->len);
	/* The aggregator sums the bytes that the UDP length covers. */
	len = get16(f->data + UDP_LEN) + FPISA_ETH_LEN + FPISA_IP_LEN;
	if (len >= FPISA_PAYLOAD_OFFSET && len < whole.len)
		whole.len = len;
	harness_set_checksums(&whole);
	if (ip)
		memcpy(f->data + 24, whole.data + 24, 2);
	if (fpisa)
		harness_hdr(f)->checksum = harness_hdr(&whole)->checksum;
}

void mutate_widen_address(struct fpisa_address *address)
{
	static const uint8_t prefix[12] = {0x20, 1, 0xd, 0xb8, 0, 7, 0x80};

	memcpy(address->b, prefix, sizeof(prefix));
}

void mutate_to_ipv6(struct vectors_rng *rng, struct frame *f)
{
	uint8_t *ip = f->data + FPISA_ETH_LEN, old[FPISA_IP_LEN];
	struct fpisa_address from, to;
	uint32_t label = vectors_below(rng, 1 << 20);

	if (f->len < FPISA_OFFSET || f->len + 20 > FPISA_MAX_FRAME || get16(f->data + 12) != ETH_P_IP)
		return;
	memcpy(old, ip, sizeof(old));
	insert(f, FPISA_ETH_LEN, 20);
	put16(f->data + 12, ETH_P_IPV6);
	ip[0] = (uint8_t)((old[0] == 0x45 ? 0x60 : old[0] & 0xf0) | old[1] >> 4);
	ip[1] = (uint8_t)(old[1] << 4 | label >> 16);
	put16(ip + 2, label & 0xffff);
	put16(ip + 4, get16(old + 2) - FPISA_IP_LEN);
	ip[6] = get16(old + 6) & 0x3fff ? IPPROTO_FRAGMENT : old[9];
	ip[7] = old[8];
	memcpy(&from.w[3], old + 12, 4);
	memcpy(&to.w[3], old + 16, 4);
	mutate_widen_address(&from);
	mutate_widen_address(&to);
	memcpy(ip + 8, &from, sizeof(from));
	memcpy(ip + 24, &to, sizeof(to));
}

void mutate_ipv6(struct vectors_rng *rng, struct frame *f)
{
	static const uint8_t next[] = {0, 17, 43, 44, 50, 51, 58, 59, 60, 135, 139, 140};

	switch (vectors_below(rng, 3)) {
	case 0:
		change(rng, f, FPISA_ETH_LEN + vectors_below(rng, FPISA_IPV6_LEN), 1, true);
		break;
	case 1:
		if (f->len > FPISA_ETH_LEN + 6)
			f->data[FPISA_ETH_LEN + 6] = next[vectors_below(rng, COUNT(next))];
		break;
	default:
		truncate(rng, f);
	}
}

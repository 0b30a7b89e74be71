/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * An address of either family. An IPv4 address is the mapped IPv6 address ::ffff:a.b.c.d (RFC 4291, section 2.5.5.2), so
 * addresses of both families are compared and summed alike. The address :: stands for no address.
 */
#ifndef FPISA_ADDRESS_TYPE_H
#define FPISA_ADDRESS_TYPE_H

#include "base.h"

/* sparse distinguishes __be32 and __be16 from plain numbers (tests/lint/sparse); no byte is moved. */
#ifdef __CHECKER__
#define FPISA_FORCE __attribute__((force))
#else
#define FPISA_FORCE
#endif

struct fpisa_address {
	union {
		__u64 d[2];
		__be32 w[4]; /* w[3]: the IPv4 address */
		__u8 b[16];
	};
};

#define FPISA_NO_ADDRESS ((struct fpisa_address){.d = {0, 0}})

#define FPISA_MAPPED 0xffff0000u /* w[2] of an IPv4 address, as a number on a little-endian host */

static __always_inline struct fpisa_address fpisa_ipv4(__be32 a)
{
	return (struct fpisa_address){.d = {0, (__u64)(FPISA_FORCE __u32)a << 32 | FPISA_MAPPED}};
}

static __always_inline int fpisa_is_ipv4(const struct fpisa_address *a)
{
	return !a->d[0] && (__u32)a->d[1] == FPISA_MAPPED;
}

/* Return whether this is an address, and not ::. */
static __always_inline int fpisa_is_address(const struct fpisa_address *a)
{
	return (a->d[0] | a->d[1]) != 0;
}

static __always_inline int fpisa_is_ipv6(const struct fpisa_address *a)
{
	return fpisa_is_address(a) && !fpisa_is_ipv4(a);
}

static __always_inline int fpisa_same_address(const struct fpisa_address *a, const struct fpisa_address *b)
{
	return a->d[0] == b->d[0] && a->d[1] == b->d[1];
}

/*
 * Return the sum of the 16-bit words of an address for UDP's checksum, below 2^34. The words of ::ffff add 0 modulo
 * 65535.
 */
static __always_inline __u64 fpisa_address_sum(const struct fpisa_address *a)
{
	return (a->d[0] & 0xffffffff) + (a->d[0] >> 32) + (a->d[1] & 0xffffffff) + (a->d[1] >> 32);
}

/*
 * Return the flow label of a reply, in the low 20 bits: it depends on the addresses and the port of the receiver (RFC 6437),
 * and is never 0.
 */
static __always_inline __u32 fpisa_flow_label(const struct fpisa_address *from, const struct fpisa_address *to,
					      __be16 port)
{
	__u64 x = (from->d[0] ^ from->d[1]) * 0x9e3779b97f4a7c15ull ^ to->d[0] ^ to->d[1] ^ (FPISA_FORCE __u16)port;

	x = (x ^ x >> 32) * 0xff51afd7ed558ccdull;
	return (__u32)(x >> 44) | 1;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Conversions of addresses and ports in network order between the types of glibc and __be32 and __be16. The types of
 * glibc are plain numbers. sparse distinguishes __be32 and __be16 from numbers in host order (tests/lint/sparse). The
 * conversions do not change any byte.
 */
#ifndef FPISA_ORDER_H
#define FPISA_ORDER_H

#include <linux/types.h>
#include <netinet/in.h>
#include "fpisa/address.h"

static inline __be32 fpisa_be32(in_addr_t address)
{
	return (FPISA_FORCE __be32)address;
}

static inline __be16 fpisa_be16(in_port_t port)
{
	return (FPISA_FORCE __be16)port;
}

static inline in_addr_t fpisa_in_addr(__be32 address)
{
	return (FPISA_FORCE in_addr_t)address;
}

#endif

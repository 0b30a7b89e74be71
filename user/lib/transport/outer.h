/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The headers before the FPISA header, for user space that handles whole frames (AF_XDP). wire.h has their lengths. */
#ifndef FPISA_OUTER_H
#define FPISA_OUTER_H

#include <stdint.h>
#include "fpisa/wire.h"

/* Ethernet, IPv4 without options, UDP; all in network byte order. */
struct outer {
	uint8_t to[6], from[6];
	uint16_t type;
	uint8_t version, tos;
	uint16_t length, id, fragment;
	uint8_t ttl, protocol;
	uint16_t checksum;
	uint32_t source, destination;
	uint16_t source_port, destination_port, udp_length, udp_checksum;
} __attribute__((packed, aligned(2)));

_Static_assert(sizeof(struct outer) == FPISA_OFFSET, "headers before ours");

/* Ethernet, IPv6 without extension headers, UDP; all in network byte order. */
struct outer6 {
	uint8_t to[6], from[6];
	uint16_t type;
	uint32_t class; /* version, traffic class and flow label */
	uint16_t length;
	uint8_t next, hop_limit;
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port, udp_length, udp_checksum;
} __attribute__((packed, aligned(2)));

#define FPISA_OFFSET6 (FPISA_OFFSET - FPISA_IP_LEN + FPISA_IPV6_LEN)

_Static_assert(sizeof(struct outer6) == FPISA_OFFSET6, "headers before ours");

#endif

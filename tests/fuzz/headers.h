/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of the headers below FPISA's, written from doc/wire.md. It predicts the outcome of a frame before its FPISA
 * header is read.
 */
#ifndef HEADERS_H
#define HEADERS_H

#include "fpisa/verdict.h"
#include "harness.h"

/*
 * Return the verdict of doc/wire.md, section 2. `for_us` says that the destination is the address of the job that the
 * frame names, or of any job if the frame names no existing job. `ports` is the number of ports after the first. Set
 * *payload to the bytes after the FPISA header. `known` says that the destination is the address of any job.
 */
enum fpisa_verdict headers_verdict(const struct frame *f, bool for_us, bool known, uint32_t ports, uint32_t *payload);

/*
 * Return whether the IPv4 checksum holds by RFC 1071. The sum of all 16-bit words, with carries added back, must have
 * all bits set.
 */
bool headers_ip_intact(const uint8_t *ip);

/*
 * Store in *in the frame without its VLAN tag, and in *tag the tag's VLAN ID, or -1 if the frame has no tag. Return false
 * if the frame has two tags, or a service tag.
 */
bool headers_untag(const struct frame *sent, struct frame *in, int *tag);

/* Return the FPISA header of a frame of either family without a tag, or NULL if the frame is too short for it. */
const struct fpisa_hdr *headers_fpisa(const struct frame *f);

/* Return whether the frame, of either family and without a tag, has this destination. */
bool headers_to(const struct frame *f, const struct fpisa_address *address);

/* Return by how many bytes the headers after IP are further back than in an IPv4 frame. */
uint32_t headers_shift(const struct frame *f);

/* Return the source address of a frame of either family without a tag, and its ECN bits. */
struct fpisa_address headers_from(const struct frame *f);
uint32_t headers_ecn(const struct frame *f);

/* Return the 16 bits at byte `at` of the frame. */
uint32_t headers_be16(const struct frame *f, uint32_t at);

#endif

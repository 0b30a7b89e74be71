/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structure-aware mutation of frames. Mutations change headers, lengths, tags, fragments, protocols and every field of
 * the FPISA header, and truncate, pad or randomise the frame. Each mutation is a function of the generator's state.
 */
#ifndef MUTATE_H
#define MUTATE_H

#include "harness.h"
#include "vectors.h"

/*
 * Apply `times` mutations to `f` and write their names to *names, which has at
 * least MUTATE_NAMES bytes. A frame stays between 14 bytes and FPISA_MAX_FRAME.
 */
#define MUTATE_NAMES 128
void mutate(struct vectors_rng *rng, struct frame *f, int times, char *names);

/*
 * Return the bits of a factor that operation scale accepts. Half of the factors are near 1. If `narrow`, the factor has
 * only 24 significant bits, which all formats except fp64 require.
 */
uint64_t mutate_factor(struct vectors_rng *rng, bool narrow);

/* Turn an IPv4 address into the IPv6 address that a job over IPv6 has in its place. */
void mutate_widen_address(struct fpisa_address *address);

/*
 * Turn a frame with an IPv4 header, which may be damaged, into one with the IPv6 header that has the same fields, and
 * widened addresses. A fragment gets the number of a fragment header.
 */
void mutate_to_ipv6(struct vectors_rng *rng, struct frame *f);

/* Damage the IPv6 header or cut the frame. */
void mutate_ipv6(struct vectors_rng *rng, struct frame *f);

/* Correct both checksums, as far as the frame's lengths allow. Either may be left out. */
void mutate_repair(struct frame *f, bool ip, bool fpisa);

#endif

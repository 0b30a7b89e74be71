/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structure-aware mutation of frames: headers, lengths, tags, fragments,
 * other protocols, every field of the FPISA header, truncation, padding,
 * random bytes. Everything is a function of the generator's state.
 */
#ifndef MUTATE_H
#define MUTATE_H

#include "harness.h"
#include "vectors.h"

/*
 * Applies `times` mutations to `f`; *names, of at least MUTATE_NAMES bytes, says
 * which. A frame stays between 14 bytes and FPISA_MAX_FRAME.
 */
#define MUTATE_NAMES 128
void mutate(struct vectors_rng *rng, struct frame *f, int times, char *names);

/*
 * The bits of a factor, any that operation scale takes: half of them near 1;
 * `narrow`: of 24 significant bits, as all formats but fp64 want them.
 */
uint64_t mutate_factor(struct vectors_rng *rng, bool narrow);

/* Make both checksums right again, as far as the frame's lengths allow; either may be left out. */
void mutate_repair(struct frame *f, bool ip, bool fpisa);

#endif

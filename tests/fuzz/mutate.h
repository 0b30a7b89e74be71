/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structure-aware mutation of frames: headers, lengths, tags, fragments,
 * other protocols, every field of the FPISA header, truncation, padding,
 * random bytes. Each mutation is a function of the generator's state.
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
 * Return the bits of a factor that operation scale takes. Half of the factors are near 1.
 * `narrow`: only 24 significant bits, as all formats but fp64 need.
 */
uint64_t mutate_factor(struct vectors_rng *rng, bool narrow);

/* Make both checksums right again, as far as the frame's lengths allow. Either may be left out. */
void mutate_repair(struct frame *f, bool ip, bool fpisa);

#endif

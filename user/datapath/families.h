/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_FAMILIES_H
#define FPISA_FAMILIES_H

#include <stddef.h>

/*
 * The BPF object of a family (include/fpisa/job.h, fpisa_family()) and its
 * size in bytes; NULL for family 0, which is fpisa.o's, and for unknown ones.
 */
const void *family_object(unsigned int family, size_t *size);

/* "w4c8": bytes of a lane, then bits of the register or limbs of a superaccumulator; NULL: no such family. */
const char *family_name(unsigned int family);

#endif

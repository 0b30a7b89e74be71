/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_FAMILIES_H
#define FPISA_FAMILIES_H

#include <stddef.h>

/*
 * Return the BPF object of a family (include/fpisa/job.h, fpisa_family()) and its size in bytes. Return NULL for family
 * 0, which is in fpisa.o, and for unknown families.
 */
const void *family_object(unsigned int family, size_t *size);

/*
 * Return "w4c8": bytes of a lane, then bits of the register or limbs of a superaccumulator. Return NULL if the family
 * does not exist.
 */
const char *family_name(unsigned int family);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Decimals: an integer in two's complement and a scale, the number of its digits after the point. Values have 128
 * bits, sums 192; the low word comes first. Nothing is rounded, except an average.
 */
#ifndef FPISA_QUERY_DECIMAL_H
#define FPISA_QUERY_DECIMAL_H

#include <stddef.h>
#include <linux/types.h>
#include "fpisa/names.h"

/* Bytes of a sum or an average as text: 58 digits, or 39 before the point and 92 after it; a sign, a point, the 0. */
#define FPISA_DECIMAL_TEXT 136

/*
 * Parse [+-]DIGITS[.DIGITS] or [+-].DIGITS, of `len` bytes, as a decimal with `precision` digits, 1 to
 * FPISA_DECIMAL_MOST, `scale` of them after the point. Return 0, -EINVAL if the text is not such a number, or -ERANGE
 * if it has more digits before the point, or digits other than 0 beyond the scale.
 */
int fpisa_decimal_parse(const char *text, size_t len, unsigned int precision, unsigned int scale, __u64 value[2]);

/* Write the sum of integers with that scale. */
void fpisa_decimal_text(const __u64 sum[3], unsigned int scale, char text[FPISA_DECIMAL_TEXT]);

/*
 * Write the sum divided by `count`, 1 to 2^63 - 1, with the digits and the rounding of PostgreSQL's avg(numeric): at
 * least 16 significant digits, at least `scale` after the point, half away from zero.
 */
void fpisa_decimal_average(const __u64 sum[3], unsigned int scale, __u64 count, char text[FPISA_DECIMAL_TEXT]);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Decimal numbers. A decimal is an integer in two's complement with a scale, which is the number of digits after the
 * point. Values have 128 bits and sums have 192 bits. The low word comes first. Only averages are rounded.
 */
#ifndef FPISA_QUERY_DECIMAL_H
#define FPISA_QUERY_DECIMAL_H

#include <stddef.h>
#include <linux/types.h>
#include "fpisa/names.h"

/*
 * Maximum size in bytes of a sum or an average as text. A sum has up to 58 digits. An average has up to 39 digits before the
 * point and 92 after it. Both need a sign, a point and the terminating 0.
 */
#define FPISA_DECIMAL_TEXT 136

/*
 * Parse [+-]DIGITS[.DIGITS] or [+-].DIGITS of `len` bytes as a decimal. `precision` is the number of digits, 1 to
 * FPISA_DECIMAL_MOST, and `scale` the number of digits after the point. Return -EINVAL if the text is not such a
 * number. Return -ERANGE if there are more digits before the point, or nonzero digits beyond the scale. Otherwise
 * return 0.
 */
int fpisa_decimal_parse(const char *text, size_t len, unsigned int precision, unsigned int scale, __u64 value[2]);

/* Write a sum of integers with this scale. */
void fpisa_decimal_text(const __u64 sum[3], unsigned int scale, char text[FPISA_DECIMAL_TEXT]);

/*
 * Write the sum divided by `count`, which is 1 to 2^63 - 1. Use the digits and the rounding of PostgreSQL's
 * avg(numeric). The result has at least 16 significant digits and at least `scale` digits after the point. A half is
 * rounded away from zero.
 */
void fpisa_decimal_average(const __u64 sum[3], unsigned int scale, __u64 count, char text[FPISA_DECIMAL_TEXT]);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Decimals. decimal.h documents the functions. */
#include <errno.h>
#include <string.h>
#include "decimal.h"

#define GROUP 4	       /* PostgreSQL's numeric has digits of base 10^4 */
#define SIGNIFICANT 16 /* minimum number of significant digits of a quotient, as PostgreSQL's NUMERIC_MIN_SIG_DIGITS */
#define SUM_DIGITS 58  /* number of digits of 2^191 */
#define DIGITS (SUM_DIGITS + 3 * FPISA_DECIMAL_MOST)

/* -- reading ------------------------------------------------------------------------ */

struct number {
	unsigned __int128 value;
	unsigned int digits;
};

/* Append a digit. Return -ERANGE if the number has more than `most` digits, not counting leading zeros. */
static int append(struct number *n, char digit, unsigned int most)
{
	if (!n->digits && digit == '0')
		return 0;
	if (n->digits == most)
		return -ERANGE;
	n->digits++;
	n->value = 10 * n->value + (unsigned int)(digit - '0');
	return 0;
}

/* Append at most `scale` digits from *at, and pad them with zeros up to the scale. Any digits after these must be 0. */
static int take_fraction(struct number *n, const char **at, const char *end, unsigned int precision, unsigned int scale)
{
	unsigned int taken = 0;
	int rc = 0, beyond = 0;

	for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
		if (taken < scale)
			rc |= append(n, **at, precision);
		else
			beyond |= **at != '0';
		taken += taken < scale;
	}
	for (; taken < scale; taken++)
		rc |= append(n, '0', precision);
	return beyond ? -ERANGE : rc;
}

int fpisa_decimal_parse(const char *text, size_t len, unsigned int precision, unsigned int scale, __u64 value[2])
{
	const char *end = text + len, *at = text, *digits;
	struct number n = {0};
	int rc = 0, behind = 0;
	size_t before;

	at += at < end && (*at == '-' || *at == '+');
	digits = at;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		rc |= append(&n, *at, precision - scale);
	before = (size_t)(at - digits);
	if (at < end && *at == '.') {
		digits = ++at;
		rc |= take_fraction(&n, &at, end, precision, scale);
		behind = at > digits;
	} else {
		rc |= take_fraction(&n, &at, at, precision, scale);
	}
	if (at != end || (!before && !behind))
		return -EINVAL;
	if (len && *text == '-')
		n.value = -n.value;
	value[0] = (__u64)n.value;
	value[1] = (__u64)(n.value >> 64);
	return rc;
}

/* -- writing ------------------------------------------------------------------------ */

/* The digits of a magnitude. The first digit is not 0, unless the scale requires more digits. */
struct digits {
	char digit[DIGITS];
	unsigned int n;
	int negative;
};

/* Divide the magnitude by 10^18. Return the remainder. */
static __u64 divide(__u64 x[3])
{
	const __u64 by = 1000000000000000000u;
	unsigned __int128 rest = 0;

	for (int i = 2; i >= 0; i--) {
		rest = rest << 64 | x[i];
		x[i] = (__u64)(rest / by);
		rest %= by;
	}
	return (__u64)rest;
}

static void negate(__u64 x[3])
{
	unsigned int carry = 1;

	for (int i = 0; i < 3; i++) {
		x[i] = ~x[i] + carry;
		carry = carry && !x[i];
	}
}

static struct digits digits_of(const __u64 sum[3])
{
	__u64 x[3] = {sum[0], sum[1], sum[2]};
	char reversed[4 * 18];
	struct digits d = {.negative = (int)(sum[2] >> 63)};
	unsigned int n = 0;

	if (d.negative)
		negate(x);
	while (x[0] | x[1] | x[2]) {
		__u64 part = divide(x);

		for (int i = 0; i < 18; i++, part /= 10)
			reversed[n++] = (char)(part % 10);
	}
	while (n && !reversed[n - 1])
		n--;
	while (n)
		d.digit[d.n++] = reversed[--n];
	return d;
}

/* Write the digits, with `scale` digits after the point. Add zeros if there are too few digits. */
static void write_digits(const struct digits *d, unsigned int scale, char *to)
{
	unsigned int before = d->n > scale ? d->n - scale : 0, at = 0;

	if (d->negative)
		*to++ = '-';
	if (!before)
		*to++ = '0';
	while (at < before)
		*to++ = (char)('0' + d->digit[at++]);
	if (scale)
		*to++ = '.';
	for (unsigned int zeros = scale - (d->n - before); zeros; zeros--)
		*to++ = '0';
	while (at < d->n)
		*to++ = (char)('0' + d->digit[at++]);
	*to = 0;
}

void fpisa_decimal_text(const __u64 sum[3], unsigned int scale, char text[FPISA_DECIMAL_TEXT])
{
	const struct digits d = digits_of(sum);

	write_digits(&d, scale, text);
}

/* -- averages ------------------------------------------------------------------------- */

/*
 * Return the weight of the number's first digit in base 10^4, and set *first to that digit. The number 0 has weight 0.
 */
static int weight_of(const struct digits *d, unsigned int scale, int *first)
{
	int exponent = (int)d->n - 1 - (int)scale,
	    weight = exponent >= 0 ? exponent / GROUP : -((GROUP - 1 - exponent) / GROUP);
	int take = exponent - weight * GROUP + 1;

	*first = 0;
	if (!d->n)
		return 0;
	for (int i = 0; i < take; i++)
		*first = 10 * *first + (i < (int)d->n ? d->digit[i] : 0);
	return weight;
}

/* Return the number of digits after the point of a quotient, like PostgreSQL's select_div_scale(). */
static unsigned int quotient_scale(const struct digits *sum, unsigned int scale, __u64 count)
{
	const __u64 wide[3] = {count};
	const struct digits by = digits_of(wide);
	int a, b, weight = weight_of(sum, scale, &a) - weight_of(&by, 0, &b), more;

	more = SIGNIFICANT - (weight - (a <= b)) * GROUP;
	return more > (int)scale ? (unsigned int)more : scale;
}

/* Add one to the last digit. */
static void round_up(struct digits *d)
{
	unsigned int i = d->n;

	while (i && d->digit[i - 1] == 9)
		d->digit[--i] = 0;
	if (i) {
		d->digit[i - 1]++;
		return;
	}
	memmove(d->digit + 1, d->digit, d->n++);
	d->digit[0] = 1;
}

void fpisa_decimal_average(const __u64 sum[3], unsigned int scale, __u64 count, char text[FPISA_DECIMAL_TEXT])
{
	const struct digits d = digits_of(sum);
	unsigned int to = quotient_scale(&d, scale, count);
	struct digits q = {.negative = d.negative};
	unsigned __int128 rest = 0;

	for (unsigned int i = 0; i < d.n + to - scale; i++) {
		unsigned int digit;

		rest = 10 * rest + (unsigned int)(i < d.n ? d.digit[i] : 0);
		digit = (unsigned int)(rest / count);
		rest %= count;
		if (q.n || digit)
			q.digit[q.n++] = (char)digit;
	}
	if (2 * rest >= count)
		round_up(&q);
	q.negative &= q.n > 0;
	write_digits(&q, to, text);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Accumulators of superacc.h with all limbs that doubles need, so that an add never fails. */
#include "internal.h"

__u64 sums_size(void)
{
	return sizeof(union fpisa_superacc_full);
}

void sums_init(union fpisa_superacc_full *a)
{
	fpisa_superacc_init(&a->acc, sizeof(*a));
	a->acc.limbs = FPISA_SUPERACC_MOST;
}

void sums_add_scaled(union fpisa_superacc_full *a, __int128 v, int exponent)
{
	unsigned __int128 m = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
	const __s64 sign = v < 0 ? -1 : 1;
	__u32 at = (__u32)(exponent - fpisa_superacc_quantum(sums_format()));
	__s64 *limb = a->acc.limb + (at >> 5);

	if (a->acc.waiting >= FPISA_SUPERACC_ADDS)
		(void)fpisa_superacc_carry(&a->acc);
	/* Take 32 bits of m at a time. After the shift they are below 2^63 and affect two limbs. */
	for (; m; m >>= 32, limb++) {
		__u64 part = (__u64)(__u32)m << (at & 31);

		limb[0] += sign * (__s64)(__u32)part;
		if (part >> 32)
			limb[1] += sign * (__s64)(part >> 32);
	}
	a->acc.waiting++;
}

int sums_merge(union fpisa_superacc_full *a, const union fpisa_superacc_full *b)
{
	union fpisa_superacc_full copy = *b;

	/* The uppermost limb of a full window is far from full, so the window is always sufficient. */
	(void)fpisa_superacc_carry(&copy.acc);
	return fpisa_superacc_merge(&a->acc, &copy.acc);
}

__u64 sums_read(const union fpisa_superacc_full *a, int format, int average)
{
	struct fpisa_format to = fpisa_format_of((__u8)format);
	__u32 flags = 0;

	to.rbits = 64;
	if (average && !a->acc.rows)
		return fpisa_special(FPISA_EXP_NAN, to, &flags);
	return fpisa_superacc_read(&a->acc, sums_format(), to, average, &flags);
}

__u32 sums_store(const union fpisa_superacc_full *a, int format, int average, void *out)
{
	__u64 bits = sums_read(a, format, average);
	__u32 bytes = fpisa_format_of((__u8)format).bytes;

	memcpy(out, &bits, bytes);
	return bytes;
}

__u32 sums_write(const union fpisa_superacc_full *a, __u8 out[FPISA_PARTIAL_MOST])
{
	return fpisa_partial_write(&a->acc, sums_format(), out);
}

int sums_parse(union fpisa_superacc_full *a, const void *bytes, __u64 size, const char **why)
{
	return fpisa_partial_read(bytes, size, sums_format(), a, why);
}

void sums_enter(char had[SUMS_ENVIRONMENT_BYTES])
{
	const sums_environment env = sums_environment_default();

	_Static_assert(sizeof(env) <= SUMS_ENVIRONMENT_BYTES, "the caller's memory is too small");
	memcpy(had, &env, sizeof(env));
}

void sums_leave(const char had[SUMS_ENVIRONMENT_BYTES])
{
	sums_environment env;

	memcpy(&env, had, sizeof(env));
	sums_environment_restore(env);
}

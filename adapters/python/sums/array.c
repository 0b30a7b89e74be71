/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Read arrays of any type, stride and validity as doubles whose sum is exactly the sum of the values. */
#include <stdint.h>

#include "internal.h"

/* Types of values at addresses of any alignment. */
#define UNALIGNED(T) T __attribute__((aligned(1), may_alias))
typedef UNALIGNED(double) at_float64;
typedef UNALIGNED(float) at_float32;
typedef UNALIGNED(__u16) at_float16;
typedef UNALIGNED(__u16) at_bfloat16;
typedef UNALIGNED(__s8) at_int8;
typedef UNALIGNED(__u8) at_uint8;
typedef UNALIGNED(__s16) at_int16;
typedef UNALIGNED(__u16) at_uint16;
typedef UNALIGNED(__s32) at_int32;
typedef UNALIGNED(__u32) at_uint32;
typedef UNALIGNED(__s64) at_int64;
typedef UNALIGNED(__u64) at_uint64;

static __always_inline double of_float32(__u32 bits)
{
	float x;

	__builtin_memcpy(&x, &bits, sizeof(x));
	return (double)x;
}

static __always_inline double bfloat16(__u16 bits)
{
	return of_float32((__u32)bits << 16);
}

/*
 * Read the bits as a float32 and multiply it by 2^112. This is also right for
 * subnormals. Infinities and NaN are converted separately, because they would
 * get the exponent of 2^16.
 */
static __always_inline double float16(__u16 bits)
{
	const __u32 sign = (__u32)(bits & 0x8000) << 16, rest = (__u32)(bits & 0x7fff) << 13;
	const double finite = of_float32(sign | rest) * 0x1p112, special = of_float32(sign | 0x7f800000 | rest);

	return rest >= 0x0f800000 ? special : finite;
}

#define ITSELF(x) ((double)(x))
#define TRUTH(x) ((double)((x) != 0))
/* X(number, type in memory, conversion to a double). 64-bit integers are not in the list. */
#define TYPES(X)                                \
	X(SUMS_FLOAT64, at_float64, ITSELF)     \
	X(SUMS_FLOAT32, at_float32, ITSELF)     \
	X(SUMS_FLOAT16, at_float16, float16)    \
	X(SUMS_BFLOAT16, at_bfloat16, bfloat16) \
	X(SUMS_INT8, at_int8, ITSELF)           \
	X(SUMS_UINT8, at_uint8, ITSELF)         \
	X(SUMS_INT16, at_int16, ITSELF)         \
	X(SUMS_UINT16, at_uint16, ITSELF)       \
	X(SUMS_INT32, at_int32, ITSELF)         \
	X(SUMS_UINT32, at_uint32, ITSELF)       \
	X(SUMS_BOOL, at_uint8, TRUTH)

__u32 sums_type_size(int type)
{
	switch (type) {
#define SIZE(number, T, convert) \
	case number:             \
		return sizeof(T);
		TYPES(SIZE)
#undef SIZE
	case SUMS_INT64:
	case SUMS_UINT64:
		return 8;
	default:
		return 0;
	}
}

/* Fetch the values as doubles. A null becomes 0. */
size_t sums_fetch_all(const struct sums_array *x, __s64 at, size_t n, double *out)
{
	const char *p = x->data + at * x->stride;
	size_t valid = n;

	switch (x->type) {
#define FETCH(number, T, convert)                                                         \
	case number:                                                                      \
		if (x->stride == sizeof(T))                                               \
			for (size_t i = 0; i < n; i++)                                    \
				out[i] = convert(((const T *)p)[i]);                      \
		else                                                                      \
			for (size_t i = 0; i < n; i++)                                    \
				out[i] = convert(*(const T *)(p + (__s64)i * x->stride)); \
		break;
		TYPES(FETCH)
#undef FETCH
	}
	for (size_t i = 0; x->valid && i < n; i++) {
		if (!sums_is_valid(x, at + (__s64)i)) {
			out[i] = 0;
			valid--;
		}
	}
	return valid;
}

int sums_halves(const struct sums_array *x, struct sums_array half[2])
{
	half[0] = half[1] = *x;
	if (x->type < SUMS_INT64)
		return 1;
	half[0].type = SUMS_UINT32;
	half[1].data += 4;
	half[1].type = x->type == SUMS_INT64 ? SUMS_INT32 : SUMS_UINT32;
	return 2;
}

/*
 * Add the halves of 64-bit integers separately. Sums of INTEGERS halves cannot overflow. Return the number of values
 * that are not null.
 */
#define INTEGERS (1ll << 30)
static __u64 add_integers(struct sums_run *r, const struct sums_array *x, __s64 from, __s64 n)
{
	const int is_signed = x->type == SUMS_INT64;
	const char *p = x->data + from * x->stride;
	__s64 high = 0, low = 0;
	__u64 rows = 0;

	for (__s64 i = from; i < from + n; i++, p += x->stride) {
		const __u64 bits = *(const at_uint64 *)p;

		if (!sums_is_valid(x, i))
			continue;
		high += is_signed ? (__s64)bits >> 32 : (__s64)(bits >> 32);
		low += (__u32)bits;
		rows++;
	}
	sums_add_scaled(r->a, high * ((__int128)1 << 32) + low, 0);
	return rows;
}

/* Return whether C code can read the values as an aligned, contiguous array. */
static int is_plain(const struct sums_array *x)
{
	const __u32 size = sums_type_size(x->type);

	return !x->valid && x->type <= SUMS_FLOAT32 && x->stride == (__s64)size && !((uintptr_t)x->data % size);
}

__u64 sums_run_array(struct sums_run *r, const struct sums_array *x)
{
	double buffer[SUMS_BLOCK];
	__u64 rows = 0;

	if (is_plain(x)) {
		if (x->type == SUMS_FLOAT64)
			sums_run_add64(r, (const double *)x->data, (size_t)x->n);
		else
			sums_run_add32(r, (const float *)x->data, (size_t)x->n);
		return (__u64)x->n;
	}
	if (x->type >= SUMS_INT64) {
		for (__s64 at = 0; at < x->n; at += INTEGERS)
			rows += add_integers(r, x, at, x->n - at < INTEGERS ? x->n - at : INTEGERS);
		return rows;
	}
	for (__s64 at = 0; at < x->n; at += SUMS_BLOCK) {
		size_t n = x->n - at < SUMS_BLOCK ? (size_t)(x->n - at) : SUMS_BLOCK;

		rows += sums_fetch_all(x, at, n, buffer);
		sums_run_add64(r, buffer, n);
	}
	return rows;
}

int sums_add(union fpisa_superacc_full *a, const struct sums_array *x)
{
	const __u64 had = a->acc.rows;
	struct sums_run run;
	sums_environment env;
	__u64 rows;

	if (!sums_type_size(x->type) || x->n < 0)
		return -EINVAL;
	if ((had + (__u64)x->n) >> 63)
		return -ERANGE;
	env = sums_environment_default();
	sums_run_begin(&run, a);
	rows = sums_run_array(&run, x);
	sums_run_end(&run);
	sums_environment_restore(env);
	a->acc.rows = had + rows;
	return 0;
}

/* Add integers of `last` + 1 digits. Return the number of integers that are not null. */
static __always_inline __s64 add_digits(const at_uint32 *x, int last, __s64 n, const struct sums_array *validity,
					__s64 *digits)
{
	__s64 sum[8] = {0}, rows = 0;

	for (__s64 i = 0; i < n; i++, x += last + 1) {
		if (validity->valid && !sums_is_valid(validity, i))
			continue;
		for (int j = 0; j < last; j++)
			sum[j] += x[j];
		sum[last] += (__s32)x[last];
		rows++;
	}
	for (int j = 0; j <= last; j++)
		digits[j] += sum[j];
	return rows;
}

__s64 sums_decimals(const void *data, int bits, __s64 n, const __u8 *valid, __s64 valid_offset, __s64 *digits)
{
	const struct sums_array validity = {.valid = valid, .valid_offset = valid_offset};

	switch (bits) {
	case 32:
		return add_digits(data, 0, n, &validity, digits);
	case 64:
		return add_digits(data, 1, n, &validity, digits);
	case 128:
		return add_digits(data, 3, n, &validity, digits);
	case 256:
		return add_digits(data, 7, n, &validity, digits);
	default:
		return -EINVAL;
	}
}

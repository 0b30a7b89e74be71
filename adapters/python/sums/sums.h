/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Exact sums of arrays. The Python package calls these functions through ctypes (fpisa/_core.py).
 *
 * Every function is reentrant, because it uses only its arguments and the thread's
 * floating-point environment. The functions set this environment to the default and restore it
 * afterwards. Functions that return int return 0 or -errno. The bits of a result depend only on
 * the values. The CPU, the method, the order and the number of calls do not change them,
 * because every method adds exactly (include/fpisa/superacc.h) and only the last step rounds.
 */
#ifndef SUMS_H
#define SUMS_H

#include "fpisa/partial.h"

#define SUMS_API __attribute__((visibility("default")))

/* The type of a value in memory. The numbers are part of the interface with Python. */
enum sums_type {
	SUMS_FLOAT64,
	SUMS_FLOAT32,
	SUMS_FLOAT16,
	SUMS_BFLOAT16,
	SUMS_INT8,
	SUMS_UINT8,
	SUMS_INT16,
	SUMS_UINT16,
	SUMS_INT32,
	SUMS_UINT32,
	SUMS_BOOL, /* one byte, which means false if it is 0, and true otherwise */
	SUMS_INT64,
	SUMS_UINT64,
	SUMS_TYPES,
};

/* A one-dimensional array of any alignment. */
struct sums_array {
	const char *data;
	__s64 n;      /* number of values, including nulls */
	__s64 stride; /* bytes from a value to the next, may be negative */
	/* Arrow's validity bitmap, starting with bit 0 of byte 0; a 0 bit means null; NULL if there are no nulls */
	const __u8 *valid;
	__s64 valid_offset; /* number of bits before the bit of the first value */
	__s32 type;	    /* enum sums_type */
};

/* Return the size of an accumulator in bytes. */
SUMS_API __u64 sums_size(void);
SUMS_API void sums_init(union fpisa_superacc_full *a);

/*
 * Add all values that are not null. Return -EINVAL if the type is unknown, -ERANGE if there are more than 2^63 - 1
 * values, or -ENOMEM.
 */
SUMS_API int sums_add(union fpisa_superacc_full *a, const struct sums_array *x);

/* Add b to a. Return -ERANGE if there are more than 2^63 - 1 values. */
SUMS_API int sums_merge(union fpisa_superacc_full *a, const union fpisa_superacc_full *b);

/*
 * Return the bits of the sum, or of the average, in the format FPISA_FORMAT_*,
 * rounded once to nearest even. The average of no values is NaN.
 */
SUMS_API __u64 sums_read(const union fpisa_superacc_full *a, int format, int average);

/* The struct Py_buffer of Python's stable ABI. */
struct sums_view {
	char *memory;
	void *object;
	__s64 bytes, item_bytes;
	int read_only, ndim;
	char *format;
	__s64 *shape, *stride, *suboffset;
	void *internal;
};

/* Functions of the calling Python, because this library is not linked with Python. */
struct sums_python {
	int (*get_buffer)(void *object, struct sums_view *view, int flags);
	void (*release_buffer)(struct sums_view *view);
	void *(*save_thread)(void);
	void (*restore_thread)(void *thread);
};

/*
 * Return the sum or the average, rounded to float64, of an object that is a one-dimensional buffer of float64, float32
 * or float16. Return NaN for other objects, so the caller must check the object if the result is NaN. If the object is
 * not a buffer, Python's error is set. The caller must hold the interpreter's lock, which is released for large
 * buffers.
 */
SUMS_API double sums_once(void *object, int average, const struct sums_python *python);

/* Write and parse a partial (doc/partial.md). sums_write() returns the number of bytes written. */
SUMS_API __u32 sums_write(const union fpisa_superacc_full *a, __u8 out[FPISA_PARTIAL_MOST]);
SUMS_API int sums_parse(union fpisa_superacc_full *a, const void *bytes, __u64 size, const char **why);

/*
 * Add the products x[i] * y[i] of pairs without nulls. Products of doubles may have
 * exponents outside the range of a superaccumulator. So a[0] has the unit 1, a[1] has
 * the unit 2^-1200, and a[2] has the unit 2^1200. Return -EINVAL if x and y differ in
 * length.
 */
#define SUMS_DOT_SCALE 1200
SUMS_API int sums_dot(union fpisa_superacc_full a[3], const struct sums_array *x, const struct sums_array *y);

/*
 * Sum along some axes. There is a result for each place of the axes `outer`, which is the sum over the axes `inner`.
 * Result i goes to out + i * (bytes of the format).
 */
struct sums_axes {
	__s32 ndim;
	const __s64 *shape, *stride; /* ndim entries each; strides are in bytes */
};
SUMS_API int sums_axis(const char *data, int type, const struct sums_axes *outer, const struct sums_axes *inner,
		       int format, int average, void *out);

/*
 * Create sums for groups that are numbered from 0. If `count` is set, also count the values of each group. Return NULL
 * if there is no memory.
 */
struct sums_groups;
SUMS_API struct sums_groups *sums_groups_new(__s64 groups, int count);
SUMS_API void sums_groups_free(struct sums_groups *g);
/* Add x[i] to group code[i], or to no group if the code is negative. Return -ERANGE if a code is not below `groups`. */
SUMS_API int sums_groups_add(struct sums_groups *g, const struct sums_array *x, const __s64 *code);
/*
 * Write the results of all groups to `out`, like sums_axis(). Return -EINVAL for averages if the groups do not count
 * values.
 */
SUMS_API int sums_groups_read(const struct sums_groups *g, int format, int average, void *out);
/* Add the sum of one group to `a`. */
SUMS_API int sums_groups_get(const struct sums_groups *g, __s64 group, union fpisa_superacc_full *a);

/*
 * Sort rows by the numbers of their groups. Row i gets place[i], and the rows of group k get the places from start[k]
 * to start[k + 1] - 1. start[] has groups + 1 entries. place[i] is -1 if the row does not belong to a group. Return
 * -ERANGE if a code is not below `groups`.
 */
SUMS_API int sums_places(const __s64 *code, __s64 n, __s64 groups, __s64 *place, __s64 *start);

/*
 * Copy each x[i] that is not null to its place in `out`, and set the bit of the place in `valid`. The bitmap must be
 * zero before the call.
 */
SUMS_API int sums_arrange(const struct sums_array *x, const __s64 *place, void *out, __u8 *valid);

/*
 * Add signed integers of 32, 64, 128 or 256 bits, such as Arrow's decimals. Nulls are skipped. Digit i in base 2^32 is
 * added to digits[i], and the uppermost digit is signed. `valid` is the same as in struct sums_array. Return the number
 * of integers that are not null, or -EINVAL for other values of `bits`. n must be below 2^31.
 */
SUMS_API __s64 sums_decimals(const void *data, int bits, __s64 n, const __u8 *valid, __s64 valid_offset, __s64 *digits);

/*
 * Number 64-bit keys in the order of their first appearance. Set first[] to the
 * place of each key's first appearance. Return the number of different keys, or
 * -ENOMEM.
 */
SUMS_API __s64 sums_number(const __s64 *key, __s64 n, __s64 *code, __s64 *first);

/*
 * Number the keys in ascending order, and list the different keys in found[], which must have `range` entries. All keys
 * must lie in least..least + range - 1. This is much faster than sums_number() for keys that are close together. If
 * `least` is 0 and there are `range` different keys, keys are their own numbers, and code[] is not written. Return the
 * number of different keys, or -ENOMEM.
 */
SUMS_API __s64 sums_number_near(const __s64 *key, __s64 n, __s64 least, __u32 range, __s64 *code, __s64 *found);

/*
 * Set the thread's floating-point environment to the default, and save the previous environment in had[]. Python's own
 * code needs this, because a thread that flushes subnormals to zero would treat different keys as equal.
 */
#define SUMS_ENVIRONMENT_BYTES 64
SUMS_API void sums_enter(char had[SUMS_ENVIRONMENT_BYTES]);
SUMS_API void sums_leave(const char had[SUMS_ENVIRONMENT_BYTES]);

/*
 * Return the vector unit in use: "avx512", "avx2" or "baseline". If `limit` is not NULL, use at most this unit, for
 * tests.
 */
SUMS_API const char *sums_vectors(const char *limit);

#endif

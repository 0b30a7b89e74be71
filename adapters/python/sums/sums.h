/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Exact sums of arrays: the functions that the Python package calls by ctypes (fpisa/_core.py).
 *
 * Every function is reentrant: it uses only its arguments and the floating-point
 * environment of its thread, which it sets to the default and restores. Functions
 * that return int return 0 or -errno. The bits of a result depend on the values
 * alone. They do not depend on the CPU, the path, the order or the number of
 * calls, because every path adds exactly (include/fpisa/superacc.h) and rounding
 * comes last.
 */
#ifndef SUMS_H
#define SUMS_H

#include "fpisa/partial.h"

#define SUMS_API __attribute__((visibility("default")))

/* The type of a value in memory; the numbers are part of the interface with Python. */
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
	SUMS_BOOL, /* a byte: 0, or anything else for 1 */
	SUMS_INT64,
	SUMS_UINT64,
	SUMS_TYPES,
};

/* An array in one dimension, aligned or not. */
struct sums_array {
	const char *data;
	__s64 n;	    /* number of values, including nulls */
	__s64 stride;	    /* bytes from a value to the next, positive or negative */
	const __u8 *valid;  /* Arrow's bitmap, bit 0 of byte 0 first: 0 means null; NULL: without nulls */
	__s64 valid_offset; /* bits before the first value's bit */
	__s32 type;	    /* enum sums_type */
};

/* Return the bytes of an accumulator, for its allocation. */
SUMS_API __u64 sums_size(void);
SUMS_API void sums_init(union fpisa_superacc_full *a);

/* Add all values that are not null. Return -EINVAL for an unknown type, -ERANGE beyond 2^63 - 1 values, or -ENOMEM. */
SUMS_API int sums_add(union fpisa_superacc_full *a, const struct sums_array *x);

/* Add b. Return -ERANGE beyond 2^63 - 1 values. */
SUMS_API int sums_merge(union fpisa_superacc_full *a, const union fpisa_superacc_full *b);

/*
 * Return the bits of the sum, or of the average, in a FPISA_FORMAT_*, rounded once
 * to nearest even. An average of nothing is NaN.
 */
SUMS_API __u64 sums_read(const union fpisa_superacc_full *a, int format, int average);

/* Py_buffer of Python's stable ABI. */
struct sums_view {
	char *memory;
	void *object;
	__s64 bytes, item_bytes;
	int read_only, ndim;
	char *format;
	__s64 *shape, *stride, *suboffset;
	void *internal;
};

/* Functions of the calling Python: this library is not linked with Python. */
struct sums_python {
	int (*get_buffer)(void *object, struct sums_view *view, int flags);
	void (*release_buffer)(struct sums_view *view);
	void *(*save_thread)(void);
	void (*restore_thread)(void *thread);
};

/*
 * Return the sum, or the average, of an object that is a one-dimensional buffer of float64, float32 or float16, rounded to float64.
 * Return NaN for other objects, with Python's error set if the object is not a buffer: the caller checks again. The interpreter's
 * lock is held, and released for large buffers.
 */
SUMS_API double sums_once(void *object, int average, const struct sums_python *python);

/* Write and parse a partial, see doc/partial.md. sums_write() returns the bytes written. */
SUMS_API __u32 sums_write(const union fpisa_superacc_full *a, __u8 out[FPISA_PARTIAL_MOST]);
SUMS_API int sums_parse(union fpisa_superacc_full *a, const void *bytes, __u64 size, const char **why);

/*
 * Add the products x[i] * y[i] of pairs without nulls. Products of doubles have
 * exponents that a superaccumulator does not have: a[1] is in units of 2^-1200, a[2] of
 * 2^1200, a[0] of 1. Return -EINVAL if x and y differ in length.
 */
#define SUMS_DOT_SCALE 1200
SUMS_API int sums_dot(union fpisa_superacc_full a[3], const struct sums_array *x, const struct sums_array *y);

/*
 * Sum along some axes: the arrays begin at the places of `outer`, and each has the dimensions `inner`.
 * Result i goes to out + i * (bytes of the format).
 */
struct sums_axes {
	__s32 ndim;
	const __s64 *shape, *stride; /* ndim each; strides in bytes */
};
SUMS_API int sums_axis(const char *data, int type, const struct sums_axes *outer, const struct sums_axes *inner,
		       int format, int average, void *out);

/* Create sums by groups, numbered from 0; `count` also counts the values of each. Return NULL without memory. */
struct sums_groups;
SUMS_API struct sums_groups *sums_groups_new(__s64 groups, int count);
SUMS_API void sums_groups_free(struct sums_groups *g);
/* Add x[i] to group code[i], or to no group if the code is negative. Return -ERANGE if a code is not below `groups`. */
SUMS_API int sums_groups_add(struct sums_groups *g, const struct sums_array *x, const __s64 *code);
/* Write the results of all groups to `out`, like sums_axis(). Return -EINVAL for averages of groups that do not count. */
SUMS_API int sums_groups_read(const struct sums_groups *g, int format, int average, void *out);
/* Add one group's sum to a. */
SUMS_API int sums_groups_get(const struct sums_groups *g, __s64 group, union fpisa_superacc_full *a);

/*
 * Find the places of rows sorted by their group's number. Row i goes to place[i], so that group k has the places from start[k] to
 * start[k + 1]. start[] has groups + 1 entries. Rows without a group have -1. Return -ERANGE if a code is not below `groups`.
 */
SUMS_API int sums_places(const __s64 *code, __s64 n, __s64 groups, __s64 *place, __s64 *start);

/* Copy each x[i] that is not null to its place in `out`, and set its bit in the bitmap `valid`, which is zero before. */
SUMS_API int sums_arrange(const struct sums_array *x, const __s64 *place, void *out, __u8 *valid);

/*
 * Add integers of 32, 64, 128 or 256 bits that are not null, such as Arrow's decimals: digit i of base 2^32 to digits[i], the
 * uppermost digit with its sign. `valid` is as in struct sums_array. Return how many there were, or -EINVAL for other `bits`.
 * n is below 2^31.
 */
SUMS_API __s64 sums_decimals(const void *data, int bits, __s64 n, const __u8 *valid, __s64 valid_offset, __s64 *digits);

/*
 * Number 64-bit keys by their first appearance, and set first[] to the places of
 * these. Return how many there are, or -ENOMEM.
 */
SUMS_API __s64 sums_number(const __s64 *key, __s64 n, __s64 *code, __s64 *first);

/*
 * Number keys from `least` to less than `least` + `range` in ascending order, and list the keys in found[], which has `range`
 * entries. This is much faster for keys that are close together. If `least` is 0 and there are `range` groups, keys are their own
 * numbers, and code[] does not change.
 */
SUMS_API __s64 sums_number_near(const __s64 *key, __s64 n, __s64 least, __u32 range, __s64 *code, __s64 *found);

/*
 * Set the thread's floating-point environment to the default, and keep the one that it had in had[], for Python's own steps: a thread
 * that flushes subnormals to zero would take different keys for equal ones.
 */
#define SUMS_ENVIRONMENT_BYTES 64
SUMS_API void sums_enter(char had[SUMS_ENVIRONMENT_BYTES]);
SUMS_API void sums_leave(const char had[SUMS_ENVIRONMENT_BYTES]);

/* The vector unit in use: "avx512", "avx2" or "baseline". `limit`, if not NULL, keeps to it or less for tests. */
SUMS_API const char *sums_vectors(const char *limit);

#endif

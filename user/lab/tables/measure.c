// SPDX-License-Identifier: GPL-2.0-only
/*
 * The errors of the advanced operations, relative to double arithmetic and
 * libm, whose own errors are within 2^-52. A product of two operands of up to
 * 24 bits is exact in a double.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tables.h"
#include "values/pack.h"
#include "values/random.h"

#define MAX_THREADS 64
#define RANDOM_PAIRS (1u << 20)

void tables_random(enum fpisa_function fn, struct fpisa_format f, uint64_t seed, uint64_t index, uint32_t *a,
		   uint32_t *b)
{
	/* Return element `i` of the sequence that splitmix64 generates. */
	uint64_t state = seed + index * 0x9e3779b97f4a7c15;
	uint64_t bits = splitmix64(&state), one = (uint64_t)format_bias(f) << f.mbits;
	uint32_t all = (uint32_t)((1ull << (8 * f.bytes)) - 1);

	*b = (uint32_t)(bits >> 32) & all;
	*a = (uint32_t)bits & all;
	/* All negative operands of roots and logarithms give the same result, so one in 16 operands is sufficient. */
	if ((fn == FPISA_LOG2 || fn == FPISA_SQRT) && bits >> 60)
		*a &= all >> 1;
	if (fn == FPISA_LOG2 && (bits >> 59 & 1)) {
		uint64_t off = (bits >> 20 & fpisa_frac_ones(f)) >> (bits >> 50) % (f.mbits + 1u);

		*a = (uint32_t)(bits >> 58 & 1 ? one + off : one - off);
	}
}

/* Store operand pair `index` in *a and *b, in the order that tables_measure() describes. */
static void operands(enum fpisa_function fn, struct fpisa_format f, uint64_t seed, uint64_t index, uint32_t *a,
		     uint32_t *b)
{
	uint64_t fractions = 1ull << f.mbits, one = (uint64_t)format_bias(f) << f.mbits;

	*b = 0;
	if (f.bytes == 4) {
		tables_random(fn, f, seed, index, a, b);
	} else if (fn != FPISA_MULTIPLY) {
		*a = (uint32_t)index;
	} else if (f.bytes == 1) {
		*a = index & 0xff;
		*b = (uint32_t)(index >> 8);
	} else if (index < fractions * fractions) {
		*a = (uint32_t)(one | index % fractions);
		*b = (uint32_t)(one | index / fractions);
	} else {
		tables_random(fn, f, seed, index, a, b);
	}
}

static uint64_t how_many(enum fpisa_function fn, struct fpisa_format f, uint64_t samples)
{
	if (f.bytes == 4)
		return samples;
	if (fn != FPISA_MULTIPLY || f.bytes == 1)
		return fn == FPISA_MULTIPLY ? 1 << 16 : 1 << (8 * f.bytes);
	return (1ull << (2 * f.mbits)) + RANDOM_PAIRS;
}

/* Return the value of a word. The machine supports one of the formats directly, which is ten times faster. */
static inline double value_of(struct fpisa_format f, uint32_t word)
{
	float v;

	if (f.bytes != 4)
		return unpack_value(f, word);
	memcpy(&v, &word, sizeof(v));
	return v;
}

static inline uint32_t nearest_word(struct fpisa_format f, double v)
{
	float single = (float)v;
	uint32_t word;

	if (f.bytes != 4 || isnan(v))
		return (uint32_t)pack_value(f, v);
	memcpy(&word, &single, sizeof(word));
	return word;
}

static inline double power_of_2(int e)
{
	uint64_t bits = (uint64_t)(e + DBL_MAX_EXP - 1) << (DBL_MANT_DIG - 1);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* Return floor(log2(v)) for a normal v. */
static inline int exponent_of(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return (int)(bits >> (DBL_MANT_DIG - 1) & 0x7ff) - (DBL_MAX_EXP - 1);
}

static double exact_result(enum fpisa_function fn, double a, double b)
{
	switch (fn) {
	case FPISA_MULTIPLY:
		return a * b;
	case FPISA_RECIPROCAL:
		return 1 / a;
	case FPISA_LOG2:
		return log2(a);
	default:
		return sqrt(a);
	}
}

static inline void note(struct tables_worst *w, double error, uint32_t a, uint32_t b)
{
	if (error > w->error)
		*w = (struct tables_worst){error, a, b};
}

static __always_inline void measure_one(enum fpisa_function fn, struct fpisa_format f, uint32_t a, uint32_t b,
					struct tables_errors *e)
{
	double exact = exact_result(fn, value_of(f, a), value_of(f, b)), value, packed, difference;
	uint32_t want = nearest_word(f, exact);
	struct fpisa_lane l = {.word = a};
	int exponent;

	fpisa_apply(&l, fn, b, f, tables_look);
	value = (double)l.m * power_of_2((int)l.e - format_bias(f) - f.mbits - FPISA_RESULT_GUARD);
	value = l.sign ? -value : value;
	fpisa_pack_result(&l, f, FPISA_ROUND_NEAREST);
	if (!isfinite(exact) || exact == 0) {
		e->wrong += l.word != want;
		return;
	}
	note(&e->value, fabs((value - exact) / exact), a, b);
	packed = value_of(f, (uint32_t)l.word);
	if (!isfinite(packed) || !isfinite(value_of(f, want))) {
		e->wrong += l.word != want;
		return;
	}
	e->finite++;
	e->nearest += l.word == want;
	difference = fabs(packed - exact);
	exponent = exponent_of(exact);
	if (exponent >= 1 - format_bias(f))
		note(&e->packed, difference / fabs(exact), a, b);
	else
		exponent = 1 - format_bias(f);
	note(&e->ulps, difference * power_of_2(f.mbits - exponent), a, b);
}

struct share {
	enum fpisa_function fn;
	enum fpisa_format_id id;
	uint64_t seed, first, end;
	struct tables_errors e;
};

/* Measure fp32 with constant arguments, so that the compiler folds them as it does in the kernel. */
static void measure_fp32(struct share *s)
{
	uint32_t a, b;

#define SWEEP(fn)                                             \
	for (uint64_t i = s->first; i < s->end; i++) {        \
		operands(fn, FPISA_FP32, s->seed, i, &a, &b); \
		measure_one(fn, FPISA_FP32, a, b, &s->e);     \
	}
	switch (s->fn) {
	case FPISA_MULTIPLY:
		SWEEP(FPISA_MULTIPLY);
		break;
	case FPISA_RECIPROCAL:
		SWEEP(FPISA_RECIPROCAL);
		break;
	case FPISA_LOG2:
		SWEEP(FPISA_LOG2);
		break;
	default:
		SWEEP(FPISA_SQRT);
	}
#undef SWEEP
}

static void *measure_share(void *arg)
{
	struct share *s = arg;
	const struct fpisa_format f = fpisa_format_of(s->id);
	uint32_t a, b;

	if (s->id == FPISA_FORMAT_FP32) {
		measure_fp32(s);
		return NULL;
	}
	for (uint64_t i = s->first; i < s->end; i++) {
		operands(s->fn, f, s->seed, i, &a, &b);
		measure_one(s->fn, f, a, b, &s->e);
	}
	return NULL;
}

static void merge_worst(struct tables_worst *to, const struct tables_worst *from)
{
	note(to, from->error, from->a, from->b);
}

static void merge(struct tables_errors *to, const struct tables_errors *from)
{
	to->finite += from->finite;
	to->nearest += from->nearest;
	to->wrong += from->wrong;
	merge_worst(&to->value, &from->value);
	merge_worst(&to->packed, &from->packed);
	merge_worst(&to->ulps, &from->ulps);
}

int tables_measure(enum fpisa_function fn, enum fpisa_format_id id, uint64_t samples, uint64_t seed,
		   struct tables_errors *e)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t threads = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : (uint64_t)cpus, started;
	struct share share[MAX_THREADS];
	pthread_t thread[MAX_THREADS];
	int err = 0;

	memset(e, 0, sizeof(*e));
	memset(share, 0, sizeof(share));
	e->inputs = how_many(fn, fpisa_format_of(id), samples);
	for (started = 0; !err && started < threads; started += !err) {
		struct share *s = &share[started];

		s->fn = fn;
		s->id = id;
		s->seed = seed;
		s->first = e->inputs / threads * started;
		s->end = started + 1 == threads ? e->inputs : s->first + e->inputs / threads;
		err = -pthread_create(&thread[started], NULL, measure_share, s);
	}
	for (uint64_t i = 0; i < started; i++) {
		pthread_join(thread[i], NULL);
		merge(e, &share[i].e);
	}
	return err;
}

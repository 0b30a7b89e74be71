// SPDX-License-Identifier: GPL-2.0-only
/* The demo's input, and the memory that the demo shares with its workers. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/report.h"
#include "demo.h"
#include "lab/values/gradients.h"
#include "values/pack.h"
#include "values/random.h"

#define SAMPLE "data/gradients/epoch20.f32"
#define DEFAULT_ROWS 8 /* rows of a raw file, as in the sample of gradients */
#define MX_UNIT 133    /* an element is k x 2^(scale - 133) */

static int share(size_t size, void *out)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return fail(-errno, "try a smaller --vector, or fewer --workers",
			    "demo: cannot store %zu bytes of values", size);
	*(void **)out = p;
	return 0;
}

static int share_all(struct demo *d)
{
	size_t size;
	int err;

	if (d->f.shared)
		d->elements = (d->elements + FPISA_BLOCK - 1) / FPISA_BLOCK * FPISA_BLOCK;
	d->row = d->elements * d->f.bytes + (d->f.shared ? d->elements / FPISA_BLOCK : 0);
	size = d->o.workers * d->row;
	d->chunks = (d->elements + d->job.elements - 1) / d->job.elements;
	err = share(size, &d->input);
	if (!err)
		err = share(size, &d->output);
	if (!err)
		err = share(d->o.workers * d->chunks * sizeof(*d->chunk), &d->chunk);
	if (!err)
		err = share(d->o.workers * sizeof(*d->result), &d->result);
	return err;
}

/* -- into the format -------------------------------------------------- */

/*
 * Values arrive in the order of their elements, either rank by rank, or with all
 * ranks of an element together. `input` is zero initially.
 */
struct taker {
	struct demo *d;
	double largest;				     /* largest magnitude, used for int32 */
	double lane[FPISA_MAX_WORKERS][FPISA_BLOCK]; /* incomplete block of each rank, used for mxint8 */
};

typedef void take_fn(struct taker *t, uint32_t rank, uint64_t i, double v);

/* Store the nearest floating-point value, rounded once. */
static void take_float(struct taker *t, uint32_t rank, uint64_t i, double v)
{
	struct demo *d = t->d;
	uint64_t word = pack_value(d->f, v);

	fpisa_put_word(demo_at(d, d->input, rank, i), 0, d->f, word);
	d->vanished += v != 0 && unpack_value(d->f, word) == 0;
}

static void take_largest(struct taker *t, uint32_t rank, uint64_t i, double v)
{
	(void)rank;
	(void)i;
	if (!(fabs(v) <= t->largest))
		t->largest = isnan(v) ? INFINITY : fabs(v);
}

/* Convert like SwitchML, with a power of two as the factor. */
static void take_integer(struct taker *t, uint32_t rank, uint64_t i, double v)
{
	struct demo *d = t->d;
	int32_t word = (int32_t)rint(ldexp(v, d->int_shift));

	fpisa_put_word(demo_at(d, d->input, rank, i), 0, d->f, (uint32_t)word);
	d->vanished += v != 0 && !word;
}

/* Return the largest shift for which the sum of all ranks cannot overflow, whatever the signs of the values. */
static int choose_shift(const struct taker *t)
{
	uint32_t workers = t->d->o.workers;
	int e;

	if (t->largest == 0)
		return 0;
	frexp(workers * t->largest, &e);
	return workers * rint(ldexp(t->largest, 31 - e)) <= INT32_MAX ? 31 - e : 30 - e;
}

/*
 * Store a block. Use the smallest scale for which all elements, rounded to nearest, are in -127..127 (doc/numbers.md).
 */
static void put_block(struct taker *t, uint32_t rank, uint64_t i)
{
	struct demo *d = t->d;
	double *v = t->lane[rank], largest = 0;
	int scale;

	for (int k = 0; k < FPISA_BLOCK; k++)
		if (!(fabs(v[k]) <= largest))
			largest = isnan(v[k]) ? INFINITY : fabs(v[k]);
	frexp(largest, &scale);
	scale += MX_UNIT - 7; /* the largest element is below 128 units */
	if (largest == 0 || scale < 0)
		scale = 0;
	scale += rint(ldexp(largest, MX_UNIT - scale)) > 127;
	if (!isfinite(largest) || scale > 254)
		scale = 255;
	*demo_scale_at(d, d->input, rank, i) = scale;
	for (int k = 0; scale < 255 && k < FPISA_BLOCK; k++) {
		int8_t word = (int8_t)rint(ldexp(v[k], MX_UNIT - scale));

		*demo_at(d, d->input, rank, i + k) = (uint8_t)word;
		d->vanished += v[k] != 0 && !word;
	}
}

static void take_lane(struct taker *t, uint32_t rank, uint64_t i, double v)
{
	t->lane[rank][i % FPISA_BLOCK] = v;
	if (i % FPISA_BLOCK == FPISA_BLOCK - 1)
		put_block(t, rank, i - i % FPISA_BLOCK);
}

/* Convert all values to the format. `each` passes the values to take(). */
static int take_all(struct demo *d, void (*each)(struct taker *t, take_fn *take, const void *source), const void *source)
{
	static struct taker t;

	t.d = d;
	if (!d->f.integer) {
		each(&t, d->f.shared ? take_lane : take_float, source);
		return 0;
	}
	each(&t, take_largest, source);
	if (isinf(t.largest))
		return refuse(-ERANGE, "%s: a value is not finite, and int32 cannot represent it; try --format fp32",
			      d->source);
	d->int_shift = choose_shift(&t);
	each(&t, take_integer, source);
	return 0;
}

/* -- a file ------------------------------------------------------------ */

/* Find the sample in the source tree of this binary, or else in the working directory. */
static int find_sample(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	if (n > 0) {
		path[n] = 0;
		slash = strrchr(path, '/');
		snprintf(slash, path + PATH_MAX - slash, "/../" SAMPLE);
		if (!access(path, R_OK))
			return 0;
	}
	strcpy(path, SAMPLE);
	if (!access(path, R_OK))
		return 0;
	return refuse(-ENOENT,
		      "demo: " SAMPLE " is neither in this program's directory nor here; give --file F or --vector N");
}

static int open_file(struct demo *d, struct gradients *g)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s", d->o.file);
	if (!*path) {
		err = find_sample(path);
		if (err)
			return err;
	}
	if (!realpath(path, d->source))
		return fail(-errno, NULL, "%s", path);
	err = gradients_open(g, d->source, FPISA_FP32);
	if (!err)
		err = gradients_split(g, d->o.rows ?: g->rows ?: DEFAULT_ROWS, "--rows");
	if (!err && d->o.workers > g->rows)
		err = refuse(-EINVAL, "%s has %u rows, one for each worker, but --workers is %u; give --vector N",
			     d->source, g->rows, d->o.workers);
	return err;
}

static void each_of_file(struct taker *t, take_fn *take, const void *source)
{
	const struct gradients *g = source;

	for (uint32_t r = 0; r < t->d->o.workers; r++)
		for (uint64_t i = 0; i < t->d->elements; i++)
			take(t, r, i, i < g->elements ? gradients_value(g, r, i) : 0);
}

static int read_values(struct demo *d)
{
	struct gradients g = GRADIENTS_INIT;
	int err = open_file(d, &g);

	if (!err) {
		d->elements = g.elements;
		err = share_all(d);
	}
	if (!err)
		err = take_all(d, each_of_file, &g);
	gradients_close(&g);
	return err;
}

/* -- random values ------------------------------------------------------ */

/*
 * Return a nearly normal value with variance 1, which is the sum of twelve uniform values
 * minus its mean. The unit is 2^-32, so that the same seed gives the same bits on every
 * machine.
 */
static int64_t normal(uint64_t *state)
{
	int64_t sum = 0;

	for (int i = 0; i < 6; i++) {
		uint64_t z = splitmix64(state);

		sum += (z & 0xffffffff) + (z >> 32);
	}
	return sum - 6 * 0xffffffffll;
}

/*
 * Take random values that resemble gradients. All workers' values of an element, or of a block
 * of mxint8, have the same scale. Scales are in 2^-28..2^-3, or in the part of this range that
 * the format supports. A quarter of the values are zero.
 */
static void each_random(struct taker *t, take_fn *take, const void *source)
{
	const struct demo *d = t->d;
	bool floats = !d->f.integer && !d->f.shared;
	int smallest = floats ? -(int)log2(unpack_value(d->f, 1)) : 29;
	int scales = smallest < 29 ? smallest - 3 : 26, scale = 0;
	uint64_t state = d->o.seed;

	(void)source;
	for (uint64_t i = 0; i < d->elements; i++) {
		if (!d->f.shared || i % FPISA_BLOCK == 0)
			scale = 3 + random_below(&state, scales);
		for (uint32_t r = 0; r < d->o.workers; r++) {
			double v = normal(&state) / (double)(1ull << (32 + scale));

			/* Add more bits if the format has room for them. */
			if (floats && d->f.mbits > 23)
				v *= 1 + (double)splitmix64(&state) / (1ull << 63);
			take(t, r, i, random_below(&state, 4) && i < d->o.vector ? v : 0);
		}
	}
}

static int make_values(struct demo *d)
{
	int err;

	d->elements = d->o.vector;
	snprintf(d->source, sizeof(d->source), "random values, seed %llu", (unsigned long long)d->o.seed);
	err = share_all(d);
	return err ?: take_all(d, each_random, NULL);
}

int demo_data(struct demo *d)
{
	d->f = fpisa_format_of(d->job.format);
	return d->o.file ? read_values(d) : make_values(d);
}

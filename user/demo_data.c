// SPDX-License-Identifier: GPL-2.0-only
/* The demo's input and the memory that it shares with its workers. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"
#include "demo.h"
#include "gradients.h"
#include "pack.h"
#include "random.h"

#define SAMPLE "data/gradients/epoch20.f32"
#define DEFAULT_ROWS 8 /* of a raw file, as the sample has */

static int share(size_t size, void *out)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return fail(-errno, "fewer --elements or --workers", "demo: %zu bytes of memory", size);
	*(void **)out = p;
	return 0;
}

static int share_all(struct demo *d)
{
	size_t size = d->o.workers * d->elements * d->f.bytes;
	int err;

	d->chunks = (d->elements + d->o.packet - 1) / d->o.packet;
	err = share(size, &d->input);
	if (!err)
		err = share(size, &d->output);
	if (!err)
		err = share(d->o.workers * d->chunks * sizeof(*d->chunk), &d->chunk);
	if (!err)
		err = share(d->o.workers * sizeof(*d->result), &d->result);
	return err;
}

/* A value into the demo's format: the nearest, rounded once. */
static void put_value(struct demo *d, uint32_t rank, uint64_t i, double v)
{
	uint64_t word = pack_value(d->f, v);

	fpisa_put_word(demo_at(d, d->input, rank, i), 0, d->f, word);
	d->vanished += v != 0 && unpack_value(d->f, word) == 0;
}

/* -- a file ------------------------------------------------------------ */

/* The sample of the tree that this binary was built in, else of the working directory. */
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
		      "demo: no " SAMPLE " beside this program or here; give --file F or --elements N");
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
		err = refuse(-EINVAL,
			     "%s: has %u rows, one a worker, and %u workers are asked for; give --elements N",
			     d->source, g->rows, d->o.workers);
	return err;
}

static int read_values(struct demo *d)
{
	struct gradients g = GRADIENTS_INIT;
	int err = open_file(d, &g);

	if (!err) {
		d->elements = g.elements;
		err = share_all(d);
	}
	for (uint32_t r = 0; !err && r < d->o.workers; r++)
		for (uint64_t i = 0; i < d->elements; i++)
			put_value(d, r, i, gradients_value(&g, r, i));
	gradients_close(&g);
	return err;
}

/* -- random values ------------------------------------------------------ */

/*
 * Nearly normal, variance 1: twelve uniform values less their mean. In units
 * of 2^-32, so that the same seed gives the same bits on every machine.
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
 * Like gradients: an element has one scale for all workers, 2^-28..2^-3 or as
 * far as the format goes, and a worker's share of it is zero every fourth time.
 */
static int make_values(struct demo *d)
{
	int smallest = -(int)log2(unpack_value(d->f, 1)), scales = smallest < 29 ? smallest - 3 : 26;
	uint64_t state = d->o.seed;
	int err;

	d->elements = d->o.elements;
	snprintf(d->source, sizeof(d->source), "random values, seed %llu", (unsigned long long)d->o.seed);
	err = share_all(d);
	for (uint64_t i = 0; !err && i < d->elements; i++) {
		uint64_t z = splitmix64(&state);
		int scale = 3 + z % scales;

		for (uint32_t r = 0; r < d->o.workers; r++) {
			double v = normal(&state) / (double)(1ull << (32 + scale));

			/* More bits, where there is room for them. */
			if (d->f.mbits > 23)
				v *= 1 + (double)splitmix64(&state) / (1ull << 63);
			if (splitmix64(&state) % 4)
				put_value(d, r, i, v);
		}
	}
	return err;
}

int demo_data(struct demo *d)
{
	d->f = fpisa_format_of(d->o.format);
	return d->o.file ? read_values(d) : make_values(d);
}

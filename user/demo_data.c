// SPDX-License-Identifier: GPL-2.0-only
/* The demo's input and the memory that it shares with its workers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "demo.h"
#include "pack.h"

#define SAMPLE "data/gradients/epoch20.f32"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

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

static int read_all(const struct demo *d, int fd, void *to, size_t size)
{
	size_t at = 0;

	while (at < size) {
		ssize_t n = read(fd, (char *)to + at, size - at);

		if (n <= 0)
			return fail(n ? -errno : -EIO, NULL, "%s: read", d->source);
		at += n;
	}
	return 0;
}

static int read_rows(struct demo *d, int fd)
{
	uint64_t all = d->o.workers * d->elements, n;
	float values[16384];
	int err = 0;

	for (uint64_t i = 0; !err && i < all; i += n) {
		n = all - i < COUNT(values) ? all - i : COUNT(values);
		err = read_all(d, fd, values, n * sizeof(*values));
		for (uint64_t k = 0; !err && k < n; k++)
			put_value(d, 0, i + k, values[k]);
	}
	return err;
}

static int open_file(struct demo *d)
{
	uint64_t row = d->o.rows * sizeof(float);
	char path[PATH_MAX];
	struct stat st;
	int fd, err;

	snprintf(path, sizeof(path), "%s", d->o.file);
	if (!*path) {
		err = find_sample(path);
		if (err)
			return err;
	}
	if (!realpath(path, d->source))
		return fail(-errno, NULL, "%s", path);
	fd = open(d->source, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		err = fail(-errno, NULL, "%s", d->source);
	} else if (!st.st_size || st.st_size % row) {
		err = refuse(-EINVAL, "%s: %lld bytes are not %u rows of 4-byte values; give --rows R",
			     d->source, (long long)st.st_size, d->o.rows);
	} else if (d->o.workers > d->o.rows) {
		err = refuse(-EINVAL,
			     "%s: has %u rows, one a worker, and %u workers are asked for; give --elements N",
			     d->source, d->o.rows, d->o.workers);
	} else {
		d->elements = st.st_size / row;
		err = share_all(d);
		if (!err)
			err = read_rows(d, fd);
	}
	if (fd >= 0)
		close(fd);
	return err;
}

/* -- random values ------------------------------------------------------ */

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

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
	return d->o.file ? open_file(d) : make_values(d);
}

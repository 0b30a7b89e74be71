// SPDX-License-Identifier: GPL-2.0-only
/* Files of values. gradients.h documents the functions. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"
#include "gradients.h"
#include "values/pack.h"

static int read_all(struct gradients *g, int fd)
{
	size_t at = 0;

	g->file = malloc(g->size);
	if (!g->file)
		return fail(-ENOMEM, NULL, "%s: cannot store its %zu bytes", g->path, g->size);
	while (at < g->size) {
		ssize_t n = read(fd, g->file + at, g->size - at);

		if (n < 0)
			return fail(-errno, NULL, "%s: cannot read", g->path);
		if (!n)
			return refuse(-EIO, "%s became shorter while it was read; try again", g->path);
		at += n;
	}
	return 0;
}

static int load_file(struct gradients *g)
{
	struct stat st;
	int fd, err;

	/* Do not wait for a writer if the file is a FIFO. */
	fd = open(g->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fail(-errno, NULL, "%s", *g->path ? g->path : "''");
	if (fstat(fd, &st))
		err = fail(-errno, NULL, "%s", g->path);
	else if (!S_ISREG(st.st_mode))
		err = refuse(-EINVAL, "%s is not a regular file; save the values to a regular file", g->path);
	else if (!st.st_size)
		err = refuse(-EINVAL, "%s is empty; give a file of values", g->path);
	else {
		g->size = st.st_size;
		err = read_all(g, fd);
	}
	close(fd);
	return err;
}

static int take_npy(struct gradients *g)
{
	uint64_t bytes, count;
	struct npy h;
	int err;

	err = npy_header(&h, g->path, g->file, g->size);
	if (err)
		return err;
	if (__builtin_mul_overflow(h.shape[0], h.shape[1], &count) || __builtin_mul_overflow(count, h.f.bytes, &bytes))
		return refuse(-EINVAL, "%s: its shape is larger than any memory; save the array again", g->path);
	if (!count)
		return refuse(-EINVAL, "%s has no values; give an array that has values", g->path);
	if (bytes != g->size - h.data)
		return refuse(-EINVAL, "%s: %zu bytes of values follow its header, but its shape needs %llu; %s",
			      g->path, g->size - h.data, (unsigned long long)bytes,
			      bytes > g->size - h.data ? "copy the whole file" : "save the array again");
	if (h.dimensions == 2 && h.shape[0] > UINT32_MAX)
		return refuse(-EINVAL, "%s has %llu rows, which is too many; save it as [workers, elements]", g->path,
			      (unsigned long long)h.shape[0]);
	g->data = g->file + h.data;
	g->f = h.f;
	g->big_endian = h.big_endian;
	g->by_columns = h.by_columns;
	g->count = count;
	if (h.dimensions == 2) {
		g->rows = h.shape[0];
		g->elements = h.shape[1];
	}
	return 0;
}

int gradients_open(struct gradients *g, const char *path, struct fpisa_format raw)
{
	const char *dot = strrchr(path, '.');
	int err;

	*g = (struct gradients){.path = path};
	err = load_file(g);
	if (err)
		return err;
	if (npy_begins(g->file, g->size))
		return take_npy(g);
	if (dot && !strcmp(dot, ".npy"))
		return refuse(-EINVAL, "%s does not begin as a .npy file does; save it with numpy.save()", path);
	if (g->size >= 4 && !memcmp(g->file, "PK\3\4", 4))
		return refuse(-EINVAL, "%s is a zip archive (.npz, .pt); save one array with numpy.save()", path);
	if (g->size % raw.bytes)
		return refuse(-EINVAL,
			      "%s: its size, %zu bytes, is not a multiple of %u; give whole raw values, or a .npy file",
			      path, g->size, raw.bytes);
	g->data = g->file;
	g->f = raw;
	g->count = g->size / raw.bytes;
	return 0;
}

void gradients_close(struct gradients *g)
{
	free(g->file);
	*g = (struct gradients){.path = NULL};
}

int gradients_split(struct gradients *g, uint32_t rows, const char *option)
{
	if (g->rows && g->rows != rows)
		return refuse(-EINVAL, "%s has %u rows, not %u; give %s %u", g->path, g->rows, rows, option, g->rows);
	if (g->count % rows)
		return refuse(-EINVAL, "%s: %llu values of %u bytes are not %u rows of equal length; give %s N",
			      g->path, (unsigned long long)g->count, g->f.bytes, rows, option);
	g->rows = rows;
	g->elements = g->count / rows;
	return 0;
}

double gradients_value(const struct gradients *g, uint32_t row, uint64_t element)
{
	uint64_t at = g->by_columns ? element * g->rows + row : row * g->elements + element;
	uint64_t word = 0;

	if (g->big_endian)
		for (int k = 0; k < g->f.bytes; k++)
			word = word << 8 | g->data[at * g->f.bytes + k];
	else
		memcpy(&word, g->data + at * g->f.bytes, g->f.bytes);
	return unpack_value(g->f, word);
}

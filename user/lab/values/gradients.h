/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files of values, for the verbs that sum them: raw little-endian values of
 * any format, without a header, and NumPy's .npy. A file holds rows of equal
 * length, one a worker.
 *
 *	gradients.c	the file in memory, its rows, its values
 *	npy.c		the header of a .npy file
 *
 * Functions return 0, or -errno after they have reported the error.
 */
#ifndef FPISA_GRADIENTS_H
#define FPISA_GRADIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fpisa/format.h"

struct gradients {
	const char *path;	   /* the caller's */
	unsigned char *file;	   /* all of it */
	size_t size;		   /* of it, bytes */
	const unsigned char *data; /* the values in it */
	struct fpisa_format f;	   /* as they are stored */
	bool big_endian;
	uint64_t count;	   /* values, 1 or more */
	uint32_t rows;	   /* 0: the file does not say */
	uint64_t elements; /* of a row, once there are rows */
	bool by_columns;   /* Fortran's order: element 0 of all rows first */
};

#define GRADIENTS_INIT       \
	{                    \
		.path = NULL \
	}

/* A file and its values; those of a raw file have format `raw`. Release with gradients_close(), also after an
 * error. */
int gradients_open(struct gradients *g, const char *path, struct fpisa_format raw);
void gradients_close(struct gradients *g);

/* Check that the file has that many rows. -EINVAL if it has not; `option` is the option that says how many. */
int gradients_split(struct gradients *g, uint32_t rows, const char *option);

/* Return the exact value. */
double gradients_value(const struct gradients *g, uint32_t row, uint64_t element);

/* The header of a .npy file. */
struct npy {
	size_t data; /* offset of the values */
	struct fpisa_format f;
	bool big_endian, by_columns;
	int dimensions; /* 1 or 2 */
	uint64_t shape[2];
};

/* Does the file begin as a .npy does? */
bool npy_begins(const void *file, size_t size);

/* Reads the header of a file that begins so; `path` is for messages. Says nothing of how much data follows.
 */
int npy_header(struct npy *h, const char *path, const void *file, size_t size);

#endif

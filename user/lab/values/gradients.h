/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files of values, for the verbs that sum them: raw little-endian values of
 * any format, without a header, and NumPy's .npy. A file holds rows of equal
 * length, one per worker.
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
	const char *path;	   /* borrowed from the caller */
	unsigned char *file;	   /* contents of the whole file */
	size_t size;		   /* bytes in the file */
	const unsigned char *data; /* values in the file */
	struct fpisa_format f;	   /* format of the stored values */
	bool big_endian;
	uint64_t count;	   /* values, 1 or more */
	uint32_t rows;	   /* 0: not known from the file */
	uint64_t elements; /* elements in a row, after rows is set */
	bool by_columns;   /* Fortran's order: element 0 of all rows first */
};

#define GRADIENTS_INIT       \
	{                    \
		.path = NULL \
	}

/*
 * Open a file and its values; `raw` is the format of a raw file. Release with gradients_close(), even after an
 * error.
 */
int gradients_open(struct gradients *g, const char *path, struct fpisa_format raw);
void gradients_close(struct gradients *g);

/* Split the file into that many rows. Return -EINVAL if it does not have them; `option` sets the number. */
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

/* Return whether the file begins as a .npy file does. */
bool npy_begins(const void *file, size_t size);

/* Parse the header of a file that begins so; `path` is for messages. Does not check how much data follows. */
int npy_header(struct npy *h, const char *path, const void *file, size_t size);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files of values for the verbs that sum values. A file has either raw
 * little-endian values of any format without a header, or NumPy's format .npy.
 * A file contains rows of equal length, one row for each worker.
 *
 * 	gradients.c	the file in memory, with its rows and values
 * 	npy.c		the header of a .npy file
 *
 * Functions return 0, or report the error and return -errno.
 */
#ifndef FPISA_GRADIENTS_H
#define FPISA_GRADIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fpisa/format.h"

struct gradients {
	const char *path;	   /* the caller owns the text */
	unsigned char *file;	   /* the contents of the whole file */
	size_t size;		   /* number of bytes in the file */
	const unsigned char *data; /* values in the file */
	struct fpisa_format f;	   /* format of the stored values */
	bool big_endian;
	uint64_t count;	   /* number of values, 1 or more */
	uint32_t rows;	   /* 0 if the file does not tell */
	uint64_t elements; /* number of elements in a row, known after rows is set */
	bool by_columns;   /* Fortran order, in which element 0 of all rows comes first */
};

#define GRADIENTS_INIT       \
	{                    \
		.path = NULL \
	}

/* Open a file and its values. `raw` is the format of a raw file. Call gradients_close() even after an error. */
int gradients_open(struct gradients *g, const char *path, struct fpisa_format raw);
void gradients_close(struct gradients *g);

/*
 * Split the file into this number of rows. Return -EINVAL if this is impossible. `option` is the name of the option
 * that sets the number.
 */
int gradients_split(struct gradients *g, uint32_t rows, const char *option);

/* Return the exact value. */
double gradients_value(const struct gradients *g, uint32_t row, uint64_t element);

/* The header of a .npy file. */
struct npy {
	size_t data; /* offset of the values in the file */
	struct fpisa_format f;
	bool big_endian, by_columns;
	int dimensions; /* number of dimensions, 1 or 2 */
	uint64_t shape[2];
};

/* Return whether the file begins as a .npy file does. */
bool npy_begins(const void *file, size_t size);

/* Parse the header of a .npy file. `path` is for messages. The function does not check the size of the data. */
int npy_header(struct npy *h, const char *path, const void *file, size_t size);

#endif

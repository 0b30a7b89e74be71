/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tables of the Big Data benchmark (Pavlo et al., "A comparison of approaches to large-scale data analysis"). The
 * tables have the distributions of HiBench's generator (doc/query-data.md). A row depends only on the seed, the sizes
 * and the row's number. Rows are computed with integers, so all machines generate the same rows.
 */
#ifndef FPISA_BIGDATA_H
#define FPISA_BIGDATA_H

#include <stdint.h>

#define BIGDATA_ROW 256 /* maximum size in bytes of a row as CSV */
#define BIGDATA_PAGES_MOST (1ull << 28)

struct bigdata {
	uint64_t seed, pages, visits;
	uint32_t *references; /* number of links to each page */
};

struct bigdata_table {
	const char *name, *schema, *header;
	uint64_t (*rows)(const struct bigdata *d);
	/* Write row `row` as a line. Return the number of bytes. */
	unsigned int (*row)(const struct bigdata *d, uint64_t row, char out[BIGDATA_ROW]);
};

#define BIGDATA_TABLES 2
extern const struct bigdata_table bigdata_tables[BIGDATA_TABLES];

/* Draw the links between the pages. There must be 1 to BIGDATA_PAGES_MOST pages. Return 0 or -ENOMEM. */
int bigdata_open(struct bigdata *d);
void bigdata_close(struct bigdata *d);

#endif

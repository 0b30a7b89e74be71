/* SPDX-License-Identifier: GPL-2.0-only */
/* The columns that a query names, and their fields in keys, join keys and records. */
#ifndef FPISA_QUERY_COLUMNS_H
#define FPISA_QUERY_COLUMNS_H

#include <stdbool.h>

#include "fpisa-query.h"
#include "fpisa/query/query.h"
#include "query/lib/control.h"
#include "condition.h"
#include "partition.h"

#define COLUMNS_ROWS (-1)
#define COLUMNS_NONE (-1)

struct columns {
	const struct partition *table;
	bool numbered; /* keys end with the number of a value (control.h) */
	/*
	 * numbers in the schema of the columns of a group's key, of a record, of the join key, and of the values; the
	 * number of the value * is COLUMNS_ROWS
	 */
	int n_keys, n_columns, n_on, n_values;
	int key[FPISA_COLUMNS_MOST], column[FPISA_COLUMNS_MOST], on[FPISA_COLUMNS_MOST], value[FPISA_COLUMNS_MOST];
	/* the conditions of the rows whose values are aggregated; NULL means all rows of the query */
	struct where *filter[FPISA_COLUMNS_MOST];
	bool distinct[FPISA_COLUMNS_MOST]; /* whether the distinct values are counted */
};

/*
 * Find the columns of an open table for a query. Return 0, or -EINVAL with the message set. Call columns_free() in both
 * cases.
 */
int columns_find(struct columns *c, const struct partition *table, const struct fpisa_query_open *want,
		 const char *const strings[FPISA_QUERY_STRINGS]);
void columns_free(struct columns *c); /* *c may be all 0 */

/* Mark the columns whose values are used. */
void columns_mark(const struct columns *c, bool used[FPISA_COLUMNS_MOST]);

/* Check that the join key of the other table has the same types. Return 0, or -EINVAL with the message set. */
int columns_check_join(const struct columns *c, const struct columns *other);

/*
 * Return the values that are doubles in rows of this integer form, as in struct fpisa_groups. Only rows that do not
 * pass an aggregator can have such values.
 */
uint64_t columns_doubles(const struct columns *c, uint32_t form);

/*
 * Check that rows with this form, an enum fpisa_value_form, can contain the values. `direct` means that the rows do not
 * pass an aggregator. Return 0, or -EINVAL with the message set.
 */
int columns_check_form(const struct columns *c, uint32_t form, bool direct);

/* Check that the join key fits into the keys of the query's filter. Return 0, or -EINVAL with the message set. */
int columns_check_filter(const struct columns *c, int kind, uint32_t filter_bytes);

/* Return the column of value `i`. */
static inline const struct fpisa_column *columns_value(const struct columns *c, int i)
{
	return c->value[i] == COLUMNS_ROWS ? &fpisa_column_rows : &c->table->schema.column[c->value[i]];
}

/* Return whether rows need a count, because a value may be NULL or a row has no value. */
static inline bool columns_count(const struct columns *c)
{
	bool may_be_null = false;

	for (int i = 0; i < c->n_values; i++)
		may_be_null |= !columns_value(c, i)->not_null;
	return c->numbered || may_be_null;
}

/*
 * Set the row's key from the row's fields, and pad the key with zeros. Leave room for the number of a value. Return the
 * bytes without the zeros, or -errno with the message set.
 */
int columns_key(const struct columns *c, const struct fpisa_field *field, uint32_t key_bytes, struct fpisa_row *r);

/*
 * Append value `i`, whose distinct values are counted, to a key of `used` bytes. Return 1, or 0 if the value is NULL, or
 * -errno with the message set.
 */
int columns_distinct(const struct columns *c, int i, const struct fpisa_field *field, uint32_t used, uint32_t key_bytes,
		     struct fpisa_row *r);

/* Set the row's key to the join key. Return 1, or 0 if a field is NULL and the row is not in the join, or -errno. */
int columns_join_key(const struct columns *c, const struct fpisa_field *field, uint32_t filter_bytes,
		     struct fpisa_row *r);

/*
 * Set the message that the key of the row at `place` is longer than the query's keys. Value `value` follows the columns
 * of the key, unless it is COLUMNS_NONE. `len` is the number of bytes of each text of the key, and then of the value.
 * Return -ENOSPC.
 */
int columns_no_room(const struct columns *c, const char *place, uint32_t key_bytes, int value,
		    const size_t len[FPISA_COLUMNS_MOST + 1]);

/* Append a field of a record, or a NULL if `text` is NULL. Return 0, or -ENOMEM with the message set. */
int columns_field(const char *text, size_t len, char **to, size_t *used, size_t *room);

/* Append a record (control.h, RECORDS). Return 1, or -errno with the message set. */
int columns_record(const struct columns *c, const struct fpisa_field *field, char **to, size_t *used, size_t *room);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libfpisa-query: a query over a table whose rows lie at workers (`fpisa query worker`). The answer is the first N
 * rows by a column, groups by key with count, sum, min, max and average, or all rows. Rows pass an aggregator (`fpisa
 * query add`), which drops rows that cannot matter or adds them up, or come straight to this process. An answer is
 * exact and whole, or there is an error. A query belongs to one thread at a time, and to the process that opened it.
 *
 * An aggregate of a column is over the values that are not NULL, as in SQL; without such values every aggregate
 * except count is NULL. The sum of reals is exact and rounded once to a real, the sum of doubles to a double. An
 * average of either is rounded once to a double. The sum of integers or decimals is an exact decimal. Their average is
 * a decimal of 16 significant digits or more. NaN equals NaN and is above all else, -0 equals 0.
 *
 * Functions return 0 or a negative errno unless they are described otherwise; fpisa_query_error() then says in one
 * sentence what went wrong and what to try. A NULL pointer where a value is needed gives -EINVAL, or 0 from a function
 * that returns a count. The pointer to a second result may be NULL; that result is then not stored.
 */
#ifndef FPISA_QUERY_API_H
#define FPISA_QUERY_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct fpisa_query;

enum fpisa_column_type {
	FPISA_COLUMN_REAL = 1, /* binary32 */
	FPISA_COLUMN_DOUBLE = 2,
	FPISA_COLUMN_INT32 = 3,
	FPISA_COLUMN_INT64 = 4,
	FPISA_COLUMN_TEXT = 5,
	FPISA_COLUMN_DATE = 6,	  /* 1998-12-31 */
	FPISA_COLUMN_DECIMAL = 7, /* digits with a decimal point, whose number is the same for all values of a column */
};

/* The place where rows are dropped or added up. */
enum fpisa_pruning {
	FPISA_PRUNING_NETWORK = 0, /* the aggregator */
	FPISA_PRUNING_NONE = 1,	   /* no pruning: all rows come straight here */
	FPISA_PRUNING_WORKERS = 2, /* each worker drops its own rows; the rest comes straight here */
};

/* The aggregate of a group, in addition to its count. */
enum fpisa_aggregate {
	FPISA_AGGREGATE_SUM = 1,
	FPISA_AGGREGATE_MIN = 2,
	FPISA_AGGREGATE_MAX = 4,
	FPISA_AGGREGATE_AVG = 8,
};

/*
 * Storage for groups that do not fit into options.memory. The caller provides a sort, for example in a file. All
 * records have one size. A function may leave by longjmp(); the query can then only be closed.
 */
struct fpisa_query_spill {
	/* Keep a copy of the record. Return 0, or -errno, which is the query's error. */
	int (*put)(void *arg, const void *record, size_t size);
	/*
	 * Store the next record in *record, in the order of memcmp(). Return 1, 0 if no record is left, or -errno.
	 * put() is not called after take().
	 */
	int (*take)(void *arg, void *record, size_t size);
	void (*forget)(void *arg); /* forget all records: the query begins again */
};

/* Texts that are not given are NULL; an empty text is -EINVAL. */
struct fpisa_query_options {
	size_t size;	     /* sizeof(struct fpisa_query_options), so that the struct may grow */
	const char *workers; /* ADDR[:PORT],... with the TCP port of each, 18001 by default */
	const char *key_file; /* the file whose last key is used; NULL: the file that FPISA_KEY names, if there is no `key` */
	const char *table;
	const char *value; /* the column of numbers to aggregate, or of reals to order by; NULL: groups are only counted */
	const char *by;	   /* columns of the key, "a,b"; NULL: no groups */
	const char *columns;  /* columns of the answer's rows, "a,b"; NULL: all. Not with `by` */
	uint64_t limit;	      /* the first N rows by `value`, up to 65536; 0: all rows, or groups */
	uint8_t ascending;    /* the least values come first */
	uint8_t nulls_first;  /* rows whose value is NULL come before the others, not after them */
	uint8_t pruning;      /* enum fpisa_pruning */
	uint8_t preaggregate; /* each worker adds up its rows by key first, and sends exact partial sums */
	uint32_t query; /* the query's number at the aggregator. query, aggregator and token are for pruning in the network only */
	const char *aggregator; /* ADDR[:PORT] */
	uint64_t token;
	uint16_t local_port;  /* UDP port that the query lists for its master; 0: 18000 */
	uint16_t worker_port; /* UDP port that the query lists for its workers; 0: 18000 */
	uint32_t timeout_ms;  /* the query fails after this time without progress; 0: 10000 */
	double loss, duplicate, reorder, delay, corrupt; /* fault injection, for tests: as struct fpisa_options */
	uint64_t seed;
	/*
	 * Conditions of the rows, all of which must hold: "price>=1.5,day<1999-01-01,name='a, b',shop not null"; NULL: all
	 * rows. "shop never null": NULL is an error in a row for which the conditions before it hold.
	 */
	const char *where;
	uint32_t aggregates; /* bits of enum fpisa_aggregate; other aggregates may be left NULL, which takes less time. 0: all */
	/*
	 * The other table of a join. The aggregator drops rows of `table` that have no partner among the rows of
	 * `join`. A few rows without a partner may still come. So the answer has at least the join's rows, or groups,
	 * and the caller performs the join. Needs FPISA_PRUNING_NETWORK, without `limit` and `preaggregate`.
	 */
	const char *join; /* another table at the same workers; NULL: none */
	/*
	 * "a=b,c=d": a, c of `table`, b, d of `join`; not text, the same types; for groups the first of `by`, not null.
	 * "a date=b date": an error if a column has another type.
	 */
	const char *on;
	const char *join_where; /* conditions of the rows of `join`, as `where`; NULL: all rows */
	const char *key;	/* the key itself, in place of key_file: NAME:ID:SECRET, as a line of such a file */
	/*
	 * Bytes of this process for groups, about 200 each, or for rows that have come and were not taken yet. 0: any
	 * number, and 8 MB of rows.
	 * A join uses one half for such rows. The other half is for places of rows, 8 bytes each; a join that needs
	 * more ends with -E2BIG.
	 * A query for the first N rows keeps whole rows, and the places of twice as many; a query that needs more
	 * also ends with -E2BIG.
	 */
	uint64_t memory;
	const struct fpisa_query_spill *spill; /* for groups beyond `memory` or 2^24; NULL: such a query ends with -ENOMEM */
	void *spill_arg;
};

/* A column of the answer. */
struct fpisa_query_column {
	const char *name; /* name of an aggregate: count, sum, min, max, avg */
	uint32_t type;	  /* enum fpisa_column_type */
	uint32_t not_null;
};

/* Rows, each counted once unless noted; sent = pruned + absorbed + received. */
struct fpisa_query_counts {
	uint64_t rows;	   /* rows of the table at all workers */
	uint64_t nulls;	   /* rows of the table whose value is NULL */
	uint64_t sent;	   /* in frames, by all workers */
	uint64_t pruned;   /* dropped by the aggregator */
	uint64_t absorbed; /* added to the aggregator's table */
	uint64_t received; /* received by this process */
	/*
	 * Counts of values or rows that these groups stand for. In a join, `pruned` counts rows that were sent and
	 * are neither absorbed nor received; rows without a value are absorbed or received.
	 */
	uint64_t values_sent, values_absorbed, values_received;
	uint64_t frames, repeated; /* frames with rows from workers, and how many of them were sent again */
	uint32_t restarts;	   /* restarts after the aggregator's state was lost */
	uint32_t certified;	   /* 1: the aggregator's certificate of the first N was checked */
};

/*
 * Begin a query and return at once; *q is NULL if this fails. Errors that take longer to find are those of
 * fpisa_query_work().
 *
 * -EINVAL	options that contradict each other
 * -EACCES	others can read the file of the key
 * -ENOENT	the file does not exist; or GnuTLS (libgnutls.so.30) is not installed
 * -EADDRINUSE	another program has the UDP port
 */
int fpisa_query_open(struct fpisa_query **q, const struct fpisa_query_options *options);

/*
 * Continue for up to timeout_ms; -1: without a limit. Return 1 if rows can be taken, 2 if these are the last rows, 0 if
 * none can be taken yet. An error ends the query. Later calls, also of fpisa_query_next(), return the same error. Rows
 * of an incomplete answer may come before an error in three cases only: queries for all rows, for the rows of a join,
 * and for groups of which options.spill has some.
 *
 * -EINVAL	a worker has no such table or column, or the aggregator's query is another one; -ENOENT: no such table
 * -EACCES	a worker does not know the key
 * -ECONNREFUSED, -ECONNRESET	a worker does not run, or has ended
 * -ETIMEDOUT	a worker or the aggregator does not answer
 * -EILSEQ	the counts, or the certificate, do not agree: something is broken, and the answer would be wrong
 * -ENOMEM	no memory; or groups take more than options.memory, or are more than 2^24, and options.spill is NULL
 * -E2BIG	places of a join's rows, or the first N rows, take more than their part of options.memory
 * -EPROTO	a worker's answer does not fit the query: other columns, NULL in a column that is not null, or a text
 *		that is not a value
 */
int fpisa_query_work(struct fpisa_query *q, int timeout_ms);

/* Return a descriptor that can be read when fpisa_query_work() with timeout 0 can continue. It belongs to the query. */
int fpisa_query_fd(const struct fpisa_query *q);

/* Set *columns to the number of the answer's columns, or to 0 while it is not known. It is known as soon as rows can be taken. */
uint32_t fpisa_query_columns(const struct fpisa_query *q, const struct fpisa_query_column **columns);

/*
 * Return how many digits a column of the answer has if it is a decimal of the table, and set *scale, unless NULL, to
 * how many are after the point. Return 0 for other columns, for sums and averages, and if there is no such column.
 */
uint32_t fpisa_query_precision(const struct fpisa_query *q, uint32_t column, uint32_t *scale);

/*
 * Take the next row: a text of each column, or NULL; valid until the next call on the query. Return 1; 0 if no row is
 * left now; or the query's error, even after fpisa_query_work() has returned 2: an error of options.spill's take(),
 * or -EILSEQ.
 */
int fpisa_query_next(struct fpisa_query *q, const char *const **row);

void fpisa_query_counts(const struct fpisa_query *q, struct fpisa_query_counts *counts);

/*
 * Return, for a join whose rows are all in, the number of keys of the other table that workers have sent. *filtered
 * says whether the filter had all keys before the first row. If it had not, or if there is no join, the filter
 * dropped nothing.
 */
uint64_t fpisa_query_keys(const struct fpisa_query *q, int *filtered);

/*
 * Return a number that identifies the contents of the table's files at the workers, or of the join's other table if
 * `joined`. Two queries of a table that get the same number have read the same rows by the same schemas. 0: not known
 * before rows can be taken; or there is no join.
 */
uint64_t fpisa_query_files(const struct fpisa_query *q, int joined);

/* End the query, even while it is in progress; its workers stop. NULL is allowed. */
void fpisa_query_close(struct fpisa_query *q);

/* Return the last error of this thread, one line, never NULL. */
const char *fpisa_query_error(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libfpisa-query runs a query over a table whose rows are stored at workers (`fpisa query worker`). The answer is the
 * first N rows by a column, groups by key with count, sum, min, max and average, the same over the whole table, or all
 * rows. Rows pass through an aggregator (`fpisa query add`), which drops rows that cannot matter or adds them up, or they
 * come directly to this process. An answer is exact and complete, otherwise the query ends with an error. Only one thread at a time may use a
 * query, and only in the process that opened it.
 *
 * As in SQL, an aggregate of a column ignores NULL. If all values are NULL, every aggregate except count is NULL. The
 * exact sum of reals is rounded once to a real, and the exact sum of doubles is rounded once to a double. The average
 * of reals or doubles is rounded once to a double. The sum of integers or decimals is an exact decimal. The average of
 * integers or decimals is a decimal with at least 16 significant digits. The sum and the average of dates and timestamps
 * are NULL. NaN equals NaN and is greater than any other value, and -0 equals 0.
 *
 * Functions return 0 or a negative errno unless they are described otherwise. After an error, fpisa_query_error() says
 * in one sentence what went wrong and what to try. For a NULL pointer where a value is needed, a function returns
 * -EINVAL, or 0 if it returns a count. The pointer to a second result may be NULL, and the function then does not store
 * the second result.
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
struct ArrowArrayStream;

enum fpisa_column_type {
	FPISA_COLUMN_REAL = 1, /* binary32 */
	FPISA_COLUMN_DOUBLE = 2,
	FPISA_COLUMN_INT32 = 3,
	FPISA_COLUMN_INT64 = 4,
	FPISA_COLUMN_TEXT = 5,
	FPISA_COLUMN_DATE = 6, /* text of the form 1998-12-31 */
	/* text of digits with a decimal point; all values of a column have the same number of decimal places */
	FPISA_COLUMN_DECIMAL = 7,
	FPISA_COLUMN_TIMESTAMP = 8, /* text of the form 1998-12-31 23:59:59.999999, without zeros at its end */
};

/* The place where rows are dropped or added up. */
enum fpisa_pruning {
	FPISA_PRUNING_NETWORK = 0, /* the aggregator */
	FPISA_PRUNING_NONE = 1,	   /* no pruning; all rows come directly to this process */
	/* each worker drops its own rows, and sends the other rows directly to this process */
	FPISA_PRUNING_WORKERS = 2,
	/*
	 * One group for the whole table as FPISA_PRUNING_WORKERS, all rows as FPISA_PRUNING_NONE, a join as
	 * FPISA_PRUNING_NETWORK. Other groups and the first N rows pass the aggregator if options.aggregator is set,
	 * else they come directly. Each worker sends only its own first N rows, and adds up its rows by key as long as
	 * they have few enough keys
	 */
	FPISA_PRUNING_AUTO = 3,
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
 * records have one size. A function may exit by longjmp(). After that, the query can only be closed.
 */
struct fpisa_query_spill {
	/* Keep a copy of the record. Return 0, or -errno, which is the query's error. */
	int (*put)(void *arg, const void *record, size_t size);
	/*
	 * Store the next record in *record, in the order of memcmp(). Return 1, 0 if no record is left, or -errno.
	 * put() is not called after take().
	 */
	int (*take)(void *arg, void *record, size_t size);
	void (*forget)(void *arg); /* forget all records, because the query begins again */
};

/* A string that is not given is NULL. An empty string gives -EINVAL. */
struct fpisa_query_options {
	size_t size;	     /* sizeof(struct fpisa_query_options), so that later versions can add members */
	const char *workers; /* ADDR[:PORT],... with the TCP port of each, 18001 by default */
	/* key file, whose last key is used; NULL: the file named by FPISA_KEY, unless `key` is set */
	const char *key_file;
	const char *table;
	/* column of numbers, dates or timestamps to aggregate or to order by; NULL: groups are only counted */
	const char *value;
	const char *by;	     /* columns to group by, "a,b"; NULL: no groups, or one group if `total` is set */
	const char *columns; /* columns of the answer's rows, "a,b"; NULL: all. Not with `by` */
	uint64_t limit;	     /* the first N rows by `value`, up to 65536; 0: all rows, or all groups */
	uint8_t ascending;   /* nonzero: the smallest values come first */
	uint8_t nulls_first; /* nonzero: rows whose value is NULL come first; 0: they come last */
	uint8_t pruning;     /* enum fpisa_pruning */
	/*
	 * nonzero: each worker adds up its rows by key first, and sends exact partial sums; with `limit`, it sends its own
	 * first rows
	 */
	uint8_t preaggregate;
	/* number of the query at the aggregator; query, aggregator and token are only for FPISA_PRUNING_NETWORK and FPISA_PRUNING_AUTO */
	uint32_t query;
	const char *aggregator; /* ADDR[:PORT] */
	uint64_t token;
	uint16_t local_port;				 /* UDP port that the query lists for the master; 0: 18000 */
	uint16_t worker_port;				 /* UDP port that the query lists for the workers; 0: 18000 */
	uint32_t timeout_ms;				 /* limit for the time without progress, in ms; 0: 10000 */
	double loss, duplicate, reorder, delay, corrupt; /* fault injection, for tests: as struct fpisa_options */
	uint64_t seed;
	/*
	 * Conditions of the rows, all of which must hold: "price>=1.5,day<1999-01-01,name='a, b',shop not null"; NULL:
	 * all rows. With "shop never null", NULL is an error in a row that fulfils the conditions before this one.
	 */
	const char *where;
	/*
	 * bits of enum fpisa_aggregate: the aggregates to compute; 0: all. The others may be NULL. Fewer aggregates
	 * take less time
	 */
	uint32_t aggregates;
	/*
	 * The other table of a join. The aggregator drops most rows of `table` that have no partner among the rows of
	 * `join`. So the answer has all rows or groups of the join, and possibly a few more, and the caller performs
	 * the join. A join needs FPISA_PRUNING_NETWORK, and excludes `limit` and `preaggregate`.
	 */
	const char *join; /* another table at the same workers; NULL: none */
	/*
	 * Columns of the join, "a=b,c=d", where a and c are columns of `table`, and b and d are columns of `join`. Both
	 * columns of a pair have the same type, which is not text. For groups, a and c are the first columns of `by`
	 * and are never NULL. "a date=b date" gives an error if a column has another type.
	 */
	const char *on;
	const char *join_where; /* conditions of the rows of `join`, as `where`; NULL: all rows */
	const char *key;	/* the key itself, in place of key_file: NAME:ID:SECRET, as a line of a key file */
	/*
	 * Limit in bytes of this process for groups, at about 200 bytes each, or for received rows that were not taken
	 * yet. 0: no limit, but 8 MB for rows. A join uses one half of the limit for received rows, and the other half
	 * for the places of rows, at 8 bytes each. A join that needs more places ends with -E2BIG. A query for the
	 * first N rows stores up to N rows and the places of 2N rows. A query that needs more memory than the limit
	 * also ends with -E2BIG.
	 */
	uint64_t memory;
	/* storage for groups beyond `memory` or 2^24; NULL: a query with more groups ends with -ENOMEM */
	const struct fpisa_query_spill *spill;
	void *spill_arg;
	/*
	 * nonzero: all rows form one group, so the answer has one row, even if no row fulfils `where`. Then `by` and
	 * `columns` are NULL, `limit` is 0, and there is no join
	 */
	uint8_t total;
	/*
	 * columns to aggregate in one pass over the rows, "a,b", in place of `value`. The columns of the answer after
	 * the keys are then count, the number of rows, and count(a), sum(a), min(a), max(a), avg(a), count(b) and so
	 * on. At the aggregator, all columns are real or double, or none of them, and keys need one more byte. "a
	 * filter (c<3,d='x')" aggregates the values of rows that meet these conditions, which are written as `where`;
	 * its columns are "count(a) filter (c<3,d='x')" and so on. "* filter (c<3)" gives only the number of such rows.
	 * "count(distinct a)" gives only the number of distinct values of `a` without NULL, and may have a filter. `a` has
	 * a type of keys, and keys include it. At the aggregator, its type is independent of the other columns
	 */
	const char *values;
	/*
	 * columns "a,b" whose distinct values are counted, as by "count(distinct a),count(distinct b)" at the end of
	 * `values`. NULL: none
	 */
	const char *distinct;
	uint8_t double_sums; /* nonzero: the exact sum of reals is rounded to a double, as of doubles */
};

/* A column of the answer. */
struct fpisa_query_column {
	const char *name; /* name of an aggregate: count, sum, min, max, avg, or sum(a), count(distinct a) and so on */
	uint32_t type;	  /* enum fpisa_column_type */
	uint32_t not_null;
};

/* Counts of rows. A row counts once unless noted; sent = pruned + absorbed + received. */
struct fpisa_query_counts {
	uint64_t rows;	   /* rows of the table at all workers */
	uint64_t nulls;	   /* rows of the table whose value is NULL */
	uint64_t sent;	   /* sent in frames by all workers */
	uint64_t pruned;   /* dropped by the aggregator */
	uint64_t absorbed; /* added to the aggregator's table */
	uint64_t received; /* received by this process */
	/*
	 * The values or rows that the rows in sent, absorbed and received stand for. In a join, `pruned` is the number
	 * of rows that were sent and neither absorbed nor received. Rows without a value are either absorbed or
	 * received.
	 */
	uint64_t values_sent, values_absorbed, values_received;
	uint64_t frames, repeated; /* frames of rows from workers, and how many of these frames were sent again */
	uint32_t restarts;	   /* restarts after the aggregator's state was lost */
	uint32_t certified;	   /* nonzero: the certificate of the aggregator for the first N rows was checked */
};

/*
 * Begin a query and return at once. Set *q to NULL on an error. fpisa_query_work() reports errors that take longer to
 * find.
 *
 * -EINVAL	options that contradict each other
 * -EACCES	others can read the file of the key
 * -ENOENT	the file does not exist; or GnuTLS (libgnutls.so.30) is not installed
 * -EADDRINUSE	another program has the UDP port
 */
int fpisa_query_open(struct fpisa_query **q, const struct fpisa_query_options *options);

/*
 * Continue the query for up to timeout_ms, or without a limit if timeout_ms is -1. Return 1 if rows can be taken, 2 if
 * these are the last rows, 0 if none can be taken yet. An error ends the query. Later calls of this function and of
 * fpisa_query_next() return the same error. Before an error, rows may have been returned only by queries for all rows,
 * for the rows of a join, and for aggregates by key if options.spill holds some of the keys.
 *
 * -EINVAL	a worker does not have a column, or the aggregator has another query
 * -ENOENT	a worker does not have the table
 * -EACCES	a worker does not know the key
 * -ECONNREFUSED, -ECONNRESET	a worker is not running, or has ended
 * -ETIMEDOUT	a worker or the aggregator does not answer
 * -EILSEQ	the counts or the certificate do not agree, so the answer would be wrong
 * -ENOMEM	no memory; or the keys take more than options.memory, or are more than 2^24, and options.spill is NULL
 * -E2BIG	the places of a join's rows, or the first N rows, need more than their part of options.memory
 * -EPROTO	a worker's answer does not fit the query: other columns, NULL in a column that is never NULL, or a
 *		string that is not a value
 */
int fpisa_query_work(struct fpisa_query *q, int timeout_ms);

/*
 * Return a descriptor that becomes readable when fpisa_query_work() with timeout 0 can continue. The query owns the
 * descriptor.
 */
int fpisa_query_fd(const struct fpisa_query *q);

/*
 * Return the number of columns of the answer, and set *columns to an array of the columns. Return 0 until rows can be
 * taken.
 */
uint32_t fpisa_query_columns(const struct fpisa_query *q, const struct fpisa_query_column **columns);

/*
 * Return the number of digits of a column of the answer that is a decimal column of the table. Set *scale, unless scale
 * is NULL, to the number of digits after the point. Return 0 for other columns, for sums and averages, and if the
 * column does not exist.
 */
uint32_t fpisa_query_precision(const struct fpisa_query *q, uint32_t column, uint32_t *scale);

/*
 * Take the next row. *row has a string or NULL for each column, and is valid until the next call on the query. Return
 * 1, or 0 if no row is left now, or the error of the query. Even after fpisa_query_work() has returned 2, the error can
 * be -EILSEQ or one of options.spill's take().
 */
int fpisa_query_next(struct fpisa_query *q, const char *const **row);

/*
 * Give the answer as a stream of Arrow's C stream interface, in place of fpisa_query_next(). The caller releases the
 * stream, and may close the query only after that. The stream's functions wait for rows. A batch has up to 8192 rows,
 * those that arrive without a pause. get_last_error() is the query's message.
 *
 * The Arrow types are float32, float64, int32, int64, utf8, date32, decimal128 and timestamp[us]. The sum of integers or
 * decimals is a decimal128 of 38 digits, and their average is a float64. A longer sum, or a text that is not UTF-8, is an
 * error of the query: -ERANGE or -EILSEQ.
 */
int fpisa_query_stream(struct fpisa_query *q, struct ArrowArrayStream *out);

/*
 * Return 1 if the last of the first N rows has the same value as the row before it, so that other rows may have this
 * value too. Return 0 otherwise, for other queries, and until rows can be taken. Return -EINVAL if q is NULL.
 */
int fpisa_query_tied(const struct fpisa_query *q);

/*
 * Return in one sentence what FPISA_PRUNING_AUTO has chosen. The result is valid until the next call on the query, and
 * NULL with other values of options.pruning and until rows can be taken.
 */
const char *fpisa_query_plan(struct fpisa_query *q);

void fpisa_query_counts(const struct fpisa_query *q, struct fpisa_query_counts *counts);

/*
 * Return the number of keys of the other table that workers have sent, once all rows of the join have been received.
 * Set *filtered to whether the filter had all keys before the first row. If *filtered is 0, or without a join, the
 * filter has dropped no row.
 */
uint64_t fpisa_query_keys(const struct fpisa_query *q, int *filtered);

/*
 * Return a number that identifies the contents of the table's files at the workers, or of the join's other table if
 * `joined`. If two queries of a table get the same number, they have read the same rows with the same schemas. Return 0
 * until rows can be taken, and for `joined` if there is no join.
 */
uint64_t fpisa_query_files(const struct fpisa_query *q, int joined);

/* End the query, even while it is in progress, and stop its workers. q may be NULL. */
void fpisa_query_close(struct fpisa_query *q);

/* Return the message of this thread's last error as one line. The result is never NULL. */
const char *fpisa_query_error(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The master of a query. query.c has the functions of fpisa-query.h, options.c the request, workers.c the connections
 * to workers, and messages.c the messages of workers. frames.c handles rows, acknowledgements and the aggregator's
 * table. answer.c produces the rows of the answer.
 */
#ifndef FPISA_QUERY_MASTER_H
#define FPISA_QUERY_MASTER_H

#include "control.h"
#include "fpisa-query.h"
#include "fpisa/query/window.h"
#include "groups.h"
#include "lib/base/address.h"
#include "member.h"
#include "top.h"

#define FPISA_QUERY_WORKERS (FPISA_MAX_WORKERS - 1)
#define FPISA_QUERY_RESTARTS 16
#define FPISA_QUERY_AHEAD (8u << 20)
#define FPISA_QUERY_READS 16 /* maximum number of READs in flight */

enum fpisa_query_phase {
	FPISA_PHASE_OPEN, /* lasts until all workers are ready */
	FPISA_PHASE_ROWS,
	FPISA_PHASE_SEAL,
	FPISA_PHASE_READ,
	FPISA_PHASE_FETCH,
	FPISA_PHASE_DONE,
};

struct fpisa_query_worker {
	char name[FPISA_ENDPOINT_LEN];
	struct fpisa_address at;
	uint16_t port; /* TCP port */
	int fd;	       /* the socket while it connects */
	struct fpisa_control_channel control;
	struct fpisa_member direct; /* member for direct rows from this worker */
	int ready, done, fetching;
	uint64_t heard_ns; /* when the worker last sent something, or was sent its current request */
	struct fpisa_query_ready is;
	/* is.keys columns of the key, then is.columns columns of the rows, then is.values columns to aggregate */
	struct fpisa_column *columns;
	struct fpisa_query_done said;
	uint64_t *nulls;
	size_t n_nulls;
	uint64_t *rows; /* places of the rows to fetch */
	size_t n_rows, asked, fetched;
	uint8_t *records;
	size_t n_records;
	size_t record_at; /* offset of the next row in `records` */
};

/* Rows of one rank that are in the join or may be in the join. */
struct fpisa_query_places {
	uint64_t *place;
	size_t n, room;
};

struct fpisa_query {
	struct fpisa_query_options options;
	char *table, *value, *by, *columns, *where, *key_file;
	char *join, *on, *there, *join_where;
	struct fpisa_psk psk;
	uint8_t kind;	   /* FPISA_QUERY_SCAN or an enum fpisa_job_kind */
	uint8_t numbered;  /* keys end with the number of a value, and `value` is a list of columns (control.h) */
	uint64_t distinct; /* bit i: the distinct values of column i of `value` are counted */
	struct fpisa_address aggregator;
	uint16_t aggregator_port;
	int poll, timer;
	int error;   /* the last error */
	int settled; /* whether the master has all rows, and has checked them and settled the answer's aggregates */
	char why[512];

	enum fpisa_query_phase phase;
	uint32_t attempt;
	uint32_t key_bytes, form; /* key size and form of direct rows; the form is an enum fpisa_value_form */
	uint64_t cookie;	  /* cookie of direct rows */
	uint64_t progress_ns;
	uint32_t n_workers;
	struct fpisa_query_worker worker[FPISA_QUERY_WORKERS];
	struct fpisa_member member;			       /* the member at the aggregator */
	struct fpisa_query_window window[FPISA_QUERY_WORKERS]; /* for each rank, the sequence numbers that have arrived */
	/* worker of each rank, which is known after the worker's DONE */
	uint32_t of_rank[FPISA_QUERY_WORKERS];

	struct fpisa_groups groups;
	uint32_t read_from; /* number of groups that were received from the aggregator's table */
	struct fpisa_top top;
	struct fpisa_query_places places[FPISA_QUERY_WORKERS];
	uint64_t received, weight; /* number of rows, and number of values in these rows */
	uint64_t absorbed;	   /* number of values in the aggregator's table */
	uint32_t table_groups;	   /* number of groups in the aggregator's table */
	uint64_t read_ns[FPISA_QUERY_READS];
	uint32_t read_at[FPISA_QUERY_READS]; /* the first group of each READ; ~0 if the READ is not in use */
	uint32_t read_next, read_left, read_batch;
	uint64_t ask_ns, ask_pause_ns;
	uint32_t restarts, certified;
	int lost;	   /* the aggregator has another epoch, so a new attempt must begin */
	uint64_t unsealed; /* bitmap of workers whose frames the aggregator lacks, as the aggregator last reported */

	struct fpisa_query_column *out;
	uint32_t n_out;
	uint8_t automatic; /* options.pruning was FPISA_PRUNING_AUTO */
	char plan[192];
	char *names; /* names of aggregates of several columns */
	/* whether `ahead` is the next group, which was read to find the end of a key with several values */
	int is_ahead;
	struct fpisa_query_group ahead;
	uint64_t next; /* index of the answer's next row */
	size_t total;
	const char **text; /* texts of the current row */
	char *space;
	uint8_t *stream; /* records of a scan or a join */
	size_t stream_at, stream_n, stream_room;
	int paused;	      /* more rows wait at the workers */
	uint32_t next_reader; /* the worker after the worker that last filled the room */
	uint8_t *held, kept;  /* the byte after the last text, which is now 0, and its original value */
};

/* Return column `i` of the w->is.values columns to aggregate. */
static inline const struct fpisa_column *fpisa_query_value(const struct fpisa_query_worker *w, uint32_t i)
{
	return &w->columns[w->is.keys + w->is.columns + i];
}

/* Return whether the distinct values of column `i` are counted. */
static inline int fpisa_query_is_distinct(const struct fpisa_query *q, uint32_t i)
{
	return (int)(q->distinct >> i & 1);
}

/* Return whether value `i` is only counted. Its rows have no value, and its only aggregate is a number. */
static inline int fpisa_query_is_counted(const struct fpisa_query *q, uint32_t i)
{
	return fpisa_query_is_distinct(q, i) || fpisa_column_is_rows(fpisa_query_value(&q->worker[0], i));
}

/* Return whether a value of the worker may be NULL. */
static inline int fpisa_query_may_be_null(const struct fpisa_query_worker *w)
{
	int may_be = 0;

	for (uint32_t i = 0; i < w->is.values; i++)
		may_be |= !fpisa_query_value(w, i)->not_null;
	return may_be;
}

/* Set the query's error and message. Return `error`. */
int fpisa_query_fail(struct fpisa_query *q, int error);

static inline int fpisa_query_is_direct(const struct fpisa_query *q)
{
	return q->options.pruning != FPISA_PRUNING_NETWORK;
}

/* Return whether the records of the answer arrive while the caller takes them. */
static inline int fpisa_query_streams(const struct fpisa_query *q)
{
	return q->kind == FPISA_QUERY_SCAN || q->kind == FPISA_QUERY_JOIN;
}

/* Return the maximum size in bytes of the rows that the caller has not taken. Further rows wait at the workers. */
static inline size_t fpisa_query_ahead(const struct fpisa_query *q)
{
	uint64_t most = q->kind == FPISA_QUERY_JOIN ? q->options.memory / 2 : q->options.memory;

	return q->options.memory && most < FPISA_QUERY_AHEAD ? most : FPISA_QUERY_AHEAD;
}

/* Return whether there is room for more rows. */
static inline int fpisa_query_room(const struct fpisa_query *q)
{
	return q->stream_n - q->stream_at < fpisa_query_ahead(q);
}

/* Return the bytes that the places of the first N rows take. */
static inline uint64_t fpisa_query_top_bytes(const struct fpisa_query *q)
{
	uint64_t bytes = q->top.rows ? q->top.room * sizeof(*q->top.rows) : 0;

	for (uint32_t i = 0; i < q->n_workers; i++)
		bytes += q->worker[i].n_nulls * sizeof(*q->worker[i].nulls) +
			 q->worker[i].n_rows * sizeof(*q->worker[i].rows);
	return bytes;
}

/* -- options.c --------------------------------------------------------------------- */
int fpisa_query_take_options(struct fpisa_query *q, const struct fpisa_query_options *options);

/* -- workers.c: each function returns 0, or -errno with the message set -------------- */
int fpisa_query_call(struct fpisa_query *q, struct fpisa_query_worker *w);
int fpisa_query_worker_turn(struct fpisa_query *q, struct fpisa_query_worker *w);
void fpisa_query_worker_watch(struct fpisa_query *q,
			      struct fpisa_query_worker *w); /* watches the connection for input and output */
int fpisa_query_start(struct fpisa_query *q);		     /* begins an attempt */
/* begins the next attempt, unless there were too many attempts */
int fpisa_query_restart(struct fpisa_query *q);
int fpisa_query_fetch(struct fpisa_query *q);
void fpisa_query_worker_close(struct fpisa_query_worker *w);

/* -- messages.c: the function returns 0, or -errno with the message set --------------- */
int fpisa_query_take(struct fpisa_query *q, struct fpisa_query_worker *w, uint16_t type, const uint8_t *content,
		     size_t n);

/* -- frames.c ---------------------------------------------------------------------- */
int fpisa_query_open_sockets(struct fpisa_query *q);
/* takes frames that have arrived, and sends frames that are due */
int fpisa_query_frames(struct fpisa_query *q, uint64_t now);
uint64_t fpisa_query_due(const struct fpisa_query *q);
int fpisa_query_reset(struct fpisa_query *q);		/* forgets all rows */
int fpisa_query_key_twice(const struct fpisa_query *q); /* sets the message and returns -EILSEQ */
void fpisa_query_forget_places(struct fpisa_query *q);
int fpisa_query_check_parameters(struct fpisa_query *q);
/*
 * Check that all of the first N rows that the aggregator counted have arrived. `bar` is the place of the last of these
 * rows plus 1, or 0 if there are fewer than N rows.
 */
int fpisa_query_certify(struct fpisa_query *q, uint64_t bar);

/* -- answer.c ---------------------------------------------------------------------- */
int fpisa_query_describe(struct fpisa_query *q); /* sets the answer's columns */
/*
 * Return the type of column `i` of the answer in a table. The sum of integers or decimals is a decimal of
 * FPISA_DECIMAL_MOST digits, and their average is a double.
 */
struct fpisa_column fpisa_query_out(const struct fpisa_query *q, uint32_t i);
int fpisa_query_check(struct fpisa_query *q);  /* checks that the counts agree */
int fpisa_query_settle(struct fpisa_query *q); /* decides which rows the answer has */
/* takes the next row into q->text; returns 1, or 0 after the last row */
int fpisa_query_row(struct fpisa_query *q);

#endif

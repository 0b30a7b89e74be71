/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The master of a query, in parts: query.c, the functions of fpisa.h; options.c, what it is asked; workers.c, connections to
 * workers; messages.c, what those say; frames.c, rows, acknowledgements and the aggregator's table; answer.c, the rows of the answer.
 */
#ifndef FPISA_QUERY_MASTER_H
#define FPISA_QUERY_MASTER_H

#include "control.h"
#include "fpisa-query.h"
#include "fpisa/query/window.h"
#include "groups.h"
#include "member.h"
#include "top.h"

#define FPISA_QUERY_WORKERS (FPISA_MAX_WORKERS - 1)
#define FPISA_QUERY_RESTARTS 16
#define FPISA_QUERY_AHEAD (8u << 20)
#define FPISA_QUERY_READS 16 /* READs in flight */

enum fpisa_query_phase {
	FPISA_PHASE_OPEN, /* until all workers are ready */
	FPISA_PHASE_ROWS,
	FPISA_PHASE_SEAL,
	FPISA_PHASE_READ,
	FPISA_PHASE_FETCH,
	FPISA_PHASE_DONE,
};

struct fpisa_query_worker {
	char name[24]; /* ADDR:PORT */
	struct sockaddr_in at;
	int fd; /* while it connects */
	struct fpisa_control_channel control;
	struct fpisa_member direct; /* rows that come straight */
	int ready, done, fetching;
	uint64_t heard_ns; /* when it said something, or was asked for what it does now */
	struct fpisa_query_ready is;
	struct fpisa_column *columns; /* is.keys of the key, then is.columns of the rows */
	struct fpisa_query_done said;
	uint64_t *nulls;
	size_t n_nulls;
	uint64_t *rows; /* places to fetch */
	size_t n_rows, asked, fetched;
	uint8_t *records;
	size_t n_records;
	size_t record_at; /* of the next row that is taken */
};

/* Rows of one rank that are in the join, or may be. */
struct fpisa_query_places {
	uint64_t *place;
	size_t n, room;
};

struct fpisa_query {
	struct fpisa_query_options options;
	char *table, *value, *by, *columns, *where, *key_file;
	char *join, *on, *there, *join_where;
	struct fpisa_psk psk;
	uint8_t kind; /* FPISA_QUERY_SCAN, or enum fpisa_job_kind */
	struct in_addr aggregator;
	uint16_t aggregator_port;
	int poll, timer;
	int error; /* the last */
	int settled;
	char why[512];

	enum fpisa_query_phase phase;
	uint32_t attempt, key_bytes;
	uint64_t cookie; /* of rows that come straight */
	uint64_t progress_ns;
	uint32_t n_workers;
	struct fpisa_query_worker worker[FPISA_QUERY_WORKERS];
	struct fpisa_member member;			       /* at the aggregator */
	struct fpisa_query_window window[FPISA_QUERY_WORKERS]; /* of each rank: sequences that came */
	uint32_t of_rank[FPISA_QUERY_WORKERS];		       /* which worker; known with its DONE */

	struct fpisa_groups groups;
	uint32_t read_from; /* groups that the aggregator's table has given */
	struct fpisa_top top;
	struct fpisa_query_places places[FPISA_QUERY_WORKERS];
	uint64_t received, weight; /* rows, and what they stand for */
	uint64_t absorbed;	   /* values in the aggregator's table */
	uint32_t table_groups;	   /* its groups */
	uint64_t read_ns[FPISA_QUERY_READS];
	uint32_t read_at[FPISA_QUERY_READS]; /* the first group of each READ; ~0: none */
	uint32_t read_next, read_left, read_batch;
	uint64_t ask_ns, ask_pause_ns;
	uint32_t restarts, certified;
	int lost;	   /* the aggregator has another epoch: another attempt begins */
	uint64_t unsealed; /* workers whose frames the aggregator lacks, as it last said */

	struct fpisa_query_column *out;
	uint32_t n_out;
	uint64_t next; /* row of the answer */
	size_t total;
	const char **text; /* of the row that was taken last */
	char *space;
	uint8_t *stream; /* records of a query for all rows, or for those of a join */
	size_t stream_at, stream_n, stream_room;
	int paused;	     /* more rows are left with the workers */
	uint8_t *held, kept; /* the byte behind the last text, where a 0 stands now */
};

/* Sets the query's error and message; returns `error`. */
int fpisa_query_fail(struct fpisa_query *q, int error);

static inline int fpisa_query_is_direct(const struct fpisa_query *q)
{
	return q->options.pruning != FPISA_PRUNING_NETWORK;
}

/* Does the answer come in records as it is taken? */
static inline int fpisa_query_streams(const struct fpisa_query *q)
{
	return q->kind == FPISA_QUERY_SCAN || q->kind == FPISA_QUERY_JOIN;
}

/* Return the limit of bytes of rows that the caller has not taken yet; further rows are left with the workers. */
static inline size_t fpisa_query_ahead(const struct fpisa_query *q)
{
	uint64_t most = q->kind == FPISA_QUERY_JOIN ? q->options.memory / 2 : q->options.memory;

	return q->options.memory && most < FPISA_QUERY_AHEAD ? most : FPISA_QUERY_AHEAD;
}

/* Bytes of the first N rows' places. */
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

/* -- workers.c: each 0 or -errno, the message set -------------------------------- */
int fpisa_query_call(struct fpisa_query *q, struct fpisa_query_worker *w);
int fpisa_query_worker_turn(struct fpisa_query *q, struct fpisa_query_worker *w);
void fpisa_query_worker_watch(struct fpisa_query *q,
			      struct fpisa_query_worker *w); /* for what is to come, and to be said */
int fpisa_query_start(struct fpisa_query *q);		     /* an attempt */
int fpisa_query_restart(struct fpisa_query *q);		     /* the next one, if there have not been too many */
int fpisa_query_fetch(struct fpisa_query *q);
void fpisa_query_worker_close(struct fpisa_query_worker *w);

/* -- messages.c: 0 or -errno, the message set ---------------------------------------- */
int fpisa_query_take(struct fpisa_query *q, struct fpisa_query_worker *w, uint16_t type, const uint8_t *content,
		     size_t n);

/* -- frames.c ---------------------------------------------------------------------- */
int fpisa_query_open_sockets(struct fpisa_query *q);
int fpisa_query_frames(struct fpisa_query *q, uint64_t now); /* takes what came, sends what is due */
uint64_t fpisa_query_due(const struct fpisa_query *q);
int fpisa_query_reset(struct fpisa_query *q);		/* nothing has come */
int fpisa_query_key_twice(const struct fpisa_query *q); /* -EILSEQ, the message set */
void fpisa_query_forget_places(struct fpisa_query *q);
int fpisa_query_check_parameters(struct fpisa_query *q);
/* Return whether all of the first N that the aggregator counted have come. `bar` is the place of the last of these, plus 1; 0: there were fewer. */
int fpisa_query_certify(struct fpisa_query *q, uint64_t bar);

/* -- answer.c ---------------------------------------------------------------------- */
int fpisa_query_describe(struct fpisa_query *q); /* the answer's columns */
int fpisa_query_check(struct fpisa_query *q);	 /* do the counts agree? */
int fpisa_query_settle(struct fpisa_query *q);	 /* which rows the answer has */
int fpisa_query_row(struct fpisa_query *q);	 /* the next into q->text; 1, or 0 */

#endif

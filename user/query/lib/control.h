/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages between the master of a query and a worker, other than rows in frames. They use TCP with TLS, and keys and
 * message frames as the manager does (channel.h):
 *
 * 	OPEN	master	the request: struct fpisa_query_open, then strings, each with its 0: enum fpisa_query_string
 * 	READY	worker	struct fpisa_query_ready, then a struct fpisa_column for each column of the key and of the rows
 * 	START	master	struct fpisa_query_start: send from the first row on, in a new attempt
 * 	WORKING	worker	empty: the worker makes progress. Otherwise a bitmap of the
 * 			ranks for whose join keys the worker waits: it makes no progress
 * 	LOST	worker	the attempt, 4 bytes: its epoch is over
 * 	DONE	worker	struct fpisa_query_done, then places of rows that are NULL: all rows are acknowledged
 * 	FETCH	master	places of rows, 8 bytes each
 * 	RECORDS	worker	rows as text: for each column its length, 4 bytes, or FPISA_QUERY_NULL, and its bytes
 * 	FAILED	worker	an errno, 4 bytes, and a sentence with its 0. The last message
 *
 * In each message `number` is the number of bytes of the content in this message and those after it.
 */
#ifndef FPISA_QUERY_CONTROL_H
#define FPISA_QUERY_CONTROL_H

#include "column.h"
#include "lib/manager/channel.h"

#define FPISA_CONTROL_MAGIC 0x43515046u /* "FPQC" as bytes; begins as the manager's magic number does */
#define FPISA_CONTROL_VERSION 4
#define FPISA_CONTROL_PORT 18001 /* TCP port of workers */
#define FPISA_CONTROL_BODY (FPISA_MANAGER_BYTES - 16)
#define FPISA_CONTROL_MOST (64u << 20) /* bytes of a content */
#define FPISA_QUERY_NULL 0xffffffffu
#define FPISA_QUERY_SCAN 0 /* a further value of enum fpisa_job_kind */

/* The strings of OPEN, in their order; "" stands for an option that was not given. */
enum fpisa_query_string {
	FPISA_STRING_TABLE,
	FPISA_STRING_VALUE,
	FPISA_STRING_BY,
	FPISA_STRING_COLUMNS,
	FPISA_STRING_WHERE,
	FPISA_STRING_JOIN,  /* a table */
	FPISA_STRING_ON,    /* columns of the table, in the order of FPISA_STRING_THERE */
	FPISA_STRING_THERE, /* columns of the join's table that equal them */
	FPISA_STRING_JOIN_WHERE,
	FPISA_QUERY_STRINGS,
};

enum fpisa_control_type {
	FPISA_CONTROL_OPEN = 1,
	FPISA_CONTROL_START = 2,
	FPISA_CONTROL_FETCH = 3,
	FPISA_CONTROL_READY = 17,
	FPISA_CONTROL_WORKING = 18,
	FPISA_CONTROL_LOST = 19,
	FPISA_CONTROL_DONE = 20,
	FPISA_CONTROL_RECORDS = 21,
	FPISA_CONTROL_FAILED = 22,
};

struct fpisa_query_open {
	__u8 kind;    /* enum fpisa_job_kind, or FPISA_QUERY_SCAN */
	__u8 pruning; /* enum fpisa_pruning */
	__u8 preaggregate, ascending;
	__u32 query;
	__be32 aggregator;
	__u16 aggregator_port;
	__u16 local_port;  /* UDP port of the worker; 0 if rows go straight to the master */
	__u16 master_port; /* UDP port of the master, if rows go straight to it */
	__u16 mtu;	   /* MTU of the master's path to the aggregator, or to the worker */
	__u32 timeout_ms;
	__u64 token;
	__u64 limit;
	__u64 seed;
	__u32 faults[5]; /* in 2^-32: drop, duplicate, reorder, delay, corrupt */
	__u32 zero;
};

struct fpisa_query_ready {
	__u32 keys, columns;
	__u16 port; /* UDP port of the worker, if rows go straight to the master */
	__u16 value_may_be_null;
	__u8 value_type, value_precision, value_scale; /* as those of struct fpisa_column; 0 without a value */
	__u8 zero;
	__u64 file, joined_file; /* identify the tables' files: they change if rows or schema are replaced or written */
};

struct fpisa_query_start {
	__u32 attempt;
	__u32 rank; /* set, as all below, for rows that go straight to the master */
	__u32 key_bytes;
	__u32 form; /* enum fpisa_value_form */
	__u64 cookie;
};

struct fpisa_query_done {
	__u32 attempt;
	__u32 rank;   /* rank that the aggregator gave the worker */
	__u64 rows;   /* rows of the table at this worker */
	__u64 nulls;  /* rows of these whose value is NULL */
	__u64 sent;   /* rows in frames, each counted once */
	__u64 weight; /* the sum of their counts */
	__u64 frames;
	__u64 repeated; /* frames that were sent again */
	__u64 keys;	/* join keys in frames */
	__u32 filter;	/* state of a join's filter, as the aggregator said it: enum fpisa_filter_state */
	__u32 zero;
};

struct fpisa_control_channel {
	struct fpisa_channel *channel;
	__u8 *out, *in;
	size_t out_at, out_n, out_room; /* whole messages that wait, in bytes */
	size_t in_n, in_room;
	__u64 in_left;
	__u16 in_type; /* type of a content that is not whole; 0 if all contents are whole */
};

/*
 * Open a channel on a connected socket. The channel owns the socket from then on, even if this fails. Return 0 or
 * -errno as in channel.h, with the message set.
 */
int fpisa_control_serve(struct fpisa_control_channel *c, int fd, const struct fpisa_psks *keys);
int fpisa_control_call(struct fpisa_control_channel *c, int fd, const struct fpisa_psk *psk);
void fpisa_control_close(struct fpisa_control_channel *c);

/* Queue a content to be sent. Return 0, or -ENOMEM with the message set. */
int fpisa_control_send(struct fpisa_control_channel *c, __u16 type, const void *content, size_t n);

/*
 * Send and receive what can be sent and received now. Return 1 if a content has arrived; set *type, *content and *n,
 * valid until the next call. Return 0 if nothing has arrived, or -errno with the message set if the connection is over.
 */
int fpisa_control_work(struct fpisa_control_channel *c, __u16 *type, const __u8 **content, size_t *n);

/* Send what can be sent now. Return 0, or -errno as above. */
int fpisa_control_flush(struct fpisa_control_channel *c);

/* Return how many bytes wait to be sent. */
size_t fpisa_control_waiting(const struct fpisa_control_channel *c);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages between the master of a query and a worker, in addition to rows in frames. The messages use TCP with TLS.
 * Keys and message headers are the same as for the manager (channel.h). A string ends with a 0. The messages and their
 * senders are:
 *
 * 	OPEN	master	the request: struct fpisa_query_open, then the strings of enum fpisa_query_string
 * 	READY	worker	struct fpisa_query_ready, then a struct fpisa_column for each column of the key, of the rows and to aggregate
 * 	START	master	struct fpisa_query_start: begin a new attempt, starting with the first row
 * 	WORKING	worker	empty while the worker makes progress, or a bitmap of the ranks for whose join keys the worker waits
 * 	LOST	worker	the attempt whose epoch is over, 4 bytes
 * 	DONE	worker	all rows are acknowledged: struct fpisa_query_done, then places of rows whose value is NULL
 * 	FETCH	master	places of rows, 8 bytes each
 * 	RECORDS	worker	rows as text: for each column the length of its text, 4 bytes, or FPISA_QUERY_NULL, then the text
 * 	FAILED	worker	the last message: an errno, 4 bytes, and a string
 *
 * A content may take several messages. In each message `number` is the number of bytes of the content that this message
 * and later messages carry.
 */
#ifndef FPISA_QUERY_CONTROL_H
#define FPISA_QUERY_CONTROL_H

#include "column.h"
#include "fpisa/address.h"
#include "lib/manager/channel.h"

#define FPISA_CONTROL_MAGIC 0x43515046u /* the bytes "FPQC"; the manager's magic number begins with the same bytes */
#define FPISA_CONTROL_VERSION 5
#define FPISA_CONTROL_PORT 18001 /* TCP port of workers */
#define FPISA_CONTROL_BODY (FPISA_MANAGER_BYTES - 16)
#define FPISA_CONTROL_MOST (64u << 20) /* maximum size in bytes of a content */
#define FPISA_QUERY_NULL 0xffffffffu
#define FPISA_QUERY_SCAN 0 /* an additional value of enum fpisa_job_kind */

/* The strings of OPEN in their order. "" means that the option was not given. */
enum fpisa_query_string {
	FPISA_STRING_TABLE,
	FPISA_STRING_VALUE, /* columns to aggregate, or the column to order by */
	FPISA_STRING_BY,
	FPISA_STRING_COLUMNS,
	FPISA_STRING_WHERE,
	FPISA_STRING_JOIN,  /* the table to join with */
	FPISA_STRING_ON,    /* join columns of the queried table, in the order of FPISA_STRING_THERE */
	FPISA_STRING_THERE, /* join columns of the other table */
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

#define FPISA_QUERY_ADAPT 2

/* What a worker did with its rows. */
enum fpisa_query_way {
	FPISA_WAY_SENT,
	FPISA_WAY_REDUCED, /* pruned them, or added them by key */
	FPISA_WAY_STOPPED, /* stopped adding them by key, because it found too many keys */
};

struct fpisa_query_open {
	__u8 kind;	   /* enum fpisa_job_kind, or FPISA_QUERY_SCAN */
	__u8 pruning;	   /* enum fpisa_pruning */
	__u8 preaggregate; /* 1: add rows by key; FPISA_QUERY_ADAPT: only if the first rows have few enough keys */
	__u8 ascending;
	__u32 query;
	struct fpisa_address aggregator; /* :: if no rows pass an aggregator */
	__u16 aggregator_port;
	__u16 local_port;  /* UDP port of the worker; 0 if the worker sends rows directly to the master */
	__u16 master_port; /* UDP port of the master for direct rows */
	__u16 mtu;	   /* MTU of the master's path to the aggregator, or to the worker */
	__u32 timeout_ms;
	__u32 faults[5]; /* rates in units of 2^-32: drop, duplicate, reorder, delay, corrupt */
	__u64 token;
	__u64 limit;
	__u64 seed;
	/*
	 * 1: the last byte of a key is 0 in a row that only counts, which each row of the table has, and 1 + i in a row
	 * with the value of column i. If the distinct values of column i are counted, the row has the value in the key,
	 * behind the columns of the key, and only counts; a NULL has no row. 0: rows have the value of one column at
	 * most
	 */
	__u32 numbered;
	__u32 zero;
};

struct fpisa_query_ready {
	__u32 keys, columns, values; /* `values` is the number of columns of FPISA_STRING_VALUE */
	__u16 port;		     /* UDP port of the worker for direct rows */
	__u16 zero;
	/* numbers that identify the files of the tables, and change when rows or schema are written or replaced */
	__u64 file, joined_file;
};

struct fpisa_query_start {
	__u32 attempt;
	__u32 rank; /* rank of the worker; this and the members below are set only for direct rows */
	__u32 key_bytes;
	__u32 form; /* enum fpisa_value_form */
	__u64 cookie;
};

struct fpisa_query_done {
	__u32 attempt;
	__u32 rank;   /* rank that the aggregator gave the worker */
	__u64 rows;   /* number of rows in the worker's part of the table */
	__u64 nulls;  /* number of these rows whose value is NULL */
	__u64 sent;   /* number of rows in frames, each row counted once */
	__u64 weight; /* sum of the counts of the rows in frames */
	__u64 frames;
	__u64 repeated; /* number of frames that were sent again */
	__u64 keys;	/* number of join keys in frames */
	__u32 filter;	/* enum fpisa_filter_state of the join, as reported by the aggregator */
	__u32 way;	/* enum fpisa_query_way */
};

struct fpisa_control_channel {
	struct fpisa_channel *channel;
	__u8 *out, *in;
	size_t out_at, out_n, out_room; /* complete messages that wait to be sent, in bytes */
	size_t in_n, in_room;
	__u64 in_left;
	__u16 in_type; /* type of the content that is incomplete; 0 if no content is incomplete */
};

/*
 * Open a channel on a connected socket. The channel owns the socket from then on, even on failure. Return 0, or -errno
 * with the message set, as in channel.h.
 */
int fpisa_control_serve(struct fpisa_control_channel *c, int fd, const struct fpisa_psks *keys);
int fpisa_control_call(struct fpisa_control_channel *c, int fd, const struct fpisa_psk *psk);
void fpisa_control_close(struct fpisa_control_channel *c);

/* Queue a content for sending. Return 0, or -ENOMEM with the message set. */
int fpisa_control_send(struct fpisa_control_channel *c, __u16 type, const void *content, size_t n);

/*
 * Send and receive as much as is possible without waiting. Return 1 if a content has arrived, and set *type, *content
 * and *n. The content is valid until the next call. Return 0 if no content is complete. Return -errno with the message
 * set if the connection has ended.
 */
int fpisa_control_work(struct fpisa_control_channel *c, __u16 *type, const __u8 **content, size_t *n);

/* Send as much as is possible without waiting. Return 0, or -errno as above. */
int fpisa_control_flush(struct fpisa_control_channel *c);

/* Return the number of bytes that wait to be sent. */
size_t fpisa_control_waiting(const struct fpisa_control_channel *c);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Serve one master. connection.c has the turns and time limits, conversation.c the messages, and rows.c the rows. */
#ifndef FPISA_QUERY_SERVING_H
#define FPISA_QUERY_SERVING_H

#include "fpisa-query.h"
#include "lib/base/clock.h"
#include "sender.h"
#include "source.h"

#define MS 1000000ull
#define WORKING_MS 1000 /* time between two messages that report progress */
#define AHEAD (1 << 20) /* maximum size in bytes of messages that wait to be sent */

/* In state KEYING the worker sends the join's keys, or waits for the keys of other workers. */
enum state { GREETING, OPENED, JOINING, KEYING, REDUCING, SENDING, SCANNING, FETCHING, IDLE };

struct session {
	struct fpisa_control_channel control;
	struct fpisa_address from;
	int directory;
	enum state state;
	struct fpisa_query_open want;
	struct fpisa_query_start start;
	struct source source, other; /* `other` is the other table of a join; all 0 without a join */
	/* `missing` has the workers whose keys are incomplete, as the aggregator last reported */
	uint64_t keys, missing;
	uint32_t filter; /* enum fpisa_filter_state */
	bool waits;	 /* whether all keys are sent but keys of other workers are missing */
	struct fpisa_member member;
	struct sender sender;
	uint32_t mtu;
	uint16_t port; /* UDP port */
	uint64_t progress_ns, told_ns;
	size_t waiting;	  /* number of bytes that waited at the last check for progress */
	uint64_t *places; /* places of the rows to fetch */
	size_t n_places, next_place;
	char *records;
	size_t n_records, room;
};

static inline void progress(struct session *s)
{
	s->progress_ns = fpisa_now();
}

/* Each function returns 0, or -errno with the message set. */

/* -- conversation.c */
int session_listen(struct session *s);
int session_say_done(struct session *s);
int session_say_lost(struct session *s);	       /* the epoch is over, so the master begins another attempt */
void session_say_failed(struct session *s, int error); /* reports fpisa_query_error(), and stops reading */

/* -- rows.c: the work of a state in one turn */
int session_receive(struct session *s);
int session_begin_rows(struct session *s);
int session_end_keys(struct session *s);
int session_reduce(struct session *s);
int session_scan(struct session *s);
int session_fetch(struct session *s);

#endif

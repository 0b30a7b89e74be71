/* SPDX-License-Identifier: GPL-2.0-only */
/* The serving of one master: connection.c has turns and times, conversation.c messages, rows.c rows. */
#ifndef FPISA_QUERY_SERVING_H
#define FPISA_QUERY_SERVING_H

#include <netinet/in.h>

#include "fpisa-query.h"
#include "lib/base/clock.h"
#include "sender.h"
#include "source.h"

#define MS 1000000ull
#define WORKING_MS 1000 /* between two messages that report progress */
#define AHEAD (1 << 20) /* bytes of messages that may wait to be sent */

/* KEYING: the worker sends the join's keys, or waits for other workers' keys. */
enum state { GREETING, OPENED, JOINING, KEYING, REDUCING, SENDING, SCANNING, FETCHING, IDLE };

struct session {
	struct fpisa_control_channel control;
	struct sockaddr_in from;
	int directory;
	enum state state;
	struct fpisa_query_open want;
	struct fpisa_query_start start;
	struct source source, other; /* `other`: the join's other table, else all 0 */
	uint64_t keys, missing;	     /* `missing`: workers whose keys are incomplete, as the aggregator last said */
	uint32_t filter;	     /* enum fpisa_filter_state */
	bool waits;		     /* all keys are sent, and other workers' keys are missing */
	struct fpisa_member member;
	struct sender sender;
	uint32_t mtu;
	uint16_t port; /* UDP */
	uint64_t progress_ns, told_ns;
	size_t waiting;	  /* bytes that waited when progress was last checked */
	uint64_t *places; /* places of rows to fetch */
	size_t n_places, next_place;
	char *records;
	size_t n_records, room;
};

static inline void progress(struct session *s)
{
	s->progress_ns = fpisa_now();
}

/* Each function returns 0 or -errno, the message set. */

/* -- conversation.c */
int session_listen(struct session *s);
int session_say_done(struct session *s);
int session_say_lost(struct session *s);	       /* the epoch is over: the master begins another attempt */
void session_say_failed(struct session *s, int error); /* report fpisa_query_error(), then read no more */

/* -- rows.c: the work of a state in one turn */
int session_receive(struct session *s);
int session_begin_rows(struct session *s);
int session_end_keys(struct session *s);
int session_reduce(struct session *s);
int session_scan(struct session *s);
int session_fetch(struct session *s);

#endif

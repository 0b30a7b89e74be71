/* SPDX-License-Identifier: GPL-2.0-only */
/* The serving of one master: session.c has its turns and its times, conversation.c its messages, rows.c its rows. */
#ifndef FPISA_QUERY_SERVING_H
#define FPISA_QUERY_SERVING_H

#include <netinet/in.h>

#include "fpisa-query.h"
#include "lib/base/clock.h"
#include "sender.h"
#include "source.h"

#define MS 1000000ull
#define WORKING_MS 1000 /* between two messages that there is progress */
#define AHEAD (1 << 20) /* bytes of messages that wait to leave */

/* KEYING: the join's keys are sent, or others' are waited for. */
enum state { GREETING, OPENED, JOINING, KEYING, REDUCING, SENDING, SCANNING, FETCHING, IDLE };

struct session {
	struct fpisa_control_channel control;
	struct sockaddr_in from;
	int directory;
	enum state state;
	struct fpisa_query_open want;
	struct fpisa_query_start start;
	struct source source, other; /* `other`: of a join, else all 0 */
	uint64_t keys, missing;	     /* `missing`: workers whose keys are incomplete, as the aggregator last said */
	uint32_t filter;	     /* enum fpisa_filter_state */
	bool waits;		     /* all keys are sent, and other workers' are missing */
	struct fpisa_member member;
	struct sender sender;
	uint32_t mtu;
	uint16_t port; /* UDP */
	uint64_t progress_ns, told_ns;
	size_t waiting;	  /* when progress was last looked for */
	uint64_t *places; /* to fetch */
	size_t n_places, next_place;
	char *records;
	size_t n_records, room;
};

static inline void progress(struct session *s)
{
	s->progress_ns = fpisa_now();
}

/* Each 0 or -errno, the message set. */

/* -- conversation.c */
int session_listen(struct session *s);
int session_say_done(struct session *s);
int session_say_lost(struct session *s); /* its epoch is over: the master begins another attempt, of all workers */
void session_say_failed(struct session *s, int error); /* in one sentence, fpisa_query_error(); then it is read no more */

/* -- rows.c: what a state does in a turn */
int session_receive(struct session *s);
int session_begin_rows(struct session *s);
int session_end_keys(struct session *s);
int session_reduce(struct session *s);
int session_scan(struct session *s);
int session_fetch(struct session *s);

#endif

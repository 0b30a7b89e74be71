/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A worker's frames (doc/query-wire.md, sections 5 and 11): rows, or before them join keys, become frames, each is sent until it is
 * acknowledged. The window of 64 frames narrows when one is lost, and widens again. A rank's window (lib/window.h) shares the timeout
 * (rto.h) and no more: its slots are chunks of an array that all ranks send, each answered by one result that also lets the next
 * leave, where a worker's frames are its own, made once, and acknowledged each.
 */
#ifndef FPISA_QUERY_SENDER_H
#define FPISA_QUERY_SENDER_H

#include <stdbool.h>

#include "query/lib/member.h"
#include "lib/rto.h"

#define SENDER_LATER 2

/* The source of rows. 1: *row is the next, 0: there is none, SENDER_LATER: ask again in another turn, or -errno with the message set. */
struct sender_rows {
	int (*next)(void *arg, struct fpisa_row *row);
	void *arg;
};

struct sender {
	struct fpisa_member *member;
	struct sender_rows rows;
	uint8_t type;		     /* FPISA_TYPE_ROWS, or FPISA_TYPE_KEYS: of each row its join key alone */
	uint32_t row_bytes, a_frame; /* rows */
	uint64_t low;		     /* the lowest sequence without acknowledgement */
	uint64_t next;		     /* the next that is sent for the first time */
	uint64_t last;		     /* 0: not known yet */
	int over;		     /* the last row has been taken */
	int later;		     /* rows follow in another turn: */
	uint32_t taken;		     /* rows already in the next frame */
	uint32_t window;	     /* frames that may be in flight now */
	uint32_t credit;	     /* acknowledgements since the window was widened */
	uint32_t flying;	     /* frames without acknowledgement */
	uint64_t narrowed_ns;
	uint64_t begun_ns;    /* the first frame */
	uint64_t answered_ns; /* the newest copy that was answered */
	struct fpisa_rto rto;
	struct sender_frame {
		struct fpisa_member_frame f;
		uint64_t first_ns, sent_ns; /* its copies: the first one, the last one */
		uint64_t again_ns;	    /* when an acknowledged frame that is repeated is sent again */
		uint32_t tries;
		int acked;
	} frame[FPISA_QUERY_WINDOW];
	char *payloads;
	uint64_t sent, weight, repeated; /* rows, the sum of their counts, frames */
};

/* After fpisa_member has joined; a frame of `type` takes what `mtu` bytes do. 0, or -errno with the message set. */
int sender_begin(struct sender *s, struct fpisa_member *m, uint8_t type, struct sender_rows rows, uint32_t mtu);
void sender_end(struct sender *s); /* also for a sender that is all 0 */

/* Sends what may be sent and what is due again. 0, or -errno with the message set. */
int sender_turn(struct sender *s, uint64_t now);

/* The frame of that sequence is acknowledged; `echo` is the ACK's aux. Is it progress? */
bool sender_acked(struct sender *s, uint64_t sequence, uint64_t echo, uint64_t now);

/* When the next frame is due again; UINT64_MAX: none is. */
uint64_t sender_due(const struct sender *s);

/* Return whether all rows are acknowledged, and the last frame. */
bool sender_done(const struct sender *s);

/* The last frame, which is acknowledged, is sent again at `due_ns`. */
void sender_repeat_last(struct sender *s, uint64_t due_ns);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A worker's frames (doc/query-wire.md, sections 5 and 11). Rows, or before them join keys, become frames, and each
 * frame is sent until it is acknowledged. The window of 64 frames narrows when a frame is lost, and widens again. A
 * rank's window (lib/window.h) shares only the timeout (rto.h). A rank's slots are chunks of an array that all ranks
 * send; one result answers each chunk, and lets the next be sent. A worker's frames belong to this worker alone, are
 * built once, and each is acknowledged.
 *
 * The ranks' limit (lib/congestion.h) was tried in place of this window. It saves 11 of 318 lines and no CPU time. In
 * the networks of test_sender.c, transfers with 1 to 76% loss then take 1.7 to 10 times as long, because that limit
 * falls to two frames. With a floor of 16 frames, they take as long as now. But four workers on a full link then send
 * 4.4% of their frames needlessly, instead of 1.2%, and 14% instead of 3.7% to a master that echoes nothing. The ring
 * of frames cannot be shared: a rank's slot waits for all ranks and moves between queues, but a frame here is either
 * acknowledged or not.
 */
#ifndef FPISA_QUERY_SENDER_H
#define FPISA_QUERY_SENDER_H

#include <stdbool.h>

#include "query/lib/member.h"
#include "lib/rto.h"

#define SENDER_LATER 2

/*
 * The source of rows. next() returns 1 with the next *row, 0 at the end, or -errno with the message set. SENDER_LATER
 * means: call again in another turn.
 */
struct sender_rows {
	int (*next)(void *arg, struct fpisa_row *row);
	void *arg;
};

struct sender {
	struct fpisa_member *member;
	struct sender_rows rows;
	uint8_t type;		     /* FPISA_TYPE_ROWS, or FPISA_TYPE_KEYS to send only the join keys of rows */
	uint32_t row_bytes, a_frame; /* bytes of a row, and rows in a frame */
	uint64_t low;		     /* the lowest sequence without acknowledgement */
	uint64_t next;		     /* the next sequence that is sent for the first time */
	uint64_t last;		     /* the last sequence; 0: not known yet */
	int over;		     /* the last row has been taken */
	int later;		     /* rows follow in another turn */
	uint32_t taken;		     /* rows already in the next frame */
	uint32_t window;	     /* frames that may be in flight now */
	uint32_t credit;	     /* acknowledgements since the window was widened */
	uint32_t flying;	     /* frames without acknowledgement */
	uint64_t narrowed_ns;
	uint64_t begun_ns;    /* when the first frame was sent */
	uint64_t answered_ns; /* when the newest answered copy was sent */
	struct fpisa_rto rto;
	struct sender_frame {
		struct fpisa_member_frame f;
		uint64_t first_ns, sent_ns; /* when its first and its last copy were sent */
		uint64_t again_ns;	    /* when an acknowledged frame that is repeated is sent again */
		uint32_t tries;
		int acked;
	} frame[FPISA_QUERY_WINDOW];
	char *payloads;
	uint64_t sent, weight, repeated; /* rows, the sum of their counts, and frames sent again */
};

/*
 * Begin to send, after fpisa_member has joined. A frame of `type` fits into `mtu` bytes. Return 0, or -errno with the
 * message set.
 */
int sender_begin(struct sender *s, struct fpisa_member *m, uint8_t type, struct sender_rows rows, uint32_t mtu);
void sender_end(struct sender *s); /* the sender may be all 0 */

/* Send the frames that may be sent and the frames that are due again. Return 0, or -errno with the message set. */
int sender_turn(struct sender *s, uint64_t now);

/* Take the acknowledgement of that sequence's frame; `echo` is the ACK's aux. Return whether it is progress. */
bool sender_acked(struct sender *s, uint64_t sequence, uint64_t echo, uint64_t now);

/* Return when the next frame is due again, or UINT64_MAX if never. */
uint64_t sender_due(const struct sender *s);

/* Return whether all rows and the last frame are acknowledged. */
bool sender_done(const struct sender *s);

/* Send the last frame, which is acknowledged, again at `due_ns`. */
void sender_repeat_last(struct sender *s, uint64_t due_ns);

#endif

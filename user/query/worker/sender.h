/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Send the frames of a worker (doc/query-wire.md, sections 5 and 11). Frames contain rows, or join keys before the
 * rows. A frame is sent repeatedly until it is acknowledged. The window of 64 frames narrows when a frame is lost, and
 * widens again afterwards.
 *
 * The window of a rank (lib/window.h) shares only the timeout (rto.h), because it works differently. A rank's slots
 * hold chunks of an array that all ranks send. One result answers each chunk, and then the slot sends its next chunk. A
 * frame of a worker belongs to one worker, is built once and has its own acknowledgement.
 *
 * The congestion limit of ranks (lib/congestion.h) is not suitable here, because it falls to two frames. In the
 * networks of test_sender.c, transfers with 1 to 76% loss would take 1.7 to 10 times as long. With a floor of 16
 * frames, transfers would take as long as with this window. But four workers on a full link would send 4.4% of their
 * frames needlessly, instead of 1.2%. If the master echoes nothing, they would send 14% needlessly, instead of 3.7%.
 */
#ifndef FPISA_QUERY_SENDER_H
#define FPISA_QUERY_SENDER_H

#include <stdbool.h>

#include "query/lib/member.h"
#include "lib/rto.h"

#define SENDER_LATER 2

/*
 * The source of rows. next() returns 1 and sets *row to the next row, or returns 0 at the end, or -errno with the
 * message set. SENDER_LATER means that the sender has to call next() again in a later turn.
 */
struct sender_rows {
	int (*next)(void *arg, struct fpisa_row *row);
	void *arg;
};

struct sender {
	struct fpisa_member *member;
	struct sender_rows rows;
	uint8_t type;		     /* FPISA_TYPE_ROWS, or FPISA_TYPE_KEYS to send only join keys */
	uint32_t row_bytes, a_frame; /* bytes of a row, and number of rows in a frame */
	uint64_t low;		     /* the lowest sequence number without an acknowledgement */
	uint64_t next;		     /* the sequence number of the next new frame */
	uint64_t last;		     /* the sequence number of the last frame; 0 if unknown */
	int over;		     /* whether the last row has been taken */
	int later;		     /* whether further rows follow in another turn */
	uint32_t taken;		     /* number of rows that are already in the next frame */
	uint32_t window;	     /* maximum number of frames in flight */
	uint32_t credit;	     /* number of acknowledgements since the window was last widened */
	uint32_t flying;	     /* number of frames without an acknowledgement */
	uint64_t narrowed_ns;
	uint64_t begun_ns;    /* when the first frame was sent */
	uint64_t answered_ns; /* when the newest copy that has been answered was sent */
	struct fpisa_rto rto;
	struct sender_frame {
		struct fpisa_member_frame f;
		uint64_t first_ns, sent_ns; /* when the first and the last copy were sent */
		uint64_t again_ns;	    /* when to repeat an acknowledged frame */
		uint32_t tries;
		int acked;
	} frame[FPISA_QUERY_WINDOW];
	char *payloads;
	uint64_t sent, weight, repeated; /* number of rows, sum of their counts, and number of frames sent again */
};

/*
 * Begin to send, after fpisa_member has joined. A frame has at most `mtu` bytes, and its type is `type`. Return 0, or
 * -errno with the message set.
 */
int sender_begin(struct sender *s, struct fpisa_member *m, uint8_t type, struct sender_rows rows, uint32_t mtu);
void sender_end(struct sender *s); /* the sender may be all 0 */

/* Send new frames within the window, and frames that are due again. Return 0, or -errno with the message set. */
int sender_turn(struct sender *s, uint64_t now);

/*
 * Handle the acknowledgement of the frame with this sequence number. `echo` is the `aux` of the ACK. Return whether the
 * acknowledgement is new.
 */
bool sender_acked(struct sender *s, uint64_t sequence, uint64_t echo, uint64_t now);

/* Return when the next frame is due again, or UINT64_MAX if no frame is due. */
uint64_t sender_due(const struct sender *s);

/* Return whether all rows and the last frame are acknowledged. */
bool sender_done(const struct sender *s);

/* Send the last frame again at `due_ns`, although it is acknowledged. */
void sender_repeat_last(struct sender *s, uint64_t due_ns);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* Send the frames of a worker. sender.h documents the functions. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "sender.h"

#define LEAST 16 /* minimum number of frames in flight */
#define FIRST 32
#define BACKOFFS 2 /* how often a frame's timeout may double, because the window narrows as well */

static struct sender_frame *frame_of(struct sender *s, uint64_t sequence)
{
	return &s->frame[sequence % FPISA_QUERY_WINDOW];
}

int sender_begin(struct sender *s, struct fpisa_member *m, uint8_t type, struct sender_rows rows, uint32_t mtu)
{
	char *payloads = s->payloads ?: malloc((size_t)FPISA_QUERY_WINDOW * FPISA_MAX_PAYLOAD);

	*s = (struct sender){
		.member = m, .type = type, .rows = rows, .low = 1, .next = 1, .window = FIRST, .payloads = payloads};
	if (!payloads)
		return fpisa_fail(-ENOMEM, "not enough memory for frames; " FPISA_MORE_MEMORY);
	fpisa_rto_init(&s->rto);
	s->row_bytes = type == FPISA_TYPE_KEYS ? m->filter_bytes : fpisa_row_bytes(m->key_bytes, m->form);
	s->a_frame = fpisa_member_fit(m, mtu, s->row_bytes, FPISA_QUERY_ROWS);
	return s->a_frame ? 0 :
			    fpisa_fail(-EMSGSIZE,
				       "the path MTU of %u to the aggregator or master is too small for a row; raise "
				       "it",
				       mtu);
}

void sender_end(struct sender *s)
{
	free(s->payloads);
	s->payloads = NULL;
}

/* Store a value of 8 or more bytes, the count and the short place in `bytes` bytes. */
static void store_wide(char *p, const struct fpisa_row *r, uint32_t bytes)
{
	const uint32_t end[] = {r->count, r->value};

	memcpy(p, r->wide, bytes - sizeof(end));
	memcpy(p + bytes - sizeof(end), end, sizeof(end));
}

static void store_row(const struct sender *s, char *p, const struct fpisa_row *r)
{
	uint32_t key_bytes = s->member->key_bytes;

	if (s->type == FPISA_TYPE_KEYS) {
		memcpy(p, r->key, s->row_bytes);
		return;
	}
	memcpy(p, r->key, key_bytes);
	if (fpisa_form_is_wide(s->member->form)) {
		store_wide(p + key_bytes, r, s->row_bytes - key_bytes);
		return;
	}
	memcpy(p + key_bytes, &r->value, sizeof(r->value));
	if (key_bytes > 4)
		memcpy(p + key_bytes + 4, &r->count, sizeof(r->count));
}

/* Fill the next frame with rows. Return the number of rows, or -errno. */
static int take_rows(struct sender *s, char *payload)
{
	struct fpisa_row r;
	uint32_t n = s->taken;
	int rc = 1;

	s->taken = 0;
	while (n < s->a_frame && (rc = s->rows.next(s->rows.arg, &r)) == 1) {
		store_row(s, payload + n++ * s->row_bytes, &r);
		s->weight += s->member->key_bytes > 4 ? r.count & FPISA_ROW_COUNT : 1;
	}
	s->later = rc == SENDER_LATER;
	if (s->later)
		s->taken = n;
	return rc < 0 ? rc : (int)n;
}

/* Build the frame of the next sequence number. Return 1, 0 if the frame has to wait, or -errno. */
static int make_frame(struct sender *s)
{
	struct sender_frame *f = frame_of(s, s->next);
	char *payload = s->payloads + s->next % FPISA_QUERY_WINDOW * FPISA_MAX_PAYLOAD;
	uint32_t bytes;
	int n = 0;

	if (!s->over) {
		n = take_rows(s, payload);
		if (n < 0 || s->later)
			return n < 0 ? n : 0;
		s->over = (uint32_t)n < s->a_frame;
	}
	/* The last frame has no rows, and is sent after all other frames have been acknowledged. */
	if (!n && s->low < s->next)
		return 0;
	bytes = fpisa_query_payload((uint32_t)n, s->row_bytes);
	memset(payload + (uint32_t)n * s->row_bytes, 0, bytes - (uint32_t)n * s->row_bytes);
	*f = (struct sender_frame){.f = {.payload = payload, .bytes = bytes}};
	f->f.header = (struct fpisa_hdr){.type = s->type,
					 .flags = n ? 0 : FPISA_F_LAST,
					 .rank = (__u16)s->member->rank,
					 .count = (__u16)n,
					 .chunk = s->next};
	s->sent += (uint32_t)n;
	s->last = n ? 0 : s->next;
	s->next++;
	return 1;
}

/* Halve the window, at most once per retransmission timeout. */
static void narrow(struct sender *s, uint64_t now)
{
	if (now < s->narrowed_ns + s->rto.rto_ns)
		return;
	s->narrowed_ns = now;
	s->credit = 0;
	s->window = s->window / 2 > LEAST ? s->window / 2 : LEAST;
}

static int send_batch(struct sender *s, struct fpisa_member_frame *batch, int *n)
{
	int rc = *n ? fpisa_member_send(s->member, batch, *n) : 0;

	*n = 0;
	return rc;
}

/*
 * Stamp a frame with the time of sending. An ACK echoes `aux`, so it shows when the acknowledged copy was sent. A
 * KEYS_ACK uses `aux` for another purpose.
 */
static void stamp(struct sender *s, struct sender_frame *f, uint64_t now)
{
	if (!s->begun_ns)
		s->begun_ns = now;
	f->first_ns = f->tries ? f->first_ns : now;
	f->sent_ns = now;
	if (s->type == FPISA_TYPE_ROWS)
		f->f.header.aux = 1 + now - s->begun_ns;
	f->tries++;
}

/*
 * Return when to send a frame again. If a frame that was sent after this frame's last copy has been answered, this
 * frame was lost. In this case the timeout is not too short, so do not double it.
 */
static uint64_t due_of(const struct sender *s, const struct sender_frame *f)
{
	uint32_t backoff = f->sent_ns <= s->answered_ns ? 0 : f->tries - 1 < BACKOFFS ? f->tries - 1 : BACKOFFS;
	uint64_t after = fpisa_rto_after(&s->rto, backoff), least = s->rto.srtt_ns * 3 / 2;

	return f->tries ? f->sent_ns + (after > least ? after : least) : f->again_ns;
}

int sender_turn(struct sender *s, uint64_t now)
{
	struct fpisa_member_frame batch[FPISA_BATCH];
	int n = 0, rc = 0;

	s->later = 0;
	for (uint64_t i = s->low; !rc && i < s->next; i++) {
		struct sender_frame *f = frame_of(s, i);

		if (f->acked || now < due_of(s, f))
			continue;
		narrow(s, now);
		s->repeated++;
		stamp(s, f, now);
		batch[n++] = f->f;
		if (n == FPISA_BATCH)
			rc = send_batch(s, batch, &n);
	}
	while (!rc && !s->last && s->flying < s->window && s->next < s->low + FPISA_QUERY_WINDOW) {
		rc = make_frame(s);
		if (rc <= 0)
			break;
		stamp(s, frame_of(s, s->next - 1), now);
		s->flying++;
		batch[n++] = frame_of(s, s->next - 1)->f;
		rc = n == FPISA_BATCH ? send_batch(s, batch, &n) : 0;
	}
	return rc ?: send_batch(s, batch, &n);
}

/* Return when the answered copy was sent, or 0 if unknown (Karn's algorithm). */
static uint64_t sent_at(const struct sender *s, const struct sender_frame *f, uint64_t echo)
{
	uint64_t at = s->begun_ns + echo - 1;

	if (echo && at >= f->first_ns && at <= f->sent_ns)
		return at;
	return f->tries == 1 ? f->sent_ns : 0;
}

bool sender_acked(struct sender *s, uint64_t sequence, uint64_t echo, uint64_t now)
{
	struct sender_frame *f = frame_of(s, sequence);
	uint64_t sent;

	if (sequence < s->low || sequence >= s->next || f->acked)
		return false;
	f->acked = 1;
	s->flying--;
	sent = sent_at(s, f, echo);
	if (sent)
		fpisa_rto_sample(&s->rto, now - sent);
	else
		fpisa_rto_ambiguous(&s->rto, FPISA_QUERY_WINDOW);
	if (sent > s->answered_ns)
		s->answered_ns = sent;
	while (s->low < s->next && frame_of(s, s->low)->acked)
		s->low++;
	if (++s->credit >= s->window && s->window < FPISA_QUERY_WINDOW) {
		s->window = s->window * 5 / 4 + 1 < FPISA_QUERY_WINDOW ? s->window * 5 / 4 + 1 : FPISA_QUERY_WINDOW;
		s->credit = 0;
	}
	return true;
}

uint64_t sender_due(const struct sender *s)
{
	uint64_t due = s->later ? 0 : UINT64_MAX;

	for (uint64_t i = s->low; i < s->next; i++) {
		const struct sender_frame *f = &s->frame[i % FPISA_QUERY_WINDOW];

		if (!f->acked && due_of(s, f) < due)
			due = due_of(s, f);
	}
	return due;
}

void sender_repeat_last(struct sender *s, uint64_t due_ns)
{
	struct sender_frame *f = frame_of(s, s->last);

	f->acked = f->tries = 0;
	f->again_ns = due_ns;
	s->flying++;
	s->low = s->last;
}

bool sender_done(const struct sender *s)
{
	return s->last && s->low > s->last;
}

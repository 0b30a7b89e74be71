// SPDX-License-Identifier: GPL-2.0-only
/* Send rows to one master, either in frames until each frame is acknowledged, or over TCP. */
#include <errno.h>
#include <string.h>

#include "fpisa/verdict.h"
#include "lib/base/error.h"
#include "serving.h"

#define RECORDS 32768	       /* bytes of rows in a message */
#define ASK_AGAIN_NS (10 * MS) /* pause before the next check whether the keys of all workers have arrived */

static int take_frame(struct session *s, const struct fpisa_hdr *h, uint64_t now)
{
	if (s->state != SENDING && s->state != KEYING)
		return 0;
	if (h->type == (s->state == KEYING ? FPISA_TYPE_KEYS_ACK : FPISA_TYPE_ACK) &&
	    sender_acked(&s->sender, h->chunk, s->state == KEYING ? 0 : h->aux, now)) {
		progress(s);
		s->missing = s->state == KEYING ? h->bitmap : 0;
		s->filter = s->state == KEYING ? (uint32_t)h->aux : s->filter;
	}
	if (h->type != FPISA_TYPE_ERROR || h->reason == FPISA_V_port)
		return 0;
	if (h->reason == FPISA_V_generation || h->reason == FPISA_V_secret)
		return session_say_lost(s);
	return fpisa_fail(-EPROTO, "query %u: the aggregator refused a frame: %s", s->want.query,
			  fpisa_reason(h->reason));
}

int session_receive(struct session *s)
{
	struct fpisa_in in[FPISA_BATCH];
	int rc = 0, n;

	do {
		uint64_t now = fpisa_now();

		n = s->member.t->ops->receive(s->member.t, in, 0);
		if (n < 0)
			return fpisa_fail(n, "query %u: cannot receive: %s", s->want.query, fpisa_why(n));
		for (int i = 0; !rc && i < n; i++) {
			const struct fpisa_hdr *h = fpisa_member_take(&s->member, &in[i], &rc);

			if (h && !rc)
				rc = take_frame(s, h, now);
		}
	} while (!rc && n == FPISA_BATCH);
	return rc;
}

static int check_role(const struct session *s)
{
	if (s->member.kind != s->want.kind)
		return fpisa_fail(
			-EINVAL,
			"query %u at the aggregator has kind %s, but --kind %s is needed; there, see fpisa query list",
			s->want.query, fpisa_kind_name(s->member.kind), fpisa_kind_name(s->want.kind));
	if (s->member.rank == s->member.members - 1)
		return fpisa_fail(
			-EINVAL,
			"query %u lists this host and port as its master, not as a worker; there, see fpisa query show",
			s->want.query);
	return 0;
}

int session_begin_rows(struct session *s)
{
	int err = s->want.pruning == FPISA_PRUNING_NETWORK ? check_role(s) : 0;

	progress(s);
	if (err || !s->other.columns.n_on) {
		s->state = REDUCING;
		return err ?: source_begin(&s->source, s->member.key_bytes, 0, s->member.form);
	}
	if (!s->member.filter_bytes)
		return fpisa_fail(-EINVAL, "query %u has no filter of join keys at the aggregator", s->want.query);
	s->state = KEYING;
	s->waits = false;
	s->filter = FPISA_FILTER_BUILDING;
	err = source_begin(&s->source, s->member.key_bytes, s->member.filter_bytes, s->member.form) ?:
		      source_begin(&s->other, s->member.filter_bytes, s->member.filter_bytes, s->member.form);
	return err   ?:
		       sender_begin(&s->sender, &s->member, FPISA_TYPE_KEYS,
				    (struct sender_rows){source_next, &s->other}, s->mtu);
}

/* End this worker's keys. Rows follow when the keys of all workers have arrived, or when the keys no longer matter. */
int session_end_keys(struct session *s)
{
	s->keys = s->sender.sent;
	s->waits = s->missing && s->filter == FPISA_FILTER_BUILDING;
	if (s->waits)
		sender_repeat_last(&s->sender, fpisa_now() + ASK_AGAIN_NS);
	else
		s->state = REDUCING;
	return 0;
}

int session_reduce(struct session *s)
{
	int rc = source_reduce(&s->source);

	progress(s);
	if (rc)
		return rc < 0 ? rc : 0;
	s->state = SENDING;
	return sender_begin(&s->sender, &s->member, FPISA_TYPE_ROWS, (struct sender_rows){source_next, &s->source},
			    s->mtu);
}

static int send_records(struct session *s, bool all)
{
	int err = 0;

	if (s->n_records >= RECORDS || (all && s->n_records)) {
		err = fpisa_control_send(&s->control, FPISA_CONTROL_RECORDS, s->records, s->n_records);
		s->n_records = 0;
	}
	return err;
}

int session_scan(struct session *s)
{
	int rc = 1, err = 0;

	while (!err && rc > 0 && fpisa_control_waiting(&s->control) < AHEAD) {
		rc = source_record(&s->source, &s->records, &s->n_records, &s->room);
		err = rc < 0 ? rc : send_records(s, !rc);
		if (rc == SOURCE_LATER) {
			progress(s);
			break;
		}
	}
	return err ?: rc ? err : session_say_done(s);
}

int session_fetch(struct session *s)
{
	int rc, err = 0;

	while (!err && s->next_place < s->n_places && fpisa_control_waiting(&s->control) < AHEAD) {
		rc = source_record_at(&s->source, s->places[s->next_place], &s->records, &s->n_records, &s->room);
		if (rc == SOURCE_LATER)
			return 0;
		s->next_place++;
		err = rc < 0 ? rc : send_records(s, false);
	}
	if (!err && s->next_place == s->n_places) {
		s->state = IDLE;
		err = send_records(s, true);
	}
	return err;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Frames of the master (doc/query-wire.md, section 6). master.h describes the state. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "fpisa/verdict.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "master.h"

#define PLACES_FIRST 16		 /* initial number of places of rows in a join */
#define ASK_FIRST_NS 10000000ull /* pause before a SEAL or READ is sent again, which doubles each time */
#define ASK_MAX_NS 500000000ull
#define TURN 64 /* number of batches that one member may receive before other members have their turn */
#define NOTHING 0xffffffffu

/* -- sockets ------------------------------------------------------------------------ */

static int watch(struct fpisa_query *q, struct fpisa_member *m)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = &q->member};
	int fds[FPISA_TRANSPORT_FDS], n = m->t->ops->fds(m->t, fds);

	for (int i = 0; i < n; i++)
		if (epoll_ctl(q->poll, EPOLL_CTL_ADD, fds[i], &e))
			return fpisa_fail(-errno, "%s", fpisa_why(-errno));
	return 0;
}

int fpisa_query_open_sockets(struct fpisa_query *q)
{
	int rc = 0;

	if (q->kind == FPISA_QUERY_SCAN)
		return 0;
	if (!fpisa_query_is_direct(q)) {
		rc = fpisa_member_open(&q->member, &q->aggregator, q->aggregator_port, q->options.local_port);
		if (rc == -EADDRINUSE)
			return fpisa_fail(
				rc,
				"UDP port %u is in use by another query or program; two queries at once need two "
				"ports (--local-port, and the same port in fpisa query add --master)",
				q->options.local_port);
		return rc ? rc : watch(q, &q->member);
	}
	/* The worker will send the real port. */
	for (uint32_t i = 0; !rc && i < q->n_workers; i++) {
		struct fpisa_query_worker *w = &q->worker[i];

		rc = fpisa_member_open(&w->direct, &w->at, FPISA_PORT, 0);
		if (!rc)
			rc = watch(q, &w->direct);
	}
	return rc;
}

/* -- rows --------------------------------------------------------------------------- */

void fpisa_query_forget_places(struct fpisa_query *q)
{
	for (uint32_t i = 0; i < q->n_workers; i++) {
		free(q->places[i].place);
		q->places[i] = (struct fpisa_query_places){0};
	}
}

int fpisa_query_reset(struct fpisa_query *q)
{
	if (q->groups.spilled)
		q->options.spill->forget(q->options.spill_arg);
	fpisa_groups_free(&q->groups);
	fpisa_top_free(&q->top);
	fpisa_query_forget_places(q);
	q->received = q->weight = q->absorbed = 0;
	q->table_groups = q->read_next = q->read_left = 0;
	for (int i = 0; i < FPISA_QUERY_READS; i++)
		q->read_at[i] = NOTHING;
	q->ask_ns = 0;
	q->ask_pause_ns = ASK_FIRST_NS;
	q->certified = q->lost = 0;
	q->unsealed = 0;
	for (uint32_t i = 0; i < q->n_workers; i++) {
		q->window[i] = fpisa_query_window_empty(FPISA_QUERY_WINDOW);
		q->of_rank[i] = NOTHING;
	}
	/* The groups are set up after the aggregator has sent the length of keys. */
	return 0;
}

/* Return the values that are doubles in rows of this integer form, as in struct fpisa_groups. */
static uint64_t find_doubles(const struct fpisa_query *q, uint32_t form)
{
	uint64_t doubles = 0;

	for (uint32_t i = 0; q->numbered && fpisa_form_is_integer(form) && i < q->worker[0].is.values; i++)
		doubles |= (uint64_t)fpisa_column_is_float(fpisa_query_value(&q->worker[0], i)) << i;
	return doubles & ~q->distinct;
}

static int begin_groups(struct fpisa_query *q, uint32_t key_bytes, uint32_t form)
{
	int rc = fpisa_groups_init(&q->groups, key_bytes, form, q->options.memory);

	q->groups.spill = q->options.spill;
	q->groups.spill_arg = q->options.spill_arg;
	q->groups.ordered = q->numbered;
	q->groups.doubles = find_doubles(q, form);
	return rc;
}

static int prepare(struct fpisa_query *q, const struct fpisa_member *m, uint32_t limit)
{
	if (q->kind == FPISA_QUERY_TABLE)
		return q->groups.group ? 0 : begin_groups(q, m->key_bytes, m->form);
	if (q->kind == FPISA_QUERY_JOIN)
		return 0;
	if (q->options.memory && fpisa_top_bytes(limit) > q->options.memory)
		return fpisa_top_too_big(q->options.limit, q->options.memory);
	return q->top.rows ? 0 : fpisa_top_init(&q->top, limit);
}

/* Check that the aggregator's query has values of a form that all requested columns have. */
static int check_form(const struct fpisa_query *q)
{
	const struct fpisa_query_worker *w = &q->worker[0];
	char type[FPISA_COLUMN_TYPE_MOST];

	for (uint32_t i = 0; i < w->is.values; i++) {
		const struct fpisa_column *c = fpisa_query_value(w, i);

		if (fpisa_query_is_counted(q, i) || fpisa_column_fits(c, q->member.form))
			continue;
		fpisa_column_type_text(c, type);
		return fpisa_fail(
			-EINVAL, "query %u at the aggregator has --values %s; column %s is %s and needs --values %s",
			q->options.query, fpisa_form_name(q->member.form), c->name, type, fpisa_form_name(q->form));
	}
	return 0;
}

int fpisa_query_check_parameters(struct fpisa_query *q)
{
	const struct fpisa_member *m = &q->member;
	const struct fpisa_query_options *o = &q->options;

	if (m->kind != q->kind)
		return fpisa_fail(
			-EINVAL,
			"query %u at the aggregator has kind %s, but --kind %s is needed; there, see fpisa query list",
			o->query, fpisa_kind_name(m->kind), fpisa_kind_name(q->kind));
	if (m->rank != m->members - 1)
		return fpisa_fail(
			-EINVAL,
			"query %u lists this host and port as a worker, not as its master; there, see fpisa query show",
			o->query);
	if (m->members - 1 != q->n_workers)
		return fpisa_fail(-EINVAL,
				  "query %u has %u workers at the aggregator, but this query lists %u; list all of them",
				  o->query, m->members - 1, q->n_workers);
	if (q->join && !m->filter_bytes)
		return fpisa_fail(-EINVAL,
				  "query %u has no filter of join keys at the aggregator; create it with fpisa query "
				  "add "
				  "--filter",
				  o->query);
	if (q->kind == FPISA_QUERY_JOIN && m->key_bytes < m->filter_bytes + 8)
		return fpisa_fail(
			-EINVAL,
			"query %u has keys of %u bytes; join keys of %u with places of rows need --key-bytes %u",
			o->query, m->key_bytes, m->filter_bytes, m->filter_bytes > 8 ? 32 : 16);
	if (q->kind != FPISA_QUERY_TOPN)
		return check_form(q);
	if (!!(m->order & FPISA_QUERY_ASCENDING) != !!o->ascending)
		return fpisa_fail(
			-EINVAL,
			"query %u is %sascending at the aggregator; choose a query that is%s; there, see fpisa query list",
			o->query, o->ascending ? "not " : "", o->ascending ? "" : " not");
	if (m->limit < o->limit)
		return fpisa_fail(-EINVAL, "query %u keeps the first %u rows, but %llu are requested", o->query,
				  m->limit, (unsigned long long)o->limit);
	if (m->key_bytes < 8)
		return fpisa_fail(-EINVAL, "query %u has keys of %u bytes; places of rows need --key-bytes 8", o->query,
				  m->key_bytes);
	return check_form(q);
}

static uint64_t places_left(const struct fpisa_query *q, uint64_t most)
{
	for (uint32_t i = 0; i < q->n_workers; i++)
		most -= q->places[i].room;
	return most;
}

/* Release the unused room in each worker's places. */
static void give_back_places(struct fpisa_query *q)
{
	for (uint32_t i = 0; i < q->n_workers; i++) {
		struct fpisa_query_places *k = &q->places[i];
		uint64_t *place = k->n < k->room ? realloc(k->place, k->n * sizeof(*place)) : NULL;

		if (!place)
			continue;
		k->place = place;
		k->room = k->n;
	}
}

/*
 * Double the room for a worker's places, or add the worker's share of the remaining places. Fail if no places remain
 * after unused room is released.
 */
static int more_places(struct fpisa_query *q, struct fpisa_query_places *k)
{
	uint64_t most = q->options.memory ? q->options.memory / 2 / sizeof(*k->place) : UINT64_MAX,
		 left = places_left(q, most), share, more;
	uint64_t *place;

	if (!left) {
		give_back_places(q);
		left = places_left(q, most);
	}
	if (!left)
		return fpisa_fail(-E2BIG,
				  "the join could have more than %llu rows, whose places do not fit half of "
				  "options.memory (%llu bytes); raise options.memory, or add a condition",
				  (unsigned long long)most, (unsigned long long)q->options.memory / 2);
	share = (left - 1) / q->n_workers + 1;
	more = k->room > PLACES_FIRST ? k->room : PLACES_FIRST;
	more = more < share ? more : share;
	place = realloc(k->place, (k->room + more) * sizeof(*place));
	if (!place)
		return fpisa_fail(-ENOMEM, "not enough memory for the places of rows; " FPISA_MORE_MEMORY);
	k->room += more;
	k->place = place;
	return 0;
}

/* Keep the place of a row that may be in the join. The place follows the join key in the row. */
static int keep_place(struct fpisa_query *q, struct fpisa_query_places *k, const struct fpisa_row *r)
{
	if (k->n == k->room) {
		int rc = more_places(q, k);

		if (rc)
			return rc;
	}
	memcpy(&k->place[k->n++], (const char *)r->key + q->member.filter_bytes, sizeof(*k->place));
	return 0;
}

/* Take a row with a value of this form. */
static int take_row(struct fpisa_query *q, uint32_t worker, const struct fpisa_row *r, uint32_t form)
{
	struct fpisa_top_row top;

	if (q->kind == FPISA_QUERY_TABLE) {
		q->weight += r->count & FPISA_ROW_COUNT;
		return fpisa_groups_add(&q->groups, r);
	}
	if (q->kind == FPISA_QUERY_JOIN)
		return keep_place(q, &q->places[worker], r);
	top = fpisa_top_row_of(r, form, q->options.ascending);
	top.worker = worker;
	fpisa_top_add(&q->top, &top);
	return 0;
}

/*
 * Return whether the sequence number is new, and mark it as taken. A number below the window is not new, because the
 * worker has received its acknowledgement.
 */
static int is_new(struct fpisa_query_window *w, uint64_t sequence)
{
	uint64_t by = w->high - sequence;

	if (sequence <= w->high && (by >= FPISA_QUERY_WINDOW || w->taken >> by & 1))
		return 0;
	if (sequence <= w->high) {
		w->taken |= 1ull << by;
		return 1;
	}
	by = sequence - w->high;
	w->taken = (by >= 64 ? 0 : w->taken << by) | 1;
	w->high = sequence;
	return 1;
}

/*
 * Take rows from rank `from`, and write an acknowledgement to *ack. A rank sends DONE after it has received all
 * acknowledgements, and sends no new rows after DONE. The rows therefore do not change once the query is settled
 * (q->settled).
 */
static int take_rows(struct fpisa_query *q, struct fpisa_member *m, uint32_t from, const struct fpisa_hdr *h,
		     struct fpisa_member_frame *ack)
{
	int done = q->of_rank[from] != NOTHING;
	uint32_t row_bytes = fpisa_row_bytes(m->key_bytes, m->form);
	const char *p = (const char *)(h + 1);
	int rc = prepare(q, m, m == &q->member ? m->limit : (uint32_t)q->options.limit);

	if (!rc && !done && h->chunk && is_new(&q->window[from], h->chunk)) {
		q->progress_ns = fpisa_now();
		q->received += h->count;
		for (uint32_t i = 0; !rc && i < h->count; i++) {
			struct fpisa_row r = fpisa_row_load(p + i * row_bytes, m->key_bytes, m->form);

			rc = take_row(q, from, &r, m->form);
		}
	}
	ack->header = (struct fpisa_hdr){.type = FPISA_TYPE_ACK, .chunk = h->chunk, .aux = h->aux};
	ack->header.slot = m == &q->member ? from : 0;
	ack->header.rank = (uint16_t)(m == &q->member ? m->rank : from);
	ack->bytes = 0;
	return rc;
}

/* -- the aggregator's table ---------------------------------------------------------- */

/* Set the time of the next repetition, and double the pause. */
static void ask_again(struct fpisa_query *q, uint64_t now)
{
	q->ask_ns = now + q->ask_pause_ns;
	q->ask_pause_ns = 2 * q->ask_pause_ns < ASK_MAX_NS ? 2 * q->ask_pause_ns : ASK_MAX_NS;
}

static int seal(struct fpisa_query *q, uint64_t now)
{
	_Alignas(8) uint64_t last[FPISA_QUERY_WORKERS + 4] = {0};
	struct fpisa_member_frame f = {.payload = last, .bytes = fpisa_query_payload(q->n_workers, sizeof(last[0]))};

	if (now < q->ask_ns)
		return 0;
	ask_again(q, now);
	for (uint32_t i = 0; i < q->n_workers; i++)
		last[q->worker[i].said.rank] = q->worker[i].said.frames;
	f.header = (struct fpisa_hdr){
		.type = FPISA_TYPE_SEAL, .rank = (uint16_t)q->member.rank, .count = (uint16_t)q->n_workers};
	return fpisa_member_send(&q->member, &f, 1);
}

int fpisa_query_certify(struct fpisa_query *q, uint64_t bar)
{
	fpisa_top_settle(&q->top);
	if (bar && (q->top.n < q->member.limit || (uint64_t)q->top.rows[q->top.n - 1].place + 1 < bar))
		return fpisa_fail(-EILSEQ,
				  "query %u: the aggregator has counted %u rows from place %llu on, but not all "
				  "arrived; please report this bug",
				  q->options.query, q->member.limit, (unsigned long long)bar - 1);
	q->certified = 1;
	return 0;
}

static int take_status(struct fpisa_query *q, const struct fpisa_hdr *h)
{
	int rc;

	if (q->phase != FPISA_PHASE_SEAL)
		return 0;
	if (q->kind != FPISA_QUERY_TABLE) {
		q->phase = FPISA_PHASE_FETCH;
		if (q->kind != FPISA_QUERY_TOPN)
			return 0;
		rc = prepare(q, &q->member, q->member.limit);
		return rc ? rc : fpisa_query_certify(q, h->aux);
	}
	q->unsealed = h->bitmap;
	if (h->bitmap)
		return 0;
	q->progress_ns = fpisa_now();
	rc = prepare(q, &q->member, 0);
	q->table_groups = q->read_left = (uint32_t)h->aux;
	q->phase = FPISA_PHASE_READ;
	q->ask_ns = 0;
	q->ask_pause_ns = ASK_FIRST_NS;
	return rc;
}

/* Send READs for groups that have not been requested, and repeat READs whose answers are late. */
static int read_more(struct fpisa_query *q, uint64_t now)
{
	static char space[FPISA_MAX_PAYLOAD];
	struct fpisa_member_frame f[FPISA_QUERY_READS];
	int n = 0;

	if (!q->read_batch)
		q->read_batch = fpisa_member_fit(&q->member, fpisa_member_mtu(&q->member),
						 sizeof(struct fpisa_query_group), 26);
	if (!q->read_batch)
		return fpisa_fail(-EMSGSIZE,
				  "the MTU towards the aggregator is too small for the 128 bytes of a key's sums; "
				  "raise it");
	for (int i = 0; i < FPISA_QUERY_READS; i++) {
		if (q->read_at[i] == NOTHING) {
			if (q->read_next >= q->table_groups)
				continue;
			q->read_at[i] = q->read_next;
			q->read_next += q->read_batch;
		} else if (now < q->read_ns[i]) {
			continue;
		}
		q->read_ns[i] = now + 4 * ASK_FIRST_NS;
		f[n].header = (struct fpisa_hdr){.type = FPISA_TYPE_READ, .rank = (uint16_t)q->member.rank};
		f[n].header.chunk = q->read_at[i];
		f[n].header.count = (uint16_t)q->read_batch;
		f[n].payload = space;
		f[n++].bytes = q->read_batch * sizeof(struct fpisa_query_group);
	}
	return n ? fpisa_member_send(&q->member, f, n) : 0;
}

/* Return whether the group follows the rules of fpisa/query/table.h. Larger limbs would overflow in a sum. */
static int is_group(const struct fpisa_query_config *c, const struct fpisa_query_group *g)
{
	int first = c->form == FPISA_FORM_DOUBLE ? FPISA_WIDE_FIRST : 0;

	if (c->form == FPISA_FORM_DOUBLE && (g->next || g->window > FPISA_WIDE_WINDOWS))
		return 0;
	for (int i = first; !fpisa_form_is_integer(c->form) && i < FPISA_GROUP_LIMBS; i++)
		if (g->limb[i] < -(1ll << 62) || g->limb[i] >= 1ll << 62)
			return 0;
	return !(g->specials & ~(uint32_t)(FPISA_GROUP_NAN | FPISA_GROUP_PINF | FPISA_GROUP_NINF));
}

int fpisa_query_key_twice(const struct fpisa_query *q)
{
	return fpisa_fail(-EILSEQ,
			  "query %u: a key is both in the aggregator's table and at the master; please report "
			  "this bug",
			  q->options.query);
}

static int take_groups(struct fpisa_query *q, const struct fpisa_hdr *h)
{
	const char *p = (const char *)(h + 1);
	struct fpisa_query_group g;
	int slot = 0, rc = 0;

	if (q->phase != FPISA_PHASE_READ)
		return 0;
	while (slot < FPISA_QUERY_READS && q->read_at[slot] != h->chunk)
		slot++;
	if (slot == FPISA_QUERY_READS)
		return 0;
	q->read_at[slot] = NOTHING;
	q->progress_ns = fpisa_now();
	for (uint32_t i = 0; !rc && i < h->count; i++) {
		memcpy(&g, p + i * sizeof(g), sizeof(g));
		if (!is_group(&q->groups.config, &g))
			return fpisa_fail(
				-EILSEQ,
				"query %u: the aggregator's table has invalid sums of a key; please report this bug",
				q->options.query);
		q->absorbed += g.count;
		rc = fpisa_groups_put(&q->groups, &g);
	}
	if (rc == -EEXIST)
		return fpisa_query_key_twice(q);
	if (h->count > q->read_left || (!h->count && q->read_left))
		return fpisa_fail(-EILSEQ,
				  "query %u: the aggregator sent the sums of a different number of keys than it had "
				  "reported; run the query again",
				  q->options.query);
	q->read_left -= h->count;
	if (!rc && !q->read_left)
		q->phase = FPISA_PHASE_FETCH;
	return rc;
}

/* -- all frames --------------------------------------------------------------------------- */

static int take_error(struct fpisa_query *q, const struct fpisa_hdr *h)
{
	if (h->reason == FPISA_V_generation || h->reason == FPISA_V_secret || h->reason == FPISA_V_unsealed)
		q->lost = 1;
	if (q->lost || h->reason == FPISA_V_port)
		return 0;
	return fpisa_fail(-EPROTO, "query %u: the aggregator refused a frame: %s", q->options.query,
			  fpisa_reason(h->reason));
}

static int take(struct fpisa_query *q, struct fpisa_member *m, uint32_t from, const struct fpisa_hdr *h,
		struct fpisa_member_frame *ack, int *acks)
{
	if (h->type == FPISA_TYPE_ROWS && m == &q->member)
		from = h->rank;
	if (h->type == FPISA_TYPE_ROWS)
		return from < q->n_workers ? take_rows(q, m, from, h, &ack[(*acks)++]) : 0;
	if (m != &q->member)
		return 0;
	switch (h->type) {
	case FPISA_TYPE_STATUS:
		return take_status(q, h);
	case FPISA_TYPE_GROUPS:
		return take_groups(q, h);
	case FPISA_TYPE_ERROR:
		return take_error(q, h);
	}
	return 0;
}

static int receive(struct fpisa_query *q, struct fpisa_member *m, uint32_t from)
{
	struct fpisa_member_frame ack[FPISA_BATCH];
	struct fpisa_in in[FPISA_BATCH];
	int rc = 0, acks, n = 1;

	for (int turn = 0; !rc && n > 0 && turn < TURN; turn++) {
		int joining = !m->joining.joined;

		acks = 0;
		n = m->t->ops->receive(m->t, in, 0);
		if (n < 0)
			return fpisa_fail(n, "query %u: cannot receive: %s", m->query, fpisa_why(n));
		for (int i = 0; !rc && i < n; i++) {
			const struct fpisa_hdr *h = fpisa_member_take(m, &in[i], &rc);

			if (joining && m->joining.joined && !rc) {
				joining = 0;
				q->progress_ns = fpisa_now();
				rc = fpisa_query_check_parameters(q);
			}
			if (h && !rc)
				rc = take(q, m, from, h, ack, &acks);
		}
		if (acks && !rc)
			rc = fpisa_member_send(m, ack, acks);
	}
	return rc;
}

int fpisa_query_frames(struct fpisa_query *q, uint64_t now)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < q->n_workers; i++)
		if (q->worker[i].direct.t && q->worker[i].direct.joining.joined)
			rc = receive(q, &q->worker[i].direct, i);
	if (rc || !q->member.t)
		return rc;
	rc = receive(q, &q->member, 0);
	if (!rc)
		rc = fpisa_member_turn(&q->member, now);
	if (!rc && q->phase == FPISA_PHASE_SEAL)
		rc = seal(q, now);
	if (!rc && q->phase == FPISA_PHASE_READ && !q->read_left)
		q->phase = FPISA_PHASE_FETCH;
	if (!rc && q->phase == FPISA_PHASE_READ)
		rc = read_more(q, now);
	return rc;
}

uint64_t fpisa_query_due(const struct fpisa_query *q)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < q->n_workers; i++)
		if (q->worker[i].direct.t && fpisa_member_due(&q->worker[i].direct) < due)
			due = fpisa_member_due(&q->worker[i].direct);
	if (!q->member.t)
		return due;
	if (fpisa_member_due(&q->member) < due)
		due = fpisa_member_due(&q->member);
	if (q->phase == FPISA_PHASE_SEAL && q->ask_ns < due)
		due = q->ask_ns;
	for (int i = 0; q->phase == FPISA_PHASE_READ && i < FPISA_QUERY_READS; i++)
		if (q->read_at[i] != NOTHING && q->read_ns[i] < due)
			due = q->read_ns[i];
	return due;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A member of a query. member.h documents the functions. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include "fpisa/names.h"
#include "fpisa/query/check.h"
#include "fpisa/verdict.h"
#include "lib/base/address.h"
#include "lib/base/tag.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "member.h"

#define UNREAD 256 /* number of frames in the windows of four workers */

int fpisa_member_open(struct fpisa_member *m, const struct fpisa_address *to, uint16_t port, uint16_t local_port)
{
	*m = (struct fpisa_member){.joining.next_ns = UINT64_MAX,
				   .headers = (fpisa_is_ipv6(to) ? FPISA_IPV6_LEN : FPISA_IP_LEN) + FPISA_UDP_LEN};
	return fpisa_udp_open(&m->t, to, port, local_port);
}

void fpisa_member_close(struct fpisa_member *m)
{
	if (m->t)
		m->t->ops->close(m->t);
	m->t = NULL;
}

uint16_t fpisa_member_port(const struct fpisa_member *m)
{
	union fpisa_sockaddr at = {.v6 = {0}};
	socklen_t n = sizeof(at);

	return getsockname(fpisa_udp_fd(m->t), &at.any, &n) ? 0 : fpisa_sockaddr_port(&at);
}

int fpisa_member_prepare(struct fpisa_member *m, const struct fpisa_fault_rates *faults, uint64_t seed)
{
	const struct fpisa_hello room = {.window = UNREAD};
	int rc = m->t->ops->joined(m->t, &room);

	return rc < 0 ? rc : fpisa_faults_wrap(&m->t, faults, seed);
}

uint16_t fpisa_member_mtu(const struct fpisa_member *m)
{
	unsigned int headers, mtu = m->t ? fpisa_transport_path_mtu(m->t, &headers) : 0;

	return (uint16_t)(mtu > 0xffff ? 0xffff : mtu);
}

uint32_t fpisa_member_fit(const struct fpisa_member *m, uint32_t mtu, uint32_t bytes, uint32_t most)
{
	const uint32_t headers = m->headers + FPISA_HDR_LEN;
	uint32_t payload = mtu > headers ? mtu - headers : 0;

	if (payload > FPISA_MAX_PAYLOAD)
		payload = FPISA_MAX_PAYLOAD;
	payload -= payload % FPISA_QUERY_PAD;
	return payload / bytes < most ? payload / bytes : most;
}

const char *fpisa_kind_name(uint8_t kind)
{
#define KIND(id, name) [FPISA_QUERY_##id - FPISA_QUERY_TOPN] = (name),
	static const char *const names[] = {FPISA_KIND_NAMES(KIND, )};

	return names[kind - FPISA_QUERY_TOPN];
}

const char *fpisa_form_name(uint32_t form)
{
#define FORM(id, name) [FPISA_FORM_##id] = (name),
	static const char *const names[] = {FPISA_FORM_NAMES(FORM, )};

	return names[form];
}

/* -- joining ------------------------------------------------------------------- */

static int join_as(struct fpisa_member *m, uint64_t number, int anew)
{
	int rc = fpisa_incarnation_begin(&m->incarnation, number);

	fpisa_joining_begin(&m->joining, anew);
	return rc ? fpisa_fail(rc, "cannot get random numbers: %s; allow this process to call getrandom()",
			       strerror(-rc)) :
		    0;
}

int fpisa_member_join(struct fpisa_member *m, uint32_t query, uint64_t token)
{
	m->query = query;
	m->token = (struct fpisa_key){token, 0};
	if (token)
		fpisa_nh_fill(m->nh.w, FPISA_NH_WORDS, &m->token);
	m->epoch = 0;
	return join_as(m, fpisa_incarnation_next(&m->incarnation), 0);
}

void fpisa_member_direct(struct fpisa_member *m, uint32_t epoch, uint32_t rank, uint32_t key_bytes, uint32_t form,
			 uint64_t cookie)
{
	m->query = 0;
	m->token = (struct fpisa_key){0};
	m->joining = (struct fpisa_joining){.cookie = cookie, .joined = 1};
	m->epoch = epoch;
	m->rank = rank;
	m->key_bytes = (uint8_t)key_bytes;
	m->form = (uint8_t)form;
}

int fpisa_member_turn(struct fpisa_member *m, uint64_t now)
{
	struct fpisa_hello_frame hello;
	struct fpisa_out out = {.part = {{&hello, sizeof(hello)}}, .parts = 1, .no_gso = 1};
	int rc;

	if (!fpisa_hello_is_due(&m->joining, now))
		return 0;
	fpisa_hello_write(&hello, m->query, &m->incarnation, &m->joining, &m->token, 0);
	rc = m->t->ops->send(m->t, &out, 1);
	return rc ? fpisa_fail(rc, "query %u: cannot send: %s", m->query, fpisa_why(rc)) : 0;
}

uint64_t fpisa_member_due(const struct fpisa_member *m)
{
	uint64_t due = fpisa_transport_due(m->t);

	return !m->joining.joined && m->joining.next_ns < due ? m->joining.next_ns : due;
}

/*
 * Return whether the payload is a WELCOME of a query. If so, take the query's parameters. A member does not need the
 * size of the filter.
 */
static int is_query(const struct fpisa_query_welcome *p, struct fpisa_query_parameters *q)
{
	*q = (struct fpisa_query_parameters){
		.limit = p->limit,
		.key_bytes = p->key_bytes,
		.filter_bytes = p->filter_bytes,
		.flags = p->flags,
	};
	return !p->elements && !fpisa_query_broken(p->kind, q, p->format) && p->members >= 2 &&
	       p->members <= FPISA_MAX_WORKERS && p->rank < p->members;
}

static int take_parameters(struct fpisa_member *m, const struct fpisa_hdr *h, const struct fpisa_query_welcome *p)
{
	struct fpisa_query_parameters q;

	if (!is_query(p, &q))
		return fpisa_fail(-EINVAL, "query %u does not exist at the aggregator; there, see fpisa query list",
				  m->query);
	m->kind = p->kind;
	m->key_bytes = q.key_bytes;
	m->form = p->format;
	m->order = q.flags;
	m->filter_bytes = q.filter_bytes;
	m->limit = q.limit;
	m->rank = p->rank;
	m->members = p->members;
	m->epoch = h->generation;
	m->rank_key = fpisa_key_of(&m->token, FPISA_KEY_RANK, p->rank, m->joining.cookie);
	m->joining.joined = 1;
	return 0;
}

static int take_welcome(struct fpisa_member *m, const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	enum fpisa_welcome said = fpisa_welcome_take(&m->joining, &m->incarnation, h);

	if (said == FPISA_WELCOME_STALE)
		return 0;
	m->joining.heard_ns = fpisa_now();
	if (said == FPISA_WELCOME_PENDING)
		fpisa_joining_lacks(&m->joining, p->live & ~h->bitmap, m->joining.heard_ns);
	if (said == FPISA_WELCOME_NEWER)
		return join_as(m, h->aux + 1, 1);
	return said == FPISA_WELCOME_JOINED ? take_parameters(m, h, (const struct fpisa_query_welcome *)p) : 0;
}

/* -- frames -------------------------------------------------------------------- */

/* Return the NH key if frames of the query have tags, or NULL if they have checksums. */
static const __u64 *nh_of(const struct fpisa_member *m)
{
	return m->token.k0 ? m->nh.w : NULL;
}

/* Check all received bytes, because checksums and tags cover whole words. */
static int is_whole(const struct fpisa_member *m, const struct fpisa_hdr *h, size_t len)
{
	size_t payload;

	if (len < sizeof(*h) || h->magic != FPISA_MAGIC || h->version != FPISA_VERSION || h->job != m->query)
		return 0;
	payload = len - sizeof(*h);
	if (payload % 8)
		return 0;
	switch (h->type) {
	case FPISA_TYPE_WELCOME:
		if (payload != sizeof(struct fpisa_hello))
			return 0;
		break;
	case FPISA_TYPE_ROWS:
		if (h->count > FPISA_QUERY_ROWS ||
		    payload != fpisa_query_payload(h->count, fpisa_row_bytes(m->key_bytes, m->form)))
			return 0;
		break;
	case FPISA_TYPE_GROUPS:
		if (payload != h->count * sizeof(struct fpisa_query_group))
			return 0;
		break;
	default:
		if (payload)
			return 0;
	}
	return fpisa_is_sealed(h, payload, &m->token, nh_of(m), &m->rank_key);
}

const struct fpisa_hdr *fpisa_member_take(struct fpisa_member *m, const struct fpisa_in *in, int *error)
{
	const struct fpisa_hdr *h = in->data;

	if (!is_whole(m, h, in->len))
		return NULL;
	if (h->type == FPISA_TYPE_WELCOME) {
		*error = take_welcome(m, h, (const struct fpisa_hello *)(h + 1));
		return NULL;
	}
	/* This is the only error that may be the answer to a HELLO. */
	if (!m->joining.joined && h->type == FPISA_TYPE_ERROR && !h->generation && h->chunk == m->incarnation.nonce &&
	    h->reason == FPISA_V_not_live)
		*error = fpisa_fail(-EACCES,
				    "query %u: this host was removed from the query; at the aggregator, see fpisa "
				    "query show %u",
				    m->query, m->query);
	return m->joining.joined && (nh_of(m) || h->secret == m->joining.cookie) && h->generation == m->epoch ? h : NULL;
}

int fpisa_member_send(struct fpisa_member *m, struct fpisa_member_frame *frame, int n)
{
	struct fpisa_out out[FPISA_BATCH];
	int rc = 0;

	for (int i = 0; i < n; i++) {
		struct fpisa_hdr *h = &frame[i].header;
		struct fpisa_seal seal;

		h->magic = FPISA_MAGIC;
		h->version = FPISA_VERSION;
		h->format = m->form;
		h->job = m->query;
		h->generation = m->epoch;
		h->secret = nh_of(m) ? 0 : m->joining.cookie;
		h->bitmap = nh_of(m) ? m->joining.cookie : 0;
		seal = fpisa_seal_begin(h, nh_of(m));
		fpisa_seal_words(&seal, frame[i].payload, frame[i].bytes / 8);
		fpisa_seal_end(&seal, h, &m->rank_key);
	}
	for (int done = 0, batch; !rc && done < n; done += batch) {
		batch = n - done < FPISA_BATCH ? n - done : FPISA_BATCH;
		for (int i = 0; i < batch; i++)
			out[i] = (struct fpisa_out){
				.part = {{&frame[done + i].header, FPISA_HDR_LEN},
					 {frame[done + i].payload, frame[done + i].bytes}},
				.parts = frame[done + i].bytes ? 2 : 1,
				.no_gso = 1,
			};
		rc = m->t->ops->send(m->t, out, batch);
	}
	return rc ? fpisa_fail(rc, "query %u: cannot send: %s", m->query, fpisa_why(rc)) : 0;
}

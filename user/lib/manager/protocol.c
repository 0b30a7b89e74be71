/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Checks of the form of messages, as pure functions of their bytes; protocol.h has the contracts. */
#include <errno.h>
#include <string.h>
#include "fpisa/format.h"
#include "fpisa/job.h"
#include "protocol.h"

int fpisa_manager_name_valid(const char name[FPISA_MANAGER_NAME])
{
	static const char may[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@+-";
	size_t n = strnlen(name, FPISA_MANAGER_NAME);

	if (!n || n == FPISA_MANAGER_NAME || strspn(name, may) != n)
		return 0;
	for (size_t i = n; i < FPISA_MANAGER_NAME; i++)
		if (name[i])
			return 0;
	return 1;
}

/* Return the number of bytes of the body that a type uses. */
static size_t used(enum fpisa_manager_type type)
{
	switch (type) {
	case FPISA_MANAGER_JOIN:
	case FPISA_MANAGER_RETURN:
		return sizeof(struct fpisa_manager_join);
	case FPISA_MANAGER_ASK:
		return sizeof(struct fpisa_manager_ask);
	case FPISA_MANAGER_BIND:
	case FPISA_MANAGER_BOUND:
		return sizeof(struct fpisa_manager_bind);
	case FPISA_MANAGER_JOB:
		return sizeof(struct fpisa_manager_job);
	case FPISA_MANAGER_JOINED:
		return sizeof(struct fpisa_manager_joined);
	case FPISA_MANAGER_PENDING:
	case FPISA_MANAGER_GONE:
		return sizeof(struct fpisa_manager_members);
	case FPISA_MANAGER_LEAVE:
		return sizeof(struct fpisa_manager_leave);
	case FPISA_MANAGER_LEFT:
		return sizeof(struct fpisa_manager_left);
	case FPISA_MANAGER_REFUSED:
	case FPISA_MANAGER_FAILED:
		return sizeof(struct fpisa_manager_refusal);
	case FPISA_MANAGER_WAITS:
		return sizeof(struct fpisa_manager_waits);
	case FPISA_MANAGER_AGGREGATORS:
		return sizeof(struct fpisa_manager_list);
	case FPISA_MANAGER_REGISTER:
		return sizeof(struct fpisa_manager_register);
	case FPISA_MANAGER_RANKS:
		return sizeof(struct fpisa_manager_ranks);
	case FPISA_MANAGER_MAKE:
		return sizeof(struct fpisa_manager_make);
	case FPISA_MANAGER_MADE:
		return sizeof(struct fpisa_manager_made);
	case FPISA_MANAGER_HOLDS:
	case FPISA_MANAGER_ENDED:
	case FPISA_MANAGER_DROP:
		return sizeof(struct fpisa_manager_group_id);
	case FPISA_MANAGER_REGISTERED:
	case FPISA_MANAGER_PING:
	case FPISA_MANAGER_PONG:
		return 0;
	}
	return 0;
}

static int is_type(__u16 type, enum fpisa_manager_side from)
{
	return from == FPISA_MANAGER_RANK ? type >= FPISA_MANAGER_JOIN && type <= FPISA_MANAGER_ENDED :
					    type >= FPISA_MANAGER_PENDING && type <= FPISA_MANAGER_DROP;
}

/* Return whether the spec is valid. 0 means the default, except in the spec of an existing job. */
static int spec_valid(const struct fpisa_manager_spec *s, int made)
{
	if (s->format >= FPISA_FORMAT_END || s->mode >= FPISA_MODE_END || s->rounding > FPISA_ROUND_NEAREST ||
	    s->pipeline > FPISA_PIPELINE_FUSED || s->fanout > FPISA_FANOUT_UNICAST || s->zero)
		return 0;
	if (made && (!s->format || !s->mode || !s->rounding || !s->pipeline || !s->elements || !s->window))
		return 0;
	if (s->elements &&
	    !fpisa_elements_valid(s->elements, s->format ? fpisa_max_elements(fpisa_format_of(s->format), s->mode) :
							   FPISA_MAX_ELEMENTS))
		return 0;
	return !s->window || fpisa_window_valid(s->window);
}

static int join_valid(const struct fpisa_manager_join *j, int returns)
{
	return fpisa_manager_name_valid(j->name) && j->size && j->size <= FPISA_MAX_RANKS && j->rank < j->size &&
	       returns == !!j->group && returns == !!j->secret && !j->zero;
}

static int bind_valid(const struct fpisa_manager_bind *b, int bound)
{
	return b->index < FPISA_MANAGER_JOBS && b->port && b->taken <= bound && b->leaf <= !bound && !b->zero[0] &&
	       !b->zero[1] && bound == !fpisa_is_address(&b->address) && bound == !b->aggregator;
}

/* Return whether a part of the ranks of a group can begin with this rank. */
static int part_valid(__u32 first)
{
	return !(first % FPISA_MANAGER_PART) && first < FPISA_MAX_RANKS;
}

static int members_valid(const struct fpisa_manager_members *m, enum fpisa_manager_type type)
{
	return !m->zero[0] && !m->zero[1] && (type == FPISA_MANAGER_GONE || !m->cause) &&
	       m->cause < FPISA_MANAGER_CAUSE_END && part_valid(m->first);
}

static int joined_valid(const struct fpisa_manager_joined *m)
{
	for (__u32 r = 0; r < FPISA_MAX_WORKERS; r++)
		if (m->home[r] > FPISA_MAX_SHARDS)
			return 0;
	return m->group && m->secret;
}

/* Return whether the text is not empty, and has no control characters for a terminal. */
static int text_valid(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	if (!n || n == size)
		return 0;
	for (size_t i = 0; i < size; i++)
		if (i < n ? text[i] < ' ' || text[i] > '~' : text[i])
			return 0;
	return 1;
}

static int refusal_valid(const struct fpisa_manager_refusal *r)
{
	return text_valid(r->text, sizeof(r->text)) && r->reason && r->reason < FPISA_MANAGER_R_END &&
	       !(r->first % 64) && r->first < FPISA_MAX_RANKS &&
	       (r->index < FPISA_MANAGER_JOBS || r->index == FPISA_MANAGER_NO_JOB);
}

/* Return whether the ranks of a leaf ascend, followed only by zeros. */
static int leaf_valid(const struct fpisa_manager_job *j)
{
	if (j->leaf > FPISA_MAX_WORKERS)
		return 0;
	for (__u32 i = 0; i < FPISA_MAX_WORKERS; i++)
		if (i < j->leaf ? j->rank[i] >= FPISA_MAX_RANKS || (i && j->rank[i] <= j->rank[i - 1]) : j->rank[i])
			return 0;
	return 1;
}

static int job_valid(const struct fpisa_manager_job *j)
{
	for (int i = 0; i < FPISA_MAX_SHARDS; i++)
		if (j->others[i] >= FPISA_MAX_JOBS)
			return 0;
	return j->index < FPISA_MANAGER_JOBS && j->job < FPISA_MAX_JOBS && j->token && !j->others[0] && leaf_valid(j) &&
	       spec_valid(&j->spec, 1);
}

/* Return whether a second address has another family than the first, which is given too. */
static int register_valid(const struct fpisa_manager_register *r)
{
	const int pair = fpisa_is_address(&r->address) && fpisa_is_ipv4(&r->address) != fpisa_is_ipv4(&r->other);

	return r->version && r->port && !r->zero && r->slots && (pair || !fpisa_is_address(&r->other));
}

static int same_place(const struct fpisa_manager_aggregator *a, const struct fpisa_manager_aggregator *b)
{
	return fpisa_same_address(&a->address, &b->address) && a->port == b->port;
}

static int list_valid(const struct fpisa_manager_list *l)
{
	static const struct fpisa_manager_aggregator none;

	if (l->n < 2 || l->n > FPISA_MAX_SHARDS || l->first % FPISA_MANAGER_LISTED || l->first >= l->n)
		return 0;
	for (__u32 i = 0, n = l->n - l->first; i < FPISA_MANAGER_LISTED; i++) {
		const struct fpisa_manager_aggregator *a = &l->of[i];

		if (i >= n ? memcmp(a, &none, sizeof(none)) != 0 :
			     !fpisa_is_address(&a->address) || !a->port || !a->weight || a->weight > FPISA_MAX_WEIGHT ||
				     a->zero)
			return 0;
		for (__u32 k = 0; k < i && i < n; k++)
			if (same_place(a, &l->of[k]))
				return 0;
	}
	return 1;
}

/* Return whether the ranks are valid. The addresses must come first, followed only by zeros. */
static int ranks_valid(const struct fpisa_manager_ranks *r)
{
	if (!r->group || r->zero || r->first % FPISA_MANAGER_MAKE_RANKS || r->first >= FPISA_MAX_WORKERS || !r->port[0])
		return 0;
	for (int i = 0; i < FPISA_MANAGER_MAKE_RANKS; i++)
		if (!fpisa_is_address(&r->address[i]) != !r->port[i] || (i && r->port[i] && !r->port[i - 1]))
			return 0;
	return 1;
}

/* Return whether the job has a place in a tree that there is, or none. */
static int tree_valid(const struct fpisa_manager_make *m)
{
	const int leaf = fpisa_is_address(&m->root);

	return m->leaves <= 1 && !(leaf && m->leaves) && leaf == !!m->port && m->rank < FPISA_MAX_WORKERS &&
	       (leaf || !m->rank) && m->further <= (__u64)leaf;
}

static int make_valid(const struct fpisa_manager_make *m)
{
	return m->group && m->token && m->index < FPISA_MANAGER_JOBS && m->workers && m->workers <= FPISA_MAX_WORKERS &&
	       spec_valid(&m->spec, 0) && m->spec.window && m->numbers && tree_valid(m) &&
	       fpisa_manager_name_valid(m->name) && (!*m->owner || fpisa_manager_name_valid(m->owner));
}

/* Return whether an answer with an error has no values except the elements that fit. */
static int fit_valid(const struct fpisa_manager_made *m)
{
	const struct fpisa_manager_spec fit = {.elements = m->spec.elements};

	return !memcmp(&m->spec, &fit, sizeof(fit)) && spec_valid(&fit, 0);
}

static int made_valid(const struct fpisa_manager_made *m)
{
	if (!m->group || m->index >= FPISA_MANAGER_JOBS || m->err > 0 || m->number >= FPISA_MAX_JOBS)
		return 0;
	return m->err ? text_valid(m->text, sizeof(m->text)) && fit_valid(m) : spec_valid(&m->spec, 1) && !*m->text;
}

/* Return whether a rank may give this reason in FAILED. */
static int failure_valid(__u16 reason)
{
	return reason == FPISA_MANAGER_R_failed || reason == FPISA_MANAGER_R_differs;
}

static int waits_valid(const struct fpisa_manager_waits *w)
{
	return w->call && w->index < FPISA_MANAGER_JOBS && w->elements <= 1 && !w->zero;
}

static int body_valid(const struct fpisa_manager_message *m)
{
	switch ((enum fpisa_manager_type)m->type) {
	case FPISA_MANAGER_JOIN:
	case FPISA_MANAGER_RETURN:
		return join_valid(&m->join, m->type == FPISA_MANAGER_RETURN);
	case FPISA_MANAGER_ASK:
		return m->ask.index < FPISA_MANAGER_JOBS && !m->ask.zero && spec_valid(&m->ask.spec, 0);
	case FPISA_MANAGER_BIND:
	case FPISA_MANAGER_BOUND:
		return bind_valid(&m->bind, m->type == FPISA_MANAGER_BOUND);
	case FPISA_MANAGER_JOB:
		return job_valid(&m->job);
	case FPISA_MANAGER_JOINED:
		return joined_valid(&m->joined);
	case FPISA_MANAGER_PENDING:
	case FPISA_MANAGER_GONE:
		return members_valid(&m->members, (enum fpisa_manager_type)m->type);
	case FPISA_MANAGER_LEFT:
		return part_valid(m->left.first) && m->left.no_results <= m->left.calls;
	case FPISA_MANAGER_REFUSED:
		return refusal_valid(&m->refusal);
	case FPISA_MANAGER_FAILED:
		return refusal_valid(&m->refusal) && failure_valid(m->refusal.reason) &&
		       m->refusal.index != FPISA_MANAGER_NO_JOB && !m->refusal.ranks;
	case FPISA_MANAGER_WAITS:
		return waits_valid(&m->waits);
	case FPISA_MANAGER_AGGREGATORS:
		return list_valid(&m->list);
	/* Accept any version of frames here, because the manager refuses other versions with a specific reason. */
	case FPISA_MANAGER_REGISTER:
		return register_valid(&m->reg);
	case FPISA_MANAGER_RANKS:
		return ranks_valid(&m->ranks);
	case FPISA_MANAGER_MAKE:
		return make_valid(&m->make);
	case FPISA_MANAGER_MADE:
		return made_valid(&m->made);
	case FPISA_MANAGER_HOLDS:
	case FPISA_MANAGER_ENDED:
	case FPISA_MANAGER_DROP:
		return m->of.group != 0;
	case FPISA_MANAGER_LEAVE:
		return m->leave.no_results <= m->leave.calls && !m->leave.zero;
	case FPISA_MANAGER_REGISTERED:
	case FPISA_MANAGER_PING:
	case FPISA_MANAGER_PONG:
		return 1;
	}
	return 0;
}

/* Return whether the type may have this number. */
static int number_valid(enum fpisa_manager_type type, __u64 number)
{
	const int of_aggregator = (type >= FPISA_MANAGER_REGISTER && type <= FPISA_MANAGER_ENDED) ||
				  type >= FPISA_MANAGER_REGISTERED,
		  any = type == FPISA_MANAGER_PING || type == FPISA_MANAGER_PONG || type == FPISA_MANAGER_REFUSED;

	return any || (of_aggregator ? !number : number != FPISA_MANAGER_EVERY);
}

enum fpisa_manager_reason fpisa_manager_check(const struct fpisa_manager_message *m, enum fpisa_manager_side from)
{
	if (m->magic != FPISA_MANAGER_MAGIC)
		return FPISA_MANAGER_R_malformed;
	/* Other versions of the protocol may differ in everything except the form of a refusal. */
	if (m->version != FPISA_MANAGER_VERSION)
		return FPISA_MANAGER_R_version;
	if (!is_type(m->type, from) || !number_valid((enum fpisa_manager_type)m->type, m->number) || !body_valid(m))
		return FPISA_MANAGER_R_malformed;
	for (size_t i = used((enum fpisa_manager_type)m->type); i < sizeof(m->body); i++)
		if (m->body[i])
			return FPISA_MANAGER_R_malformed;
	return 0;
}

struct fpisa_manager_message fpisa_manager_message(enum fpisa_manager_type type)
{
	return (struct fpisa_manager_message){
		.magic = FPISA_MANAGER_MAGIC, .version = FPISA_MANAGER_VERSION, .type = type};
}

int fpisa_manager_error(__u32 reason)
{
	static const int errors[] = {
#define X(name, number, error) [number] = error,
		FPISA_MANAGER_REASONS(X)
#undef X
	};

	return reason && reason < FPISA_MANAGER_R_END ? -errors[reason] : -EPROTO;
}

const char *fpisa_manager_cause_text(__u32 cause)
{
	static const char *const texts[] = {
		[FPISA_MANAGER_CLOSED] = "its process ended",
		[FPISA_MANAGER_SILENT] = "its host does not answer",
		[FPISA_MANAGER_AWAY] = "it did not come back after the manager had been restarted",
		[FPISA_MANAGER_KILLED] = "the group was ended at the aggregator",
		[FPISA_MANAGER_BROKE] = "it sent data that is not a message of this protocol",
	};

	return cause && cause < FPISA_MANAGER_CAUSE_END ? texts[cause] : "unknown cause";
}

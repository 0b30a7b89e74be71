// SPDX-License-Identifier: GPL-2.0-only
/*
 * One rank under the soak: joins, reduces, joins again after each error, as an
 * ordinary user with an address and a job number. Which operation a call is
 * and what all ranks contribute follows from seed, job, generation, call and
 * rank, so each process can recompute every result that it gets, also those
 * of a call that then fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fpisa/block.h"
#include "oracle/arrivals.h"
#include "oracle/oracle.h"
#include "soak.h"
#include "testbed/lab.h"
#include "values/random.h"

#define MAX_COUNT 4000
#define MAX_CHUNKS (MAX_COUNT / FPISA_BLOCK + 1)
#define MAX_FDS 256

struct worker {
	const struct soak *s;
	struct soak_rank *out;
	uint32_t job, rank;
	uint64_t random;
	struct fpisa *f;
	struct fpisa_info info;
	uint64_t retransmits, bad; /* of the handle, in *out already */
	uint32_t calls;		   /* of the generation */
	uint64_t count;
	struct fpisa_chunk chunk[MAX_CHUNKS];
	uint32_t chunks;
	unsigned char send[MAX_COUNT * 8], recv[MAX_COUNT * 8];
};

int soak_open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < MAX_FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void say(struct worker *w, const char *what)
{
	if (!*w->out->message)
		snprintf(w->out->message, sizeof(w->out->message), "job %u rank %u: %s", w->job, w->rank, what);
}

/* -- data ---------------------------------------------------------------- */

/* The call's own random numbers: the same in every rank of the generation. */
static uint64_t call_random(const struct worker *w)
{
	uint64_t state = w->s->o.seed ^ (uint64_t)w->info.generation << 32 ^ w->job << 24 ^ w->calls;

	return splitmix64(&state);
}

/* Exponents near each other, so that sums round and cancel; some zeros and specials. */
static uint64_t float_of(struct fpisa_format f, uint64_t state)
{
	uint64_t z = splitmix64(&state);
	uint64_t e = (1ull << (f.ebits - 1)) - 4 + (z >> 56) % 6, frac = z & ((1ull << f.mbits) - 1);
	uint64_t sign = (z >> 55 & 1) << (f.ebits + f.mbits);

	z = splitmix64(&state);
	if (z % 32 == 0)
		return sign;
	if (z % 4093 == 0)
		e = (1ull << f.ebits) - 1;
	return sign | e << f.mbits | frac;
}

/* Element i of a rank. Of integers, some sums saturate. */
static uint64_t word_of(struct fpisa_format f, uint64_t call, uint32_t rank, uint64_t i)
{
	uint64_t state = call + ((uint64_t)rank << 32 | i), z;

	if (!f.integer)
		return float_of(f, state);
	z = splitmix64(&state);
	return (uint32_t)((int32_t)z >> (z >> 32) % 16);
}

/* Block b of a rank: scales near each other; some blocks of zeros, some NaN. */
static struct oracle_mx block_of(uint64_t call, uint32_t rank, uint64_t b)
{
	uint64_t state = call + ((uint64_t)rank << 32 | b), z = splitmix64(&state);
	struct oracle_mx block = {.scale = z % 61 ? (uint8_t)(120 + (z >> 32) % 12) : 255};

	for (int i = 0; i < ORACLE_MX_LANES && (z >> 40) % 16; i++)
		block.k[i] = (int8_t)splitmix64(&state);
	return block;
}

/* A value in the arrays of the job, or back. */
static uint64_t in_order(const struct worker *w, struct fpisa_format f, uint64_t word)
{
	return w->info.big_endian ? __builtin_bswap64(word) >> (64 - 8 * f.bytes) : word;
}

static void fill(struct worker *w, uint64_t call)
{
	const struct fpisa_format f = fpisa_format_of(w->info.format);

	for (uint64_t b = 0; f.shared && b < w->count / FPISA_BLOCK; b++) {
		struct oracle_mx block = block_of(call, w->rank, b);

		memcpy(w->send + b * FPISA_BLOCK, block.k, FPISA_BLOCK);
		w->send[w->count + b] = block.scale;
	}
	for (uint64_t i = 0; !f.shared && i < w->count; i++)
		fpisa_put_word(w->send, i, f, in_order(w, f, word_of(f, call, w->rank, i)));
}

/* The call's operation, one that the job offers: half of them sums. */
static struct oracle_call operation_of(const struct worker *w)
{
	uint64_t state = call_random(w) + 1, z = splitmix64(&state);
	struct oracle_call c = {
		.f = fpisa_register(w->info.format, w->info.mode, w->info.workers),
		.mode = w->info.mode,
		.rounding = w->info.rounding,
		.op = FPISA_OP_SUM,
		.factor = 1.0 / (double)(1 + (z >> 32) % 64),
	};

	if (z & 1)
		c.factor = -c.factor;
	if (c.f.bytes < 8)
		c.factor = (float)c.factor;
	if (z & 2)
		return c;
	do
		c.op = 1 + (int)(splitmix64(&state) % (FPISA_OP_END - 1));
	while (!fpisa_op_offered(c.f, c.mode, (uint32_t)c.op));
	return c;
}

/* -- check ----------------------------------------------------------------- */

/* How many elements (and scales) of a chunk are wrong; *flags becomes what the chunk must say. */
static uint64_t wrong_values(const struct worker *w, const struct fpisa_chunk *c, const uint32_t *rank_at, uint32_t n,
			     uint32_t *flags)
{
	const struct oracle_call call = operation_of(w);
	uint64_t random = call_random(w), wrong = 0;

	for (uint64_t i = c->offset; i < c->offset + c->count && !call.f.shared; i++) {
		uint64_t words[SOAK_RANKS];

		for (uint32_t k = 0; k < n; k++)
			words[k] = word_of(call.f, random, rank_at[k], i);
		wrong += oracle_result(&call, n, words, NULL, flags) !=
			 in_order(w, call.f, fpisa_get_word(w->recv, i, call.f));
	}
	for (uint64_t i = c->offset; i < c->offset + c->count && call.f.shared; i += FPISA_BLOCK) {
		struct oracle_mx blocks[SOAK_RANKS], want;

		for (uint32_t k = 0; k < n; k++)
			blocks[k] = block_of(random, rank_at[k], i / FPISA_BLOCK);
		oracle_result_mx(&call, n, blocks, &want, NULL, flags);
		wrong += w->recv[w->count + i / FPISA_BLOCK] != want.scale;
		for (int lane = 0; lane < ORACLE_MX_LANES; lane++)
			wrong += (int8_t)w->recv[i + (uint64_t)lane] != want.k[lane];
	}
	return wrong;
}

static void check_chunk(struct worker *w, const struct fpisa_chunk *c, uint64_t absent)
{
	uint64_t all = ~0ull >> (64 - w->info.workers);
	uint32_t rank_at[FPISA_ORDER_WORKERS], n = (uint32_t)__builtin_popcountll(c->ranks), flags = 0;
	uint64_t wrong;

	if (c->ranks & ~all || (c->ranks | absent) != all || !arrivals(c->order, c->ranks, rank_at) ||
	    c->offset + c->count > w->count) {
		w->out->mismatches++;
		say(w, "a result names wrong members, order or place");
		return;
	}
	wrong = wrong_values(w, c, rank_at, n, &flags);
	w->out->elements += c->count;
	w->out->chunks++;
	w->out->mismatches += wrong + (flags != c->flags);
	if (wrong)
		say(w, "a result is wrong");
	else if (flags != c->flags)
		say(w, "flags are wrong");
}

static void on_chunk(void *arg, const struct fpisa_chunk *c)
{
	struct worker *w = arg;

	if (w->chunks < MAX_CHUNKS)
		w->chunk[w->chunks++] = *c;
}

/* All of a call that ended well: its flags are those of its chunks. */
static void check_call(struct worker *w, uint32_t flags)
{
	uint64_t sums = 0;
	uint32_t want = 0;

	for (uint32_t i = 0; i < w->chunks; i++) {
		sums += w->chunk[i].count;
		want |= w->chunk[i].flags;
		if (w->chunk[i].ranks != w->chunk[0].ranks)
			want |= FPISA_RESULT_MIXED_RANKS;
	}
	if (sums != w->count) {
		w->out->mismatches++;
		say(w, "a call ended well without all of its results");
	} else if (flags != want) {
		w->out->mismatches++;
		say(w, "flags of a call are not those of its chunks");
	}
}

/* -- calls --------------------------------------------------------------- */

static void begin(struct worker *w)
{
	__atomic_store_n(&w->out->in_call_ns, lab_now(), __ATOMIC_RELAXED);
}

static void end(struct worker *w, int err)
{
	uint64_t took = lab_now() - w->out->in_call_ns;

	__atomic_store_n(&w->out->in_call_ns, 0, __ATOMIC_RELAXED);
	if (took > w->out->longest_ns)
		w->out->longest_ns = took;
	switch (err) {
	case 0:
		return;
	case -ETIMEDOUT: /* somebody was killed, a link or the job was down */
	case -ESTALE:	 /* the job was made anew, the rank was taken out */
	case -EACCES:
		w->out->errors++;
		return;
	case -EBUSY: /* the kernel has not yet taken the queue from the process that was killed */
	case -EAGAIN: /* the next hop does not answer */
		if (!soak_uses_xsk(w->job, w->rank))
			break;
		w->out->errors++;
		return;
	}
	w->out->unexpected++;
	say(w, fpisa_error());
}

static void account(struct worker *w)
{
	struct fpisa_info now = {.size = sizeof(now)};

	if (!w->f || fpisa_get_info(w->f, &now))
		return;
	w->out->retransmits += now.retransmits - w->retransmits;
	w->out->bad += now.bad - w->bad;
	w->retransmits = now.retransmits;
	w->bad = now.bad;
	w->info = now;
}

static void leave(struct worker *w)
{
	account(w);
	fpisa_close(w->f);
	w->f = NULL;
	w->retransmits = w->bad = 0;
}

/* A new handle, or the old one in a new generation: both ways must do. */
static int join(struct worker *w)
{
	const struct soak_job *j = &w->s->job[w->job];
	struct fpisa_options options = {
		.size = sizeof(options),
		.local_port = (uint16_t)(FPISA_PORT + w->job),
		.token = j->config.token,
		.timeout_ms = SOAK_TIMEOUT_MS,
		.seed = splitmix64(&w->random),
		.overflow = FPISA_OVERFLOW_FLAG,
		.restore = 1,
		.transport = soak_uses_xsk(w->job, w->rank) ? FPISA_TRANSPORT_XSK : FPISA_TRANSPORT_UDP,
		.on_chunk = on_chunk,
		.arg = w,
	};
	char address[32];
	int err;

	if (w->job % 2) {
		options.loss = w->s->o.rates.drop / 2;
		options.duplicate = w->s->o.rates.duplicate / 2;
		options.reorder = w->s->o.rates.reorder / 2;
		options.delay = w->s->o.rates.delay / 2;
		options.corrupt = w->s->o.rates.corrupt / 2;
	}
	if (w->f && splitmix64(&w->random) % 2)
		leave(w);
	snprintf(address, sizeof(address), "%u.%u.%u.%u", DOTTED(SOAK_ADDRESS));
	begin(w);
	err = w->f ? fpisa_rejoin(w->f) : fpisa_connect(&w->f, address, w->job, &options);
	end(w, err);
	account(w);
	if (err)
		return err;
	w->calls = 0;
	w->out->joins++;
	if (w->info.rank != w->rank || w->info.workers != j->ranks) {
		w->out->mismatches++;
		say(w, "joined as another rank, or among others");
	}
	return 0;
}

/* Most computing is shorter than a round, some of it longer than many. */
static void compute(struct worker *w)
{
	uint64_t z = splitmix64(&w->random);

	usleep((useconds_t)(z >> 32) % (z % 64 ? 20000 : 500000));
	w->out->computed++;
}

/* One call, in the way that the dice say. */
static int call(struct worker *w, const struct oracle_call *c, enum soak_way way, const void *send, uint32_t *flags)
{
	const enum fpisa_dtype type = (enum fpisa_dtype)w->info.format;
	const enum fpisa_operation op = (enum fpisa_operation)c->op;
	struct fpisa_request *r;
	int err, done = 0;

	if (way == SOAK_BLOCKS)
		return fpisa_allreduce_op(w->f, send, w->recv, w->count, type, op, c->factor, flags);
	err = fpisa_allreduce_op_start(w->f, send, w->recv, w->count, type, op, c->factor, &r);
	if (!err && splitmix64(&w->random) % 2)
		compute(w);
	if (err || way == SOAK_WAITS)
		return err ?: fpisa_wait(&r, flags);
	while (!err && !done) {
		err = fpisa_test(&r, &done, flags);
		if (!err && !done)
			usleep((useconds_t)(splitmix64(&w->random) % 1000));
	}
	return err;
}

/* A call in place that failed: its array is as it was. */
static void check_restored(struct worker *w)
{
	if (memcmp(w->recv, w->send, sizeof(w->recv))) {
		w->out->mismatches++;
		say(w, "the array of a failed call in place is not as it was");
	}
	w->out->restored++;
}

static int reduce(struct worker *w)
{
	const uint64_t *out = &w->s->shared->taken_out[w->job];
	uint64_t random = call_random(w), absent = __atomic_load_n(out, __ATOMIC_ACQUIRE);
	const enum soak_way way = (enum soak_way)(splitmix64(&w->random) % SOAK_WAYS);
	const bool in_place = splitmix64(&w->random) % 2;
	const struct oracle_call c = operation_of(w);
	uint32_t flags = 0;
	int err;

	w->count = 1 + random % MAX_COUNT;
	if (c.f.shared)
		w->count += -w->count % FPISA_BLOCK;
	w->chunks = 0;
	fill(w, random);
	if (in_place)
		memcpy(w->recv, w->send, sizeof(w->recv));
	else
		memset(w->recv, 0xa5, sizeof(w->recv));
	begin(w);
	err = call(w, &c, way, in_place ? w->recv : w->send, &flags);
	end(w, err);
	absent |= __atomic_load_n(out, __ATOMIC_ACQUIRE);
	account(w);
	if (err && in_place) {
		check_restored(w);
		return err;
	}
	for (uint32_t i = 0; i < w->chunks; i++)
		check_chunk(w, &w->chunk[i], absent);
	if (err)
		return err;
	check_call(w, flags);
	w->calls++;
	w->out->rounds++;
	w->out->by_way[way]++;
	w->out->in_place += in_place;
	w->out->xsk += soak_uses_xsk(w->job, w->rank);
	w->out->by_op[c.op]++;
	w->out->by_format[w->info.format]++;
	return 0;
}

void soak_work(void *arg, int control)
{
	const struct soak_place *p = arg;
	struct worker *w = calloc(1, sizeof(*w));
	int err, fds;

	process_forget(control);
	if (!w || (!soak_uses_xsk(p->job, p->rank) && process_drop_privileges(p->s->parent)))
		return;
	w->s = p->s;
	w->out = &p->s->shared->rank[p->job][p->rank];
	w->job = p->job;
	w->rank = p->rank;
	w->random = p->s->random;
	fds = soak_open_fds();
	err = -ENOTCONN;
	while (!__atomic_load_n(&w->out->stop, __ATOMIC_ACQUIRE)) {
		err = err ? join(w) : reduce(w);
		if (err)
			usleep((useconds_t)(splitmix64(&w->random) % 20000));
	}
	leave(w);
	w->out->leaked_fds += (uint64_t)abs(soak_open_fds() - fds);
	free(w);
	_exit(0);
}

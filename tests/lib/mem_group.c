// SPDX-License-Identifier: GPL-2.0-only
/*
 * Groups of libfpisa over transport `mem`, for LD_PRELOAD: the ranks are threads of one process, and need neither a
 * manager nor privilege. It replaces the functions of groups that adapters/torch calls. mem_group_join() replaces
 * fpisa_group_join(). With FPISA_SOFT_PORT the ranks are processes, and soft_server.c at that port is the aggregator.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fpisa.h>

#define TYPES (FPISA_FLOAT64 + 1)

/* The aggregators of a group: one for each type of values. */
struct world {
	struct world *next;
	char name[64];
	struct fpisa_mem *mem[TYPES];
	int ranks; /* ranks that have not left */
};

struct fpisa_group {
	struct world *world;
	struct fpisa *handle[TYPES];
	uint32_t rank, size;
};

/* A reduce-scatter: recv gets a part of the sum of all elements. */
struct scatter {
	char *sum;
	void *recv;
	size_t from, bytes;
	void (*on_done)(void *arg, int rc, uint32_t flags);
	void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct world *worlds;

static int create(struct world *w, uint32_t size, uint32_t mode)
{
	for (int type = FPISA_FLOAT32; type < TYPES; type++) {
		struct fpisa_mem_options o = {.size = sizeof(o), .workers = size, .window = 64, .format = type};

		o.mode = mode;
		o.rounding = mode >= FPISA_JOB_MODE_FPISA64 ? 2 : 1;
		o.elements = type != FPISA_FLOAT64 ? 352 : mode == FPISA_JOB_MODE_EXACT ? 128 : 160;
		if (fpisa_mem_create(&w->mem[type], &o))
			return -1;
	}
	return 0;
}

static struct world *find(const char *name, uint32_t size, uint32_t mode)
{
	struct world *w;

	pthread_mutex_lock(&lock);
	for (w = worlds; w && strcmp(w->name, name); w = w->next)
		;
	if (!w && (w = calloc(1, sizeof(*w)))) {
		strncpy(w->name, name, sizeof(w->name) - 1);
		if (create(w, size, mode))
			abort();
		w->next = worlds;
		worlds = w;
	}
	if (w)
		w->ranks++;
	pthread_mutex_unlock(&lock);
	return w;
}

static int connect_type(struct fpisa_group *g, int type, struct fpisa_options *o)
{
	const char *port = getenv("FPISA_SOFT_PORT");
	char address[64];

	if (!port)
		return fpisa_mem_connect(&g->handle[type], g->world->mem[type], g->rank, o);
	snprintf(address, sizeof(address), "127.0.0.1:%d", atoi(port) + type);
	o->local_port = (uint16_t)(atoi(port) + 16 * type + 100 + (int)g->rank);
	return fpisa_connect(&g->handle[type], address, 7, o);
}

/* Join the group when all ranks have. timeout_ms is the deadline of each call. */
int mem_group_join(struct fpisa_group **g, const char *name, uint32_t rank, uint32_t size, uint32_t mode,
		   uint32_t timeout_ms)
{
	struct fpisa_options o = {
		.size = sizeof(o), .timeout_ms = timeout_ms, .overflow = FPISA_OVERFLOW_FLAG, .progress = 1};
	int rc = 0;

	*g = calloc(1, sizeof(**g));
	(*g)->world = find(name, size, mode);
	(*g)->rank = rank;
	(*g)->size = size;
	for (int type = FPISA_FLOAT32; !rc && type < TYPES; type++)
		rc = connect_type(*g, type, &o);
	return rc;
}

int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request)
{
	return fpisa_start(g->handle[call->type], call, request);
}

static void scattered(void *arg, int rc, uint32_t flags)
{
	struct scatter s = *(struct scatter *)arg;

	if (!rc && s.bytes)
		memcpy(s.recv, s.sum + s.from, s.bytes);
	free(s.sum);
	free(arg);
	s.on_done(s.arg, rc, flags);
}

int fpisa_group_reduce_scatter_start(struct fpisa_group *g, const struct fpisa_call *call, const size_t *counts,
				     struct fpisa_request **request)
{
	const size_t width = call->type == FPISA_FLOAT64 ? 8 : call->type == FPISA_FLOAT32 ? 4 : 2;
	struct scatter *s = calloc(1, sizeof(*s));
	struct fpisa_call c = *call;
	int rc;

	*s = (struct scatter){.recv = call->recv, .on_done = call->on_done, .arg = call->arg};
	for (uint32_t r = 0; r < g->rank; r++)
		s->from += counts[r] * width;
	s->bytes = counts[g->rank] * width;
	c.recv = s->sum = malloc(call->count * width + 1);
	c.tag += 1;
	c.on_done = scattered;
	c.arg = s;
	rc = fpisa_start(g->handle[call->type], &c, request);
	if (rc) {
		free(s->sum);
		free(s);
	}
	return rc;
}

uint32_t fpisa_group_missing_ranks(struct fpisa_group *g, uint32_t *ranks, uint32_t room)
{
	uint64_t missing = 0;
	uint32_t n = 0;

	for (int type = FPISA_FLOAT32; type < TYPES; type++)
		missing |= fpisa_missing(g->handle[type]);
	for (uint32_t r = 0; r < 64; r++) {
		if (!(missing >> r & 1))
			continue;
		if (n < room)
			ranks[n] = r;
		n++;
	}
	return n;
}

void fpisa_group_leave(struct fpisa_group *g)
{
	struct world **w;

	if (!g)
		return;
	for (int type = FPISA_FLOAT32; type < TYPES; type++)
		fpisa_close(g->handle[type]);
	pthread_mutex_lock(&lock);
	if (!--g->world->ranks) {
		for (int type = FPISA_FLOAT32; type < TYPES; type++)
			fpisa_mem_destroy(g->world->mem[type]);
		for (w = &worlds; *w != g->world; w = &(*w)->next)
			;
		*w = g->world->next;
		free(g->world);
	}
	pthread_mutex_unlock(&lock);
	free(g);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Transport `mem`, which consists of the aggregator of soft.h and one queue for each rank inside the process. The
 * thread that sends a frame also runs the aggregator for this frame, like a CPU that handles an interrupt, and puts the
 * reply into the queues.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "fpisa.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/fork.h"
#include "lib/base/order.h"
#include "lib/soft/soft.h"
#include "transport.h"

/*
 * Size of a queue. A full queue loses frames. A queue that can hold the results of both versions of all slots is rarely
 * full.
 */
#define QUEUE_FRAMES(window) (2 * (window) + 16)

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	int ready;	    /* lock and filled are initialised */
	int event;	    /* eventfd that is readable while there are frames; -1: not created */
	int attached;	    /* a handle reads it */
	uint32_t head, len; /* index of the first frame, and number of frames */
	uint32_t lent;	    /* number of these frames that the reader may use until its next call */
	size_t *size;	    /* size of each frame */
	unsigned char *frames;
};

struct fpisa_mem {
	struct fpisa_soft soft; /* must be the first member, because tests use it */
	struct fpisa_mem *parent;
	struct fpisa_mem *leaf[FPISA_MAX_WORKERS]; /* leaf that is each rank; NULL: the rank is not a leaf */
	uint32_t capacity;			   /* number of frames that a queue can hold */
	size_t stride;				   /* distance between two frames in bytes */
	struct queue queue[FPISA_MAX_WORKERS];
	pid_t owner;
};

struct mem_port {
	struct fpisa_transport base;
	struct fpisa_mem *m;
	uint32_t rank;
	/* this process is a forked child: other threads, which may have held a lock, do not exist in it */
	int inherited;
};

static void queue_put(struct fpisa_mem *m, struct queue *q, const void *frame, size_t size)
{
	uint32_t i;

	pthread_mutex_lock(&q->lock);
	if (q->attached && q->len < m->capacity) {
		i = (q->head + q->len++) % m->capacity;
		q->size[i] = size;
		memcpy(q->frames + i * m->stride, frame, size);
		pthread_cond_signal(&q->filled);
		if (q->event >= 0 && q->len == q->lent + 1)
			eventfd_write(q->event, 1);
	}
	pthread_mutex_unlock(&q->lock);
}

static void deliver(struct fpisa_mem *m, void *frame, size_t len, uint64_t to);

/* Pass a frame from the parent to a leaf. */
static void give_leaf(struct fpisa_mem *leaf, const void *from_parent, size_t len)
{
	_Alignas(8) unsigned char frame[FPISA_SOFT_FRAME];
	uint64_t to;

	memcpy(frame, from_parent, len);
	fpisa_soft_parent(&leaf->soft, frame, &len, &to);
	deliver(leaf, frame, len, to);
}

/* Pass a frame of the aggregator to the ranks `to`, either to the queue of a rank, or to the leaf that is the rank. */
static void give(struct fpisa_mem *m, const void *frame, size_t len, uint64_t to)
{
	for (uint32_t rank = 0; to; rank++, to >>= 1) {
		if (!(to & 1))
			continue;
		if (m->leaf[rank])
			give_leaf(m->leaf[rank], frame, len);
		else
			queue_put(m, &m->queue[rank], frame, len);
	}
}

/* Deliver a frame of the aggregator, in place, to the ranks `to`. */
static void deliver(struct fpisa_mem *m, void *frame, size_t len, uint64_t to)
{
	const uint64_t bare = fpisa_soft_bare(&m->soft, frame, to);

	give(m, frame, len, to & ~bare);
	if (!bare)
		return;
	fpisa_soft_cut(&m->soft, frame, &len);
	give(m, frame, len, bare);
}

/* Run the aggregator on a frame of rank `rank`, in place. */
static void aggregate(struct fpisa_mem *m, uint32_t rank, uint32_t port, void *frame, size_t len)
{
	const struct fpisa_rank *from = &m->soft.job.rank[rank];
	uint64_t to;

	fpisa_soft_frame(&m->soft, &from->addr, from->port, port, 0, frame, &len, &to);
	deliver(m, frame, len, to);
}

static void send_up(void *arg, uint32_t port, const void *from_leaf, size_t len)
{
	struct fpisa_mem *leaf = arg;
	_Alignas(8) unsigned char frame[FPISA_SOFT_FRAME];

	memcpy(frame, from_leaf, len);
	aggregate(leaf->parent, leaf->soft.up.rank, port, frame, len);
}

static int mem_send(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	struct mem_port *p = (struct mem_port *)t;
	_Alignas(8) unsigned char frame[FPISA_SOFT_FRAME];

	for (int i = 0; i < n; i++) {
		size_t len = 0;

		for (int part = 0; part < out[i].parts; part++) {
			memcpy(frame + len, out[i].part[part].iov_base, out[i].part[part].iov_len);
			len += out[i].part[part].iov_len;
		}
		aggregate(p->m, p->rank, out[i].port, frame, len);
	}
	return 0;
}

static int mem_receive(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns)
{
	struct mem_port *p = (struct mem_port *)t;
	struct fpisa_mem *m = p->m;
	struct queue *q = &m->queue[p->rank];
	uint64_t until = fpisa_now() + timeout_ns;
	struct timespec ts = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
	eventfd_t frames;
	uint32_t n;

	pthread_mutex_lock(&q->lock);
	q->head = (q->head + q->lent) % m->capacity;
	q->len -= q->lent;
	while (!q->len && timeout_ns)
		if (pthread_cond_timedwait(&q->filled, &q->lock, &ts))
			break;
	n = q->len < FPISA_BATCH ? q->len : FPISA_BATCH;
	q->lent = n;
	if (q->event >= 0 && n && n == q->len)
		eventfd_read(q->event, &frames);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = (q->head + i) % m->capacity;

		in[i] = (struct fpisa_in){q->frames + at * m->stride, q->size[at]};
	}
	pthread_mutex_unlock(&q->lock);
	return (int)n;
}

static int mem_joined(struct fpisa_transport *t, const struct fpisa_hello *hello)
{
	(void)t;
	return (int)hello->window;
}

static int mem_fds(struct fpisa_transport *t, int *fd)
{
	struct mem_port *p = (struct mem_port *)t;
	struct queue *q = &p->m->queue[p->rank];
	int rc = 1;

	fpisa_fork_hold();
	pthread_mutex_lock(&q->lock);
	if (q->event < 0)
		q->event = eventfd(q->len > q->lent, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->event < 0)
		rc = -errno;
	*fd = q->event;
	pthread_mutex_unlock(&q->lock);
	fpisa_fork_release();
	return rc;
}

static void close_event(struct queue *q)
{
	if (q->event >= 0)
		close(q->event);
	q->event = -1;
}

static void mem_disown(struct fpisa_transport *t)
{
	struct mem_port *p = (struct mem_port *)t;

	p->inherited = 1;
	close_event(&p->m->queue[p->rank]);
}

static void mem_close(struct fpisa_transport *t)
{
	struct mem_port *p = (struct mem_port *)t;
	struct queue *q = &p->m->queue[p->rank];

	if (!p->inherited) {
		pthread_mutex_lock(&q->lock);
		q->attached = 0;
		q->len = 0;
		q->lent = 0;
		close_event(q);
		pthread_mutex_unlock(&q->lock);
	}
	free(p);
}

static const struct fpisa_transport_ops mem_ops = {
	.send = mem_send,
	.receive = mem_receive,
	.joined = mem_joined,
	.fds = mem_fds,
	.disown = mem_disown,
	.close = mem_close,
};

static int queue_init(struct queue *q, uint32_t capacity, size_t stride)
{
	pthread_condattr_t attr;

	q->size = calloc(capacity, sizeof(*q->size));
	q->frames = aligned_alloc(64, capacity * stride);
	if (!q->size || !q->frames)
		return -ENOMEM;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->filled, &attr);
	pthread_condattr_destroy(&attr);
	q->event = -1;
	q->ready = 1;
	return 0;
}

/* Flags that are allowed. An aggregator in this process does not support a histogram. */
#define FLAGS (FPISA_JOB_BIG_ENDIAN | FPISA_JOB_RECIPROCAL | FPISA_JOB_UNCOUNTED | FPISA_JOB_LEAVES)

/* Create a job from the options. Zero members take the defaults of `fpisa job add`. */
static int job_of(struct fpisa_job *j, const struct fpisa_mem_options *o)
{
	uint8_t format = o->format ? o->format : FPISA_FORMAT_FP32, mode = o->mode ? o->mode : FPISA_MODE_FPISA;
	uint32_t elements = o->elements ? o->elements : fpisa_default_elements(fpisa_format_of(format));

	if (o->size != sizeof(*o))
		return fpisa_fail(-EINVAL, "options.size is %zu; set it to sizeof(struct fpisa_mem_options)", o->size);
	if (o->flags & ~FLAGS)
		return fpisa_fail(-EINVAL, "flags are %#x; only %#x are supported", o->flags, FLAGS);
	if (o->workers > FPISA_MAX_WORKERS || elements > FPISA_MAX_ELEMENTS)
		return fpisa_fail(-EINVAL, "%u workers with %u elements are not supported; give at most %d and %d",
				  o->workers, elements, FPISA_MAX_WORKERS, FPISA_MAX_ELEMENTS);
	*j = (struct fpisa_job){
		.active = 1,
		.workers = o->workers,
		.live = o->workers ? ~0ull >> (64 - o->workers) : 0,
		.elements = (uint16_t)elements,
		.window = o->window ? o->window : FPISA_DEFAULT_WINDOW,
		.format = format,
		.mode = mode,
		.rounding = o->rounding ? o->rounding : fpisa_default_rounding((enum fpisa_mode)mode),
		.pipeline = o->pipeline ? o->pipeline : FPISA_PIPELINE_FUSED,
		.clz = FPISA_CLZ_BITS,
		.fanout = FPISA_FANOUT_UNICAST,
		.flags = o->flags,
	};
	for (uint32_t i = 0; i < o->workers; i++)
		j->rank[i] = (struct fpisa_rank){.addr = fpisa_ipv4(fpisa_be32(htonl(INADDR_LOOPBACK))),
						 .port = fpisa_be16(htons((uint16_t)(i + 1)))};
	return 0;
}

int fpisa_mem_create(struct fpisa_mem **out, const struct fpisa_mem_options *options)
{
	struct fpisa_mem *m;
	int rc = fpisa_given(out, "the pointer for the aggregator");

	if (rc)
		return rc;
	*out = NULL;
	rc = fpisa_given(options, "options");
	if (rc)
		return rc;
	m = calloc(1, sizeof(*m));
	if (!m)
		return fpisa_fail(-ENOMEM, "not enough memory for an aggregator in this process; " FPISA_MORE_MEMORY);
	rc = job_of(&m->soft.job, options);
	if (!rc)
		rc = fpisa_soft_init(&m->soft);
	if (rc)
		goto out;
	m->owner = getpid();
	m->capacity = QUEUE_FRAMES(m->soft.job.window);
	m->stride = (FPISA_HDR_LEN + fpisa_payload_bytes(fpisa_format_of(m->soft.job.format), m->soft.job.elements) +
		     sizeof(struct fpisa_hello) + 63) /
		    64 * 64;
	for (uint32_t i = 0; i < m->soft.job.workers && !rc; i++)
		rc = queue_init(&m->queue[i], m->capacity, m->stride);
	if (rc) {
		fpisa_fail(rc, "not enough memory for the queues of %u workers; " FPISA_MORE_MEMORY,
			   m->soft.job.workers);
		goto out;
	}
	*out = m;
	m = NULL;
out:
	fpisa_mem_destroy(m);
	return rc;
}

/* Return whether the jobs fit together, as a leaf decides by its parent's WELCOME. */
static int are_alike(const struct fpisa_job *leaf, const struct fpisa_job *parent)
{
	const struct fpisa_hello p = {
		.window = parent->window,
		.elements = parent->elements,
		.workers = (__u16)parent->workers,
		.mode = parent->mode,
		.rounding = parent->rounding,
		.format = parent->format,
		.flags = parent->flags,
	};

	return fpisa_parent_alike(&p, leaf, p.rank);
}

int fpisa_mem_set_parent(struct fpisa_mem *leaf, struct fpisa_mem *parent, uint32_t rank)
{
	int rc = fpisa_given(leaf, "the leaf");

	if (!rc)
		rc = fpisa_given(parent, "the parent");
	if (rc)
		return rc;
	if (leaf->parent)
		return fpisa_fail(-EBUSY, "the leaf has a parent already");
	if (!(parent->soft.job.flags & FPISA_JOB_LEAVES))
		return fpisa_fail(-EINVAL, "the parent does not accept leaves; create it with flag %#x",
				  FPISA_JOB_LEAVES);
	if (rank >= parent->soft.job.workers)
		return fpisa_fail(-EINVAL, "rank is %u, but the parent has %u leaves", rank, parent->soft.job.workers);
	if (parent->leaf[rank])
		return fpisa_fail(-EBUSY, "rank %u of the parent has a leaf already", rank);
	if (!are_alike(&leaf->soft.job, &parent->soft.job))
		return fpisa_fail(-EINVAL,
				  "leaf and parent differ in format, mode, rounding, elements, window or flags; both "
				  "need "
				  "mode exact");
	rc = fpisa_soft_set_parent(&leaf->soft, parent->soft.number, rank, send_up, leaf);
	if (rc)
		return rc;
	leaf->parent = parent;
	parent->leaf[rank] = leaf;
	return 0;
}

void fpisa_mem_destroy(struct fpisa_mem *m)
{
	if (!m)
		return;
	if (m->parent)
		m->parent->leaf[m->soft.up.rank] = NULL;
	for (int i = 0; i < FPISA_MAX_WORKERS; i++) {
		struct queue *q = &m->queue[i];

		/*
		 * In a child, do not destroy the condition variable, because it may count waiters that do not exist
		 * there.
		 */
		if (q->ready && m->owner == getpid()) {
			pthread_cond_destroy(&q->filled);
			pthread_mutex_destroy(&q->lock);
		}
		free(q->size);
		free(q->frames);
	}
	fpisa_soft_free(&m->soft);
	free(m);
}

int fpisa_mem_open(struct fpisa_transport **t, struct fpisa_mem *m, uint32_t rank, uint32_t *job,
		   struct fpisa_key *token)
{
	struct mem_port *p;
	struct queue *q;
	int taken;

	if (m->owner != getpid())
		return fpisa_fail(
			-ECHILD,
			"the aggregator belongs to the process that created it, and this process is a child; create "
			"another aggregator here");
	if (rank >= m->soft.job.workers)
		return fpisa_fail(-EINVAL, "rank is %u; it must be below %u, the aggregator's number of workers", rank,
				  m->soft.job.workers);
	p = calloc(1, sizeof(*p));
	if (!p)
		return fpisa_fail(-ENOMEM, "not enough memory for a handle; " FPISA_MORE_MEMORY);
	q = &m->queue[rank];
	pthread_mutex_lock(&q->lock);
	taken = q->attached;
	q->attached = 1;
	pthread_mutex_unlock(&q->lock);
	if (taken) {
		free(p);
		return fpisa_fail(-EBUSY, "rank %u has a handle already; close it first", rank);
	}
	p->base.ops = &mem_ops;
	p->base.in_process = 1;
	p->m = m;
	p->rank = rank;
	*t = &p->base;
	*job = m->soft.number;
	*token = fpisa_token_of(&m->soft.job);
	return 0;
}

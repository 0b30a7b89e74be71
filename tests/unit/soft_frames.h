/* SPDX-License-Identifier: GPL-2.0-only */
/* Handmade frames for the aggregator of soft.h, for test_soft.c and test_soft_formats.c */
#ifndef TESTS_SOFT_FRAMES_H
#define TESTS_SOFT_FRAMES_H

#include <time.h>
#include "lib/soft/soft.h"
#include "lab/testbed/frame.h"
#include "workers.h"

#define SOFT_JOB 3
#define SOFT_TOKEN 99

struct frame {
	struct fpisa_hdr h;
	uint32_t w[FPISA_MAX_ELEMENTS];
	size_t len;
	uint64_t to;
};

static const struct fpisa_job *frames_job; /* the job that the frames belong to */

static inline void set_checksum(struct frame *f)
{
	frame_seal(frames_job, &f->h, f->w, f->len - sizeof(f->h));
}

/* Return whether the frame's cookie and checksum are correct. Incarnations are as in join(). */
static inline int intact(const struct frame *f)
{
	uint64_t cookie = f->h.type == FPISA_TYPE_ERROR ? f->h.bitmap :
							  fpisa_cookie(&frames_job->key, f->h.rank, 100ull + f->h.rank);

	return frame_sealed(frames_job, &f->h, f->w, f->len - sizeof(f->h), f->h.rank, cookie);
}

static inline enum fpisa_verdict give(struct fpisa_soft *s, struct frame *f, uint32_t from)
{
	uint32_t port = f->h.type == FPISA_TYPE_ADD ? fpisa_port_index(f->h.slot >> 1, s->job.window, s->job.ports) : 0;

	const struct fpisa_address at = fpisa_ipv4(htonl(10));

	return fpisa_soft_frame(s, &at, htons((uint16_t)(from + 1)), port, 0, f, &f->len, &f->to);
}

/* List rank i as port i + 1 of one address. */
static inline void list_ranks(struct fpisa_soft *s)
{
	for (uint32_t i = 0; i < s->job.workers; i++)
		s->job.rank[i] = (struct fpisa_rank){.addr = fpisa_ipv4(htonl(10)), .port = htons((uint16_t)(i + 1))};
}

/* Make a HELLO of rank `rank`, with its cookie. */
static inline void hello(const struct fpisa_soft *s, struct frame *f, uint32_t rank, uint64_t incarnation)
{
	*f = (struct frame){.len = sizeof(f->h) + sizeof(struct fpisa_hello)};
	frames_job = &s->job;
	f->h = frame_hello(&s->job, SOFT_JOB, rank, incarnation);
	f->h.chunk = ~incarnation;
	set_checksum(f);
}

static inline void add(struct frame *f, const struct fpisa_soft *s, uint32_t rank, uint64_t chunk)
{
	uint16_t count = s->job.elements;

	frames_job = &s->job;
	f->h = frame_add(&s->job, SOFT_JOB, s->session.generation, rank, chunk, count, s->session.secret[rank]);
	f->h.digest = 100000;
	f->len = sizeof(f->h) + (size_t)count * fpisa_format_of(s->job.format).bytes;
	set_checksum(f);
}

static inline void join(struct fpisa_soft *s)
{
	struct frame f;

	for (uint32_t i = 0; i < s->job.workers; i++) {
		hello(s, &f, i, 100 + i);
		assert_int_equal(give(s, &f, i), FPISA_V_welcome);
		assert_int_equal(f.h.type, FPISA_TYPE_WELCOME);
		assert_int_equal(f.h.flags & FPISA_F_PENDING, s->job.workers > 1 ? FPISA_F_PENDING : 0);
		assert_int_equal(f.h.bitmap, 1ull << i);
		assert_int_equal(f.to, 1ull << i);
		assert_true(intact(&f));
	}
	/* Every waiting rank sends HELLO again. Then the generation begins. */
	for (uint32_t i = 0; i < s->job.workers - 1; i++) {
		hello(s, &f, i, 100 + i);
		assert_int_equal(give(s, &f, i), FPISA_V_welcome);
		assert_int_equal(!!(f.h.flags & FPISA_F_PENDING), i < s->job.workers - 2);
	}
	assert_int_not_equal(s->session.generation, 0);
}

#endif

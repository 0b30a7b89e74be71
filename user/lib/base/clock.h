/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Clocks, in ns, and the time that counts against deadlines. Only time in which the library could work counts, because
 * results are not read while a caller computes between two turns, a process is stopped or a guest is paused. At most
 * one step of each such gap counts. So a deadline passes after at least FPISA_CLOCK_STEPS turns, however long the gaps
 * are. A deadline also passes in a program that calls the library only occasionally.
 */
#ifndef FPISA_CLOCK_H
#define FPISA_CLOCK_H

#include <stdint.h>
#include <time.h>

#define FPISA_CLOCK_STEPS 64
#define FPISA_FINAL_PROBE_NS 500000000ull /* longest time before a deadline at which to ask which ranks are missing */
#define FPISA_FINAL_PROBES 8
#define FPISA_CLOCK_STEP_MAX_NS (FPISA_FINAL_PROBE_NS / FPISA_FINAL_PROBES)

static inline uint64_t fpisa_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline uint64_t fpisa_now(void)
{
	return fpisa_clock_ns(CLOCK_MONOTONIC);
}

struct fpisa_clock {
	uint64_t ns;	  /* time counted so far */
	uint64_t last_ns; /* CLOCK_MONOTONIC of the last tick */
	uint64_t step_ns;
};

static inline void fpisa_clock_init(struct fpisa_clock *c, uint64_t timeout_ns, uint64_t now)
{
	uint64_t step = timeout_ns / FPISA_CLOCK_STEPS;

	*c = (struct fpisa_clock){.last_ns = now,
				  .step_ns = step < FPISA_CLOCK_STEP_MAX_NS ? step : FPISA_CLOCK_STEP_MAX_NS};
}

/*
 * Update the clock. The library is working now, and has waited for up to waited_ns since the last tick. Return the rest
 * of the gap.
 */
static inline uint64_t fpisa_clock_tick(struct fpisa_clock *c, uint64_t now, uint64_t waited_ns)
{
	uint64_t past = now - c->last_ns, gap = past > waited_ns ? past - waited_ns : 0;

	c->ns += gap > c->step_ns ? past - gap + c->step_ns : past;
	c->last_ns = now;
	return gap;
}

#endif

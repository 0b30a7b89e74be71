/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The lock of a slot, a session or a query: a word, 1 while a CPU owns it. The kernel's spin lock cannot be used,
 * because no program may hold it over a tail call.
 *
 * A slot's lock is taken in admission() and held over the tail calls. Each path that ends releases it, in its last
 * step:
 *
 *	admission()	the rules refuse the contribution
 *	not_complete()	the round waits for other ranks, which are named in answer to a probe
 *	commit()	the round waits for other ranks, and no probe was sent
 *	finish()	the result is in the frame; or, which cannot happen, the frame is not found again
 *	lose_round()	a program of the pipeline, or an entry of the slot's job, is missing
 *
 * A session's lock is taken and released in join_session() (hello.h), a query's in its programs.
 */
#ifndef FPISA_BPF_LOCK_H
#define FPISA_BPF_LOCK_H

#include "maps.h"

static __always_inline void lock_release(__u64 *lock)
{
	/* A full barrier: all writes under the lock are visible before it. */
	__sync_lock_test_and_set(lock, 0);
}

struct waiting {
	__u64 *lock;
	int taken;
};

/*
 * Make one attempt to take the lock; a nonzero result ends the attempts. With two readings of the clock each,
 * FPISA_LOCK_SPINS attempts take some 100 us: longer than a staged read-out of the largest frame through the trie.
 */
static long lock_attempt(__u32 number, void *waiting)
{
	struct waiting *w = waiting;

	(void)number;
	if (!*(volatile __u64 *)w->lock && !__sync_val_compare_and_swap(w->lock, 0, 1)) {
		w->taken = 1;
		return 1;
	}
	bpf_ktime_get_ns();
	bpf_ktime_get_ns();
	return 0;
}

/*
 * Wait in the kernel's loop, which a verifier walks once. It would walk our own loop FPISA_LOCK_SPINS times, an
 * eighth of the entry.
 */
GLOBAL_FN int lock_wait(__u64 *lock)
{
	struct waiting w = {.lock = lock};

	if (!lock)
		return 0;
	bpf_loop(FPISA_LOCK_SPINS, lock_attempt, &w, 0);
	return w.taken;
}

/* Take the lock. Return 1 if the caller owns it now; 0 after FPISA_LOCK_SPINS attempts. */
static __always_inline int lock_take(__u64 *lock)
{
	return fpisa_likely(!__sync_val_compare_and_swap(lock, 0, 1)) || lock_wait(lock);
}

#endif

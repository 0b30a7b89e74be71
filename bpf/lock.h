/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The lock of a slot, a session or a query: a word that is 1 while a CPU owns the lock. The kernel's spin lock cannot
 * be used, because a program must not hold a spin lock across a tail call.
 *
 * admission() takes the lock of a slot, and the lock is held across the tail calls. The last step of each path releases
 * the lock:
 *
 *	admission()	the rules refuse the contribution
 *	not_complete()	the round waits for other ranks; a probe is answered with their names
 *	commit()	the round waits for other ranks, and no probe was sent
 *	finish()	the result is in the frame, or the frame is not found again, which cannot happen
 *	lose_round()	a program of the pipeline, or an entry of the slot's job, is missing
 *	part_up(), values_up()	a leaf has written its part (tree.h), where admit_part() and others release it as here
 *
 * join_session() (hello.h) takes and releases the lock of a session. The programs of a query take and release the lock
 * of the query.
 */
#ifndef FPISA_BPF_LOCK_H
#define FPISA_BPF_LOCK_H

#include "maps.h"

static __always_inline void lock_release(__u64 *lock)
{
	/* This is a full barrier, so all writes under the lock are visible before its release. */
	__sync_lock_test_and_set(lock, 0);
}

struct waiting {
	__u64 *lock;
	int taken;
};

/*
 * Make one attempt to take the lock. Return nonzero to end the attempts. With two readings of the clock each,
 * FPISA_LOCK_SPINS attempts take some 100 us, which is longer than a staged read-out of the largest frame through the
 * trie.
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
 * Wait for the lock in the loop of the kernel, whose body the verifier walks once. The verifier would walk an ordinary
 * loop FPISA_LOCK_SPINS times, which is an eighth of the instructions of the entry.
 */
GLOBAL_FN int lock_wait(__u64 *lock)
{
	struct waiting w = {.lock = lock};

	if (!lock)
		return 0;
	bpf_loop(FPISA_LOCK_SPINS, lock_attempt, &w, 0);
	return w.taken;
}

/* Take the lock. Return 1 if the caller owns the lock now, or 0 after FPISA_LOCK_SPINS failed attempts. */
static __always_inline int lock_take(__u64 *lock)
{
	return fpisa_likely(!__sync_val_compare_and_swap(lock, 0, 1)) || lock_wait(lock);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle's lock. A thread that waits for the lock gets the lock next. So a thread that releases the lock and takes it
 * again at once, as between two turns, does not starve other threads. The lock stores its owner, so that a call from
 * within a callback can be recognised.
 */
#ifndef FPISA_LOCK_H
#define FPISA_LOCK_H

#include <pthread.h>

struct fpisa_lock {
	pthread_mutex_t next; /* mutex of the thread that gets the lock next */
	pthread_mutex_t lock;
	const void *owner; /* the thread that has the lock; NULL: none */
};

#define FPISA_LOCK_INIT                                                    \
	(struct fpisa_lock)                                                \
	{                                                                  \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, NULL \
	}

static inline const void *fpisa_lock_self(void)
{
	return (const void *)pthread_self();
}

static inline void fpisa_lock(struct fpisa_lock *l)
{
	pthread_mutex_lock(&l->next);
	pthread_mutex_lock(&l->lock);
	pthread_mutex_unlock(&l->next);
	__atomic_store_n(&l->owner, fpisa_lock_self(), __ATOMIC_RELAXED);
}

static inline void fpisa_unlock(struct fpisa_lock *l)
{
	__atomic_store_n(&l->owner, NULL, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&l->lock);
}

/* Wait like pthread_cond_wait(). */
static inline void fpisa_lock_wait(struct fpisa_lock *l, pthread_cond_t *changed)
{
	__atomic_store_n(&l->owner, NULL, __ATOMIC_RELAXED);
	pthread_cond_wait(changed, &l->lock);
	__atomic_store_n(&l->owner, fpisa_lock_self(), __ATOMIC_RELAXED);
}

/* Return whether this thread has the lock. */
static inline int fpisa_lock_is_ours(const struct fpisa_lock *l)
{
	return __atomic_load_n(&l->owner, __ATOMIC_RELAXED) == fpisa_lock_self();
}

/* Return whether any thread has the lock or, in a child, had the lock at fork(). */
static inline int fpisa_lock_is_held(const struct fpisa_lock *l)
{
	return __atomic_load_n(&l->owner, __ATOMIC_RELAXED) != NULL;
}

#endif

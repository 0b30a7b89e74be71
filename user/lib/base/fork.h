/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Resources that a child releases after fork(); fork.c gives the reasons. */
#ifndef FPISA_FORK_H
#define FPISA_FORK_H

#include <sys/queue.h>

/* The first member of a struct that owns descriptors. in_child() is called in each child, with the lock held. */
struct fpisa_fork_hook {
	TAILQ_ENTRY(fpisa_fork_hook) link;
	void (*in_child)(struct fpisa_fork_hook *h);
};

/* Take the lock. Call this around code that opens or closes descriptors of a struct with a hook. */
void fpisa_fork_hold(void);
void fpisa_fork_release(void);

int fpisa_fork_add(struct fpisa_fork_hook *h);	   /* return 0, or a negative errno with the message set */
void fpisa_fork_remove(struct fpisa_fork_hook *h); /* call this with the lock held */

int fpisa_fork_settling(void); /* return whether a child may still have descriptors open that this process has closed */

#endif

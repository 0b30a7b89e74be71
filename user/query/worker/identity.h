/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Detection of writes to a file while a query reads it. The kernel stamps each change of a file's bytes with a time that no program can set
 * back (ctime), as long as the clock goes forward. doc/query.md, section 6, describes the consequences for users.
 */
#ifndef FPISA_QUERY_IDENTITY_H
#define FPISA_QUERY_IDENTITY_H

#include <stdint.h>

struct file_state {
	uint64_t device, inode, size, links;
	int64_t modified_s, changed_s;
	uint32_t modified_ns, changed_ns;
};

struct identity {
	struct file_state is;
	int watch; /* inotify: readable when a program has written the file; 0: the kernel gives none */
	int named; /* it has got or lost a name since, which stamps it too */
};

/*
 * Note what the open file is, until identity_forget(). If it was changed just now, wait until the next change has another stamp: a tick of the kernel's
 * clock, or 2 s where a file system has whole seconds. 0, or -errno with the message set: -ESTALE if it is being written.
 */
int identity_note(struct identity *id, int fd, const char *name);
void identity_forget(struct identity *id); /* also for an identity that is all 0 */

/* Return a number of this file and of `others`, 0 or the number of other files: two reads with one number have read the same bytes. */
uint64_t identity_number(const struct identity *id, uint64_t others);

/*
 * Check that the file has not been changed. 0, or -ESTALE with the message set. A name that the file got or lost, as when another file
 * takes its place, is not a change, although it is stamped like one: from then on the kernel's notices (inotify) must say that no
 * program has written the file or had it open for writing, and identity_closed() that none has now. Without notices it is an error.
 */
int identity_unchanged(struct identity *id, int fd, const char *name);

/*
 * 0, or -ESTALE with the message set: somebody has the file open, or mapped, for writing. Known only if this process owns the
 * file or has CAP_LEASE, and the file system is a local one; else 0.
 */
int identity_closed(int fd, const char *name);

#endif

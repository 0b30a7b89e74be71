/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Detection of writes to a file while a query reads it. The kernel stamps each change of a file's bytes with a time
 * (ctime). No program can set that time back, as long as the clock goes forward. doc/query.md, section 6, describes the
 * consequences for users.
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
	int watch; /* inotify descriptor, readable when a program has written the file; 0: the kernel gives no notices */
	int named; /* the file has got or lost a name since, which also changes its stamp */
};

/*
 * Note the state of the open file, until identity_forget(). If it was changed just now, wait until the next change has
 * another stamp: a tick of the kernel's clock, or 2 s if the file system counts whole seconds. Return 0, or -errno with
 * the message set: -ESTALE if the file is being written.
 */
int identity_note(struct identity *id, int fd, const char *name);
void identity_forget(struct identity *id); /* the identity may be all 0 */

/*
 * Return a number of this file and of `others`, which is 0 or the number of other files. Two reads with equal numbers
 * have read the same bytes.
 */
uint64_t identity_number(const struct identity *id, uint64_t others);

/*
 * Check that the file has not been changed. Return 0, or -ESTALE with the message set. The file may get or lose a name,
 * for example when another file takes its place. This also changes the stamp, but does not count as a change. From then
 * on the kernel's notices (inotify) must say that no program has written the file or had it open for writing.
 * identity_closed() must say that no program has it open now. Without notices this is an error.
 */
int identity_unchanged(struct identity *id, int fd, const char *name);

/*
 * Check that no process has the file open, or mapped, for writing. Return 0, or -ESTALE with the message set. This
 * process must own the file or have CAP_LEASE, and the file system must be local. If not, return 0.
 */
int identity_closed(int fd, const char *name);

#endif

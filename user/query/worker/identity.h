/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Detect writes to a file while a query reads the file. The kernel stamps each change of a file with a time (ctime). No
 * program can set a ctime back, as long as the clock goes forward. doc/query.md, section 6, describes the consequences
 * for users.
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
	/* inotify descriptor, which is readable when a program has written the file; 0 if inotify is not supported */
	int watch;
	int shared; /* `watch` belongs to another identity */
	int named;  /* the file got or lost a name after identity_note(), which also changes the stamp */
};

/*
 * Note the state of the open file, until identity_forget(). If the file was changed just now, wait until a further
 * change would get another stamp. This takes a tick of the kernel's clock, or 2 s if the file system counts whole
 * seconds. `watch` is that of another identity of this process, which must be forgotten later, or 0. Return 0, or -errno
 * with the message set. The error is -ESTALE if the file is being written.
 */
int identity_note(struct identity *id, int watch, int fd, const char *name);
void identity_forget(struct identity *id); /* the identity may be all 0 */

/*
 * Return a number that identifies this file and other files. `others` is 0 or the number of the other files. Two reads
 * with equal numbers have read the same bytes.
 */
uint64_t identity_number(const struct identity *id, uint64_t others);

/*
 * Check that the file has not been changed. Return 0, or -ESTALE with the message set.
 *
 * The file may get or lose a name, for example because another file replaces it. This changes the stamp, but does not
 * count as a change. In this case inotify must show that no program has written the file or had it open for writing,
 * and identity_closed() must show that no program has it open now. If inotify is not supported, return -ESTALE.
 */
int identity_unchanged(struct identity *id, int fd, const char *name);

/*
 * Check that no process has the file open or mapped for writing. Return 0, or -ESTALE with the message set. Also return
 * 0 if the check is impossible. The check requires a local file system, and that this process owns the file or has
 * CAP_LEASE.
 */
int identity_closed(int fd, const char *name);

#endif

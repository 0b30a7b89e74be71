/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pin directories: pin.c, the pins in a directory; pin_trust.c, its owner; pin_find.c, the search for it; pin_lock.c,
 * one writer at a time.
 */
#ifndef FPISA_DATAPATH_PIN_H
#define FPISA_DATAPATH_PIN_H

#include <linux/types.h>
#include "datapath.h"

struct bpf_object;
struct bpf_program;

/*
 * The directories in which verbs look without --pin: ours, two of iproute2 and one of bpftool. We may remove only the
 * first directory.
 */
#define PIN_SEARCH 4
extern const char *const pin_search[PIN_SEARCH];

/* -- pins in a directory ------------------------------------------------------- */

/* Write DIR/NAME to `path`. Return 0, or -ENAMETOOLONG, reported. */
int pin_path(char path[PATH_MAX], const char *dir, const char *name);

/* Open the pin at DIR/NAME, for reading only if it may not be written. Return the descriptor or -errno. Report nothing. */
int pin_open(const char *dir, const char *name);

typedef char pin_name[NAME_MAX + 1];

/*
 * List the maps and programs in `dir` that are ours by pin and by their own name. The caller frees `names`. Return
 * their number, or -ENOMEM, reported.
 */
int pin_list(const char *dir, pin_name **names);

/* Return whether a map or program of ours is pinned in `dir`. */
bool pin_any(const char *dir);

/* Pin the descriptor's object, in one step over an existing pin. */
int pin_fd(const char *dir, const char *name, int fd);

/* Pin one program by its name, in the same way. */
int pin_program(const char *dir, const struct bpf_program *prog);

/* Pin every program of the object in `dir`, over existing pins of the same names, the entry last. */
int pin_programs(const char *dir, const struct bpf_object *o);

/* Remove our pins in `dir` except `keep` (n names), then the directory if it is ours and empty. */
void pin_remove_all(const char *dir, pin_name *keep, int n);

/* Make maps readable by the directory's group, if that group may read the directory. Return 0 or -errno, reported. */
int pin_share(const char *dir);

/* Return -EPROTO, reported, if another version made the pinned maps; 0 if this version did, or nothing is pinned. */
int pin_abi(const char *dir);

/* Pin the stamp of this version before anything else: a loader may be killed. */
int pin_abi_make(const char *dir);

/*
 * Find the id of the map that identifies programs of the datapath pinned in `dir`. This is fpisa_jobs, or another map
 * if fpisa_jobs is gone. The id is 0 if no such map is pinned. If it is unknown, so the datapath may be running, return
 * -errno, not reported.
 */
int pin_jobs_id(const char *dir, __u32 *id);

/* Return the id of the program that `fpisa load` attaches from the pins in `dir`, or 0. */
__u32 pin_entry(const char *dir);

/* -- owner of a directory ------------------------------------------------- */

/*
 * Check that the directory belongs to the caller or to root alone, and stays so. Return -EPERM, reported, if not.
 * Report nothing if `quiet`.
 */
int pin_trust(const char *dir, bool quiet);

/* -- search for a directory ----------------------------------------------- */

/* Find the trusted directory that holds a datapath, as datapath_open(). Report nothing if `quiet`. */
int pin_find(char dir[PATH_MAX], const char *pin, bool quiet);

/*
 * Find, for unload, a trusted directory with the rest of a datapath whose jobs map is gone, or of an unfinished load.
 * Report nothing.
 */
int pin_find_remains(char dir[PATH_MAX], const char *pin);

/* Call is() for every directory of the mounted BPF filesystems, until it returns true. Report nothing. */
bool pin_walk(bool (*is)(const char *dir, void *arg), void *arg);

/* -- one writer at a time --------------------------------------------------- */

/*
 * Lock a pin directory exclusively; *fd is -1 if the lock is not held. Signals wait meanwhile. Return -ENOENT if the
 * directory does not exist. Report nothing.
 */
int pin_lock(const char *dir, int *fd);
void pin_unlock(int *fd);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pin directories. pin.c has the pins in a directory, pin_trust.c the check of its owner, pin_find.c the search for a
 * directory, and pin_lock.c the lock for one writer at a time.
 */
#ifndef FPISA_DATAPATH_PIN_H
#define FPISA_DATAPATH_PIN_H

#include <linux/types.h>
#include "datapath.h"

struct bpf_object;
struct bpf_program;

/*
 * The directories in which verbs look without --pin: that of `fpisa load`, two of iproute2 and one of bpftool. Only the
 * first directory may be removed.
 */
#define PIN_SEARCH 4
extern const char *const pin_search[PIN_SEARCH];

/* -- pins in a directory ------------------------------------------------------- */

/* Write DIR/NAME to `path`. Return 0, or report an error and return -ENAMETOOLONG. */
int pin_path(char path[PATH_MAX], const char *dir, const char *name);

/*
 * Open the pin DIR/NAME, read-only if the caller may not write. Return the descriptor, or a negative errno. Report no
 * errors.
 */
int pin_open(const char *dir, const char *name);

typedef char pin_name[NAME_MAX + 1];

/*
 * List the FPISA maps and programs in `dir`, which are recognised by the names of pin and object. The caller frees
 * *names. Return their number, or report an error and return -ENOMEM.
 */
int pin_list(const char *dir, pin_name **names);

/* Return whether an FPISA map or program is pinned in `dir`. */
bool pin_any(const char *dir);

/* Pin the object of the descriptor. Replace an existing pin atomically. */
int pin_fd(const char *dir, const char *name, int fd);

/* Pin one program by its name, in the same way. */
int pin_program(const char *dir, const struct bpf_program *prog);

/* Pin every program of the object in `dir`, and the entry last. Replace existing pins of the same names. */
int pin_programs(const char *dir, const struct bpf_object *o);

/*
 * Remove the FPISA pins in `dir` except the n names in `keep`. Then remove the directory if it is empty and does not
 * belong to another loader.
 */
void pin_remove_all(const char *dir, pin_name *keep, int n);

/*
 * Make maps readable by the directory's group, if that group may read the directory. Return 0, or report an error and
 * return a negative errno.
 */
int pin_share(const char *dir);

/*
 * If another version created the pinned maps, report this and return -EPROTO. Return 0 if this version created them, or
 * if nothing is pinned.
 */
int pin_abi(const char *dir);

/* Pin the stamp of this version before anything else, because the loader may be killed. */
int pin_abi_make(const char *dir);

/*
 * Find the id of the map that identifies programs of the datapath pinned in `dir`. This map is fpisa_jobs, or another
 * map if fpisa_jobs is gone. The id is 0 if no such map is pinned. If the id cannot be read, and the datapath may be
 * running, return a negative errno without reporting it.
 */
int pin_jobs_id(const char *dir, __u32 *id);

/* Return the id of the program that `fpisa load` attaches from the pins in `dir`, or 0. */
__u32 pin_entry(const char *dir);

/* -- owner of a directory ------------------------------------------------- */

/*
 * Check that the directory belongs to the caller or to root alone, and that no other user can change this. If not,
 * return -EPERM, and report this unless `quiet`.
 */
int pin_trust(const char *dir, bool quiet);

/* -- search for a directory ----------------------------------------------- */

/* Find the trusted directory in which a datapath is pinned, as datapath_open() does. Report no errors if `quiet`. */
int pin_find(char dir[PATH_MAX], const char *pin, bool quiet);

/*
 * Find, for unload, a trusted directory with the remains of a datapath without a jobs map, or of an unfinished load.
 * Report no errors.
 */
int pin_find_remains(char dir[PATH_MAX], const char *pin);

/* Call is() for every directory of the mounted BPF filesystems, until is() returns true. Report no errors. */
bool pin_walk(bool (*is)(const char *dir, void *arg), void *arg);

/* -- one writer at a time --------------------------------------------------- */

/*
 * Lock a pin directory exclusively, and block signals until it is unlocked. Set *fd to -1 on an error. Return -ENOENT
 * if the directory does not exist. Report no errors.
 */
int pin_lock(const char *dir, int *fd);
void pin_unlock(int *fd);

#endif

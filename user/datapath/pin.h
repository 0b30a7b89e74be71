/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pin directories: pin.c, the pins in a directory; pin_trust.c, its owner;
 * pin_find.c, the search for it; pin_lock.c, one writer at a time.
 */
#ifndef FPISA_DATAPATH_PIN_H
#define FPISA_DATAPATH_PIN_H

#include <linux/types.h>
#include "datapath.h"

struct bpf_object;
struct bpf_program;

/* The directories in which verbs look without --pin: our own, two of iproute2's, bpftool's. Only the first is ours to remove. */
#define PIN_SEARCH 4
extern const char *const pin_search[PIN_SEARCH];

/* -- what is in one ------------------------------------------------------- */

/* DIR/NAME in `path`; -ENAMETOOLONG, reported. */
int pin_path(char path[PATH_MAX], const char *dir, const char *name);

/* fd of what is pinned at DIR/NAME, for reading only where it may not be written; or -errno. Reports nothing. */
int pin_open(const char *dir, const char *name);

typedef char pin_name[NAME_MAX + 1];

/* List the maps and programs in `dir` that are ours by their own name too; the caller frees `names`. Return how many there are; -ENOMEM, reported. */
int pin_list(const char *dir, pin_name **names);

/* Return whether a map or program of ours is pinned in `dir`. */
bool pin_any(const char *dir);

/* Pins what the fd is of, in one step over what is there. */
int pin_fd(const char *dir, const char *name, int fd);

/* Pins one program by its name, in the same way. */
int pin_program(const char *dir, const struct bpf_program *prog);

/* Pins every program of the object in `dir` in place of what is pinned by its name, the entry last. */
int pin_programs(const char *dir, const struct bpf_object *o);

/* Removes our pins in `dir` but those of `keep` (n names), then the directory if it is ours and empty. */
void pin_remove_all(const char *dir, pin_name *keep, int n);

/* Maps in a directory that a group may read: readable by that group. -errno, reported. */
int pin_share(const char *dir);

/* -EPROTO, reported, if what is pinned there is another version's; 0 if it is this one's, or nothing. */
int pin_abi(const char *dir);

/* Pins the stamp of this version, before anything else: a loader may be killed. */
int pin_abi_make(const char *dir);

/* id of the map by which programs of the datapath pinned in `dir` are known: fpisa_jobs, or another if that is gone; or 0. */
__u32 pin_jobs_id(const char *dir);

/* id of the program that `fpisa load` attaches from there, 0 if it did not; reports nothing. */
__u32 pin_entry(const char *dir);

/* -- owner of a directory ------------------------------------------------- */

/* Check that the directory belongs to the caller or to root alone, and stays so. -EPERM, reported, if not. Silent if `quiet`. */
int pin_trust(const char *dir, bool quiet);

/* -- search for a directory ----------------------------------------------- */

/* The directory that holds a datapath, a trusted one; as datapath_open(). Silent if `quiet`. */
int pin_find(char dir[PATH_MAX], const char *pin, bool quiet);

/* Find, for unload, a trusted directory with the rest of a datapath whose jobs map is gone, or of an unfinished load. Silent. */
int pin_find_remains(char dir[PATH_MAX], const char *pin);

/* is() of every directory of the BPF filesystems that are mounted here, until it says so. Reports nothing. */
bool pin_walk(bool (*is)(const char *dir, void *arg), void *arg);

/* -- one writer at a time --------------------------------------------------- */

/*
 * Exclusive lock of a pin directory; *fd is -1 when not held. Signals wait
 * meanwhile. Reports nothing; -ENOENT if the directory is gone.
 */
int pin_lock(const char *dir, int *fd);
void pin_unlock(int *fd);

#endif

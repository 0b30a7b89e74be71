/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the datapath layer share among themselves; datapath.h is the outside. */
#ifndef FPISA_DATAPATH_INTERNAL_H
#define FPISA_DATAPATH_INTERNAL_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "datapath.h"
#include "info.h"
#include "interface.h"
#include "kernel.h"
#include "log.h"
#include "pin.h"

struct fpisa; /* the skeleton; not the library's handle */
struct fpisa_steer; /* a skeleton, too */

/* Lets the datapath find the way to the job's ranks, as long as it is there; reports. */
int routes_assert(__u32 job, const struct fpisa_job *j);

/*
 * Takes back what only this job needed, which is no longer active (dp NULL: what it needed); what any job did whose
 * map is pinned in `dir`.
 */
void routes_release(const struct datapath *dp, const struct fpisa_job *j);
void routes_release_all(const char *dir);

/* Generations go on from the clock, so that none comes back when the datapath is loaded anew. */
void generations_seed(struct fpisa_control *control);

/*
 * A family's object, types set, pinning below `pin` (NULL: none); NULL,
 * reported. `steered`, here and below: its programs run from a CPU map.
 */
struct bpf_object *family_open(__u8 family, const char *pin, bool steered);

/* Puts a family's programs into the program array, unless they are there; 0 is fpisa.o's own. */
int family_load(const struct datapath *dp, __u8 family);

/* Puts the stages and the admission of a loaded object into a bank; of family 0 `steered` the entry as admission. */
int family_fill(int stages_fd, const struct bpf_object *o, __u8 family, __u32 bank, bool steered);

/* Loads every family but 0 that is there once more, into one bank. */
int family_renew(const struct datapath *dp, __u32 bank);

/* From the fd of fpisa_steering. -errno, -EPROTO if another version made it; reports nothing. */
int steering_read(int fd, struct fpisa_steering *s);

/* What a load into `dir` has to steer by, if it is asked for *asked; s->cpus 0: it does not. Refuses what differs. */
int steering_choose(const char *dir, const struct fpisa_steering *asked, struct fpisa_steering *s);

/* The object, loaded and pinned below `pin` (NULL: not pinned). Reports errors. */
int steer_load(const char *pin, struct fpisa_steer **skel);
struct bpf_object *steer_object(const struct fpisa_steer *skel);

/* What is attached to devices. */
const struct bpf_program *steer_program(const struct fpisa_steer *skel);

/* The CPU map gets its entries, or running ones the object's program without losing a frame; then fpisa_steering. */
int steer_fill(const struct fpisa_steer *skel, const struct fpisa_steering *s);
int steer_pin(const char *dir, const struct fpisa_steer *skel);
void steer_close(struct fpisa_steer *skel);

/* Opened objects with types set, pinning below `pin` (NULL: none); reports errors. */
int object_open(struct fpisa **skel, const char *pin, bool steered);
struct bpf_object *object_of(const struct fpisa *skel);
int object_load(struct fpisa *skel);
void object_close(struct fpisa *skel);

/*
 * The egress program. Its maps come from lookup(arg, name), an fd
 * that is closed here. *prog_fd becomes the caller's.
 */
int egress_load(int (*lookup)(void *arg, const char *name), void *arg, int *prog_fd);

/* The one that is pinned in `dir`, or one that is loaded over its maps and pinned; _renew() does not look for the first. */
int egress_open(const char *dir, int *prog_fd);
int egress_renew(const char *dir, int *prog_fd);

/* Single replies of jobs in this network namespace leave these interfaces by an entry with the egress program. */
int ways_join(const char *dir, const __u32 *ifindex, int n);

/* Gives such entries to a job: of all interfaces that the datapath is attached to, and of these. */
int ways_give(const struct datapath *dp, __u32 job, const __u32 *ifindex, int n, int prog_fd);

/* The egress program anew, in all entries of jobs in this network namespace. */
int ways_renew(const struct datapath *dp);

#endif

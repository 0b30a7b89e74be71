/* SPDX-License-Identifier: GPL-2.0-only */
/* fpisa.o and fpisa_egress.o, embedded: open, load. */
#ifndef FPISA_DATAPATH_OBJECT_H
#define FPISA_DATAPATH_OBJECT_H

#include <stdbool.h>

struct bpf_object;
struct fpisa_bpf; /* the skeleton */

/* The opened object with types set, pinning below `pin` (NULL: none); reports errors. `steered`: it runs from a CPU map. */
int object_open(struct fpisa_bpf **skel, const char *pin, bool steered);
struct bpf_object *object_of(const struct fpisa_bpf *skel);
int object_load(struct fpisa_bpf *skel);
void object_close(struct fpisa_bpf *skel);

/*
 * The egress program. Its maps come from lookup(arg, name), an fd
 * that is closed here. *prog_fd becomes the caller's.
 */
int egress_load(int (*lookup)(void *arg, const char *name), void *arg, int *prog_fd);

#endif

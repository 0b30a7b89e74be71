/* SPDX-License-Identifier: GPL-2.0-only */
/* fpisa.o and fpisa_egress.o, embedded: open, load */
#ifndef FPISA_DATAPATH_OBJECT_H
#define FPISA_DATAPATH_OBJECT_H

#include <stdbool.h>

struct bpf_object;
struct fpisa_bpf; /* the skeleton */

/*
 * Open the object with types set, pinning below `pin` (NULL: do not pin). Report errors. If `steered`, it runs from a
 * CPU map.
 */
int object_open(struct fpisa_bpf **skel, const char *pin, bool steered);
struct bpf_object *object_of(const struct fpisa_bpf *skel);
int object_load(struct fpisa_bpf *skel);
void object_close(struct fpisa_bpf *skel);

/*
 * Load the egress program. lookup(arg, name) returns a descriptor for each of its maps, which is closed here. The
 * caller owns *prog_fd.
 */
int egress_load(int (*lookup)(void *arg, const char *name), void *arg, int *prog_fd);

#endif

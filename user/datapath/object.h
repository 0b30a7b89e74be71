/* SPDX-License-Identifier: GPL-2.0-only */
/* Opening and loading of fpisa.o and fpisa_egress.o, which are embedded. */
#ifndef FPISA_DATAPATH_OBJECT_H
#define FPISA_DATAPATH_OBJECT_H

#include <stdbool.h>

struct bpf_object;
struct fpisa_bpf; /* the skeleton of fpisa.o */

/*
 * Open the object, set the types of its programs, and pin its maps below `pin` (NULL: do not pin). With `steered`, the
 * programs run from a CPU map.
 */
int object_open(struct fpisa_bpf **skel, const char *pin, bool steered);
struct bpf_object *object_of(const struct fpisa_bpf *skel);
int object_load(struct fpisa_bpf *skel);
void object_close(struct fpisa_bpf *skel);

/*
 * Load the egress program. lookup(arg, name) must return a descriptor for each map of the program, which this function
 * closes. The caller owns *prog_fd.
 */
int egress_load(int (*lookup)(void *arg, const char *name), void *arg, int *prog_fd);

#endif

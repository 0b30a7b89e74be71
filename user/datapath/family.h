/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs of the further families, loaded into a running datapath when a job needs them. */
#ifndef FPISA_DATAPATH_FAMILY_H
#define FPISA_DATAPATH_FAMILY_H

#include "datapath.h"

struct bpf_object;

/*
 * A family's object, types set, pinning below `pin` (NULL: none); NULL,
 * reported. `steered`: its programs run from a CPU map.
 */
struct bpf_object *family_open(__u8 family, const char *pin, bool steered);

/* Puts a family's programs into the program array, unless they are there; 0 is fpisa.o's own. */
int family_load(const struct datapath *dp, __u8 family);

/* Puts the stages and the admission, which stands in for them, of a loaded object into a bank; family 0's is the entry. */
int family_fill(int stages_fd, const struct bpf_object *o, __u8 family, __u32 bank);

/* Loads every family but 0 that is there once more, into one bank. */
int family_renew(const struct datapath *dp, __u32 bank);

#endif

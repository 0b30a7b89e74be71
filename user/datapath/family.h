/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs of the further families, loaded into a running datapath when a job needs them */
#ifndef FPISA_DATAPATH_FAMILY_H
#define FPISA_DATAPATH_FAMILY_H

#include "datapath.h"

struct bpf_object;

/*
 * Open a family's object, with types set and pinning below `pin` (NULL: do not pin). Return NULL, reported, if this
 * fails. If `steered`, its programs run from a CPU map.
 */
struct bpf_object *family_open(__u8 family, const char *pin, bool steered);

/* Put a family's programs into the program array, unless they are in it; family 0 is in fpisa.o itself. */
int family_load(const struct datapath *dp, __u8 family);

/*
 * Put the stages of a loaded object, and the admission, which replaces the entry, into a bank. Family 0's
 * admission is the entry.
 */
int family_fill(int stages_fd, const struct bpf_object *o, __u8 family, __u32 bank);

/* Load again every family but 0 that is in the program array, into one bank. */
int family_renew(const struct datapath *dp, __u32 bank);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs of the further families, loaded into a running datapath when a job needs them. */
#ifndef FPISA_DATAPATH_FAMILY_H
#define FPISA_DATAPATH_FAMILY_H

#include "datapath.h"

struct bpf_object;

/*
 * Open the object of a family, set the types of its programs, and pin its maps below `pin` (NULL: do not pin). With
 * `steered`, the programs run from a CPU map. On an error, report it and return NULL.
 */
struct bpf_object *family_open(__u8 family, const char *pin, bool steered);

/* Put a family's programs into the program array, unless they are already there. Family 0 is in fpisa.o. */
int family_load(const struct datapath *dp, __u8 family);

/* Put the stages of a loaded object, and its admission, into a bank. The admission of family 0 is the entry. */
int family_fill(int stages_fd, const struct bpf_object *o, __u8 family, __u32 bank);

/* Load every family except 0 that is in the program array again, into one bank. */
int family_renew(const struct datapath *dp, __u32 bank);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Properties of a program or a map, read from the kernel by descriptor. These functions report no errors. */
#ifndef FPISA_DATAPATH_INFO_H
#define FPISA_DATAPATH_INFO_H

#include <linux/bpf.h>

#include "datapath.h"

/* Return the id of the map of a descriptor, or 0 on an error. */
__u32 map_id(int fd);

/* Return whether the descriptor is that of a map and not of a program. */
bool is_map(int fd);

/*
 * Read the name of a map or a program in the kernel, which has at most 15 bytes. Return 0 or a negative errno, which is
 * -EINVAL if the descriptor is neither a map nor a program.
 */
int object_name(int fd, char name[BPF_OBJ_NAME_LEN]);

/* Fill in *p, except `family`, from the descriptor of a program. */
int program_info(int fd, struct datapath_program *p);

/*
 * Return whether the program uses the map with this id. The name of the program and the loader that attached it do not
 * matter.
 */
bool program_uses_map(int fd, __u32 id);

/* Fill in *m from the descriptor of a map. */
int map_info(int fd, const char *name, struct datapath_map *m);

#endif

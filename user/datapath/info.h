/* SPDX-License-Identifier: GPL-2.0-only */
/* Properties of a program or a map, read from the kernel by descriptor. These functions report nothing. */
#ifndef FPISA_DATAPATH_INFO_H
#define FPISA_DATAPATH_INFO_H

#include <linux/bpf.h>

#include "datapath.h"

/* Return the id of the map behind a descriptor, or 0 on error. */
__u32 map_id(int fd);

/* Return whether the descriptor is of a map, not of a program. */
bool is_map(int fd);

/* Read the kernel's name of a map or a program, cut to 15 bytes. Return 0 or -errno: -EINVAL if it is neither. */
int object_name(int fd, char name[BPF_OBJ_NAME_LEN]);

/* Fill *p, except its family, from a program's descriptor. */
int program_info(int fd, struct datapath_program *p);

/*
 * Return whether the program uses the map of that id. It does not matter which program attached it, and under which
 * name.
 */
bool program_uses_map(int fd, __u32 id);

/* Fill *m from a map's descriptor. */
int map_info(int fd, const char *name, struct datapath_map *m);

#endif

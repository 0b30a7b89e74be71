/* SPDX-License-Identifier: GPL-2.0-only */
/* Properties of a program or a map, asked of the kernel by fd. Nothing here reports. */
#ifndef FPISA_DATAPATH_INFO_H
#define FPISA_DATAPATH_INFO_H

#include <linux/bpf.h>

#include "datapath.h"

/* id of the map behind an fd, 0 on error. */
__u32 map_id(int fd);

/* Return whether the fd is of a map, not of a program. */
bool is_map(int fd);

/* The kernel's name of a map or a program, cut short to 15 bytes; -errno, -EINVAL if it is neither. */
int object_name(int fd, char name[BPF_OBJ_NAME_LEN]);

/* Fills *p from a program's fd, all but its family. */
int program_info(int fd, struct datapath_program *p);

/* Does the program use the map of that id? Whoever attached it, and under what name. */
bool program_uses_map(int fd, __u32 id);

/* Fills *m from a map's fd. */
int map_info(int fd, const char *name, struct datapath_map *m);

#endif

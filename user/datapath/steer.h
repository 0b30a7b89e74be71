/* SPDX-License-Identifier: GPL-2.0-only */
/* The CPUs over which a datapath spreads slots, and the programs for this. fpisa/steer.h has the format. */
#ifndef FPISA_DATAPATH_STEER_H
#define FPISA_DATAPATH_STEER_H

#include "datapath.h"

struct bpf_object;
struct bpf_program;
struct fpisa_steer_bpf; /* the skeleton of fpisa_steer.o */

/*
 * Choose the steering of a load into `dir` if the caller asks for *asked. s->cpus is 0 without steering. Refuse a
 * choice that differs from that of the loaded datapath.
 */
int steering_choose(const char *dir, const struct fpisa_steering *asked, struct fpisa_steering *s);

/* Load the object with the maps of a datapath with `slots` slots. Pin its maps below `pin` (NULL: do not pin). */
int steer_load(const char *pin, __u32 slots, struct fpisa_steer_bpf **skel);
struct bpf_object *steer_object(const struct fpisa_steer_bpf *skel);

/* Return the program that is attached to devices. */
const struct bpf_program *steer_program(const struct fpisa_steer_bpf *skel);

/* Fill the CPU map, or replace the programs of its entries without losing a frame. Then fill fpisa_steering. */
int steer_fill(const struct fpisa_steer_bpf *skel, const struct fpisa_steering *s);
int steer_pin(const char *dir, const struct fpisa_steer_bpf *skel);
void steer_close(struct fpisa_steer_bpf *skel);

#endif

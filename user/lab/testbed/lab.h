/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Networks of verbs and benches: network
 * namespaces without names, links by iproute2. process.h has the processes in
 * them, star.h the links between.
 */
#ifndef FPISA_LAB_H
#define FPISA_LAB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LAB_BPFFS "/sys/fs/bpf"

/* The four bytes of an address in host order, for "%u.%u.%u.%u". */
#define DOTTED(a) (a) >> 24, (a) >> 16 & 255, (a) >> 8 & 255, (a)&255

/* Move this process into a network and a mount namespace of its own, with a BPF filesystem. Reports. */
int lab_enter(const char *verb);

/* Commands for iproute2, run at once. On error *message says what ip said first. */
struct lab_batch {
	int fd;
	int err;
};

struct lab_batch lab_batch_open(void);
__attribute__((format(printf, 2, 3))) void lab_batch_add(struct lab_batch *b, const char *fmt, ...);
int lab_batch_run(struct lab_batch *b, char *message, size_t size);

/*
 * A veth end drops what is redirected to it unless it polls, which GRO makes
 * it do. The interface must be up: its peer learns that it may redirect from
 * the change alone (veth_set_features() since Linux 6.3).
 */
int lab_gro_on(const char *dev);
int lab_tso_off(const char *dev);

#endif

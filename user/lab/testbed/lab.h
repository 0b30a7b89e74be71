/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The networks of verbs and benches consist of network namespaces without
 * names, and of links that iproute2 creates. process.h has the processes in the
 * namespaces, and star.h has the links between namespaces.
 */
#ifndef FPISA_LAB_H
#define FPISA_LAB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LAB_BPFFS "/sys/fs/bpf"

/* The four bytes of an address in host order, for "%u.%u.%u.%u". */
#define DOTTED(a) (a) >> 24, (a) >> 16 & 255, (a) >> 8 & 255, (a)&255

/* Move this process into a new network namespace and a new mount namespace with a BPF filesystem. Report errors. */
int lab_enter(const char *verb);

/* Commands for iproute2, which are run together. On failure *message has the first line that ip printed. */
struct lab_batch {
	int fd;
	int err;
};

struct lab_batch lab_batch_open(void);
__attribute__((format(printf, 2, 3))) void lab_batch_add(struct lab_batch *b, const char *fmt, ...);
int lab_batch_run(struct lab_batch *b, char *message, size_t size);

/*
 * Make a veth end poll by enabling GRO. Without polling, the end drops frames that are redirected to it. The interface
 * must be up, because only then does the peer learn that it may redirect (veth_set_features() since Linux 6.3).
 */
int lab_gro_on(const char *dev);
int lab_tso_off(const char *dev);

#endif

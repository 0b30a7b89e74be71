/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What xsk.c needs of libxdp and libbpf, and how frames are told from the
 * rest. The libraries are opened when the first handle asks for xsk, so that
 * who uses UDP alone needs neither.
 */
#ifndef FPISA_XSK_H
#define FPISA_XSK_H

#include <bpf/bpf.h>
#include <xdp/xsk.h>

#define FPISA_XSK_FUNCTIONS(X) \
	X(bpf_prog_load)       \
	X(bpf_map_create)      \
	X(bpf_link_create)     \
	X(xsk_umem__create)    \
	X(xsk_umem__delete)    \
	X(xsk_socket__create)  \
	X(xsk_socket__delete)  \
	X(xsk_socket__fd)      \
	X(xsk_socket__update_xskmap)

struct fpisa_xsk_lib {
#define X(name) __typeof__(&name) name;
	FPISA_XSK_FUNCTIONS(X)
#undef X
};

/* The libraries' functions. -ENOENT, with the message set, if they are not on this machine. */
int fpisa_xsk_libraries(struct fpisa_xsk_lib *lib);

/* What is ours of what an interface receives, in network order. */
struct fpisa_xsk_filter {
	uint32_t source, destination;
	uint32_t group; /* another destination, or the same again */
	uint16_t from, to;
};

/* The program that sends what is ours to a socket, and passes all else. It fits any interface and any job. */
struct fpisa_xsk_program {
	int program, sockets;	       /* descriptors: its own, and its XSKMAP's */
	struct fpisa_xsk_filter *ours; /* which it reads: to be written at any time, without privilege */
};

#define FPISA_XSK_NO_PROGRAM ((struct fpisa_xsk_program){-1, -1, NULL})

/* Loads one that takes nothing yet. 0 or -errno, and then nothing is left. */
int fpisa_xsk_program_load(struct fpisa_xsk_program *p, const struct fpisa_xsk_lib *lib);
void fpisa_xsk_program_close(struct fpisa_xsk_program *p);

#endif

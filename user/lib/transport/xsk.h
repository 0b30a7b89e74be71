/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The base of xsk.c: libxdp and libbpf, the XDP program that recognises the frames of a handle, and the socket that
 * sends and receives them. The libraries are loaded when the first handle requests xsk, so programs that use only UDP
 * do not need them.
 */
#ifndef FPISA_XSK_H
#define FPISA_XSK_H

#include <bpf/bpf.h>
#include <xdp/xsk.h>
#include "transport.h"

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

/* Load the functions of the libraries. Return 0, or -ENOENT with the message set if a library is not installed. */
int fpisa_xsk_libraries(struct fpisa_xsk_lib *lib);

/* -- xsk_program.c ------------------------------------------------------- */

/* The addresses and ports by which the program recognises frames for the handle, in network order. */
struct fpisa_xsk_filter {
	struct fpisa_address source, destination;
	struct fpisa_address group; /* second destination address, or the first again */
	uint16_t from, to;
};

/*
 * The XDP program, which redirects frames for the handle to a socket and passes all other frames. The program is the
 * same for any interface and any job of a family.
 */
struct fpisa_xsk_program {
	int program, sockets;	       /* descriptors of the program and of its XSKMAP */
	struct fpisa_xsk_filter *ours; /* filter of the program, which can be written at any time without privilege */
};

#define FPISA_XSK_NO_PROGRAM ((struct fpisa_xsk_program){-1, -1, NULL})

/* Load the program for a family, with an empty filter. Return 0, or a negative errno with all resources released. */
int fpisa_xsk_program_load(struct fpisa_xsk_program *p, const struct fpisa_xsk_lib *lib, int ipv6);
void fpisa_xsk_program_close(struct fpisa_xsk_program *p);

/* -- xsk_socket.c -------------------------------------------------------- */

struct fpisa_xsk_socket {
	const struct fpisa_xsk_lib *lib;
	int link; /* link of the program to the interface */
	struct xsk_umem *umem;
	struct xsk_socket *socket; /* socket; NULL: not open */
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons completion, rx;
	unsigned char *area;
	size_t area_size;
	uint32_t size;	/* number of frames in each ring */
	uint64_t *free; /* frames that are free for sending */
	uint32_t free_n;
	uint64_t lent[FPISA_BATCH]; /* frames that the caller owns until it returns them */
	uint32_t lent_n;
};

#define FPISA_XSK_NO_SOCKET(lib_) ((struct fpisa_xsk_socket){.lib = (lib_), .link = -1})

/*
 * Open a socket on the first queue of the interface, with rings of `size` frames, a power of two, in each direction.
 * Attach the program to the interface in the driver or, if that fails, in generic mode. If another socket has the
 * queue, try again for 0.2 s. Return 0, or a negative errno with all resources released.
 */
int fpisa_xsk_socket_open(struct fpisa_xsk_socket *s, const struct fpisa_xsk_program *p, const char *dev,
			  uint32_t ifindex, uint32_t size);

/* Close the socket. The caller holds the lock of base/fork.h. Do nothing if the socket is not open. */
void fpisa_xsk_socket_close(struct fpisa_xsk_socket *s);

static inline int fpisa_xsk_socket_is_open(const struct fpisa_xsk_socket *s)
{
	return s->socket != NULL;
}

/* Return the socket's descriptor. This and the following functions require an open socket. */
int fpisa_xsk_socket_fd(const struct fpisa_xsk_socket *s);

/*
 * To send frames, call reap() for the frames that have left, then reserve() a descriptor for each frame, which is NULL
 * if none is free. Write the frame to its data() and the length to the descriptor. Then submit() the n reserved frames,
 * and kick() the kernel. kick() returns a negative errno, or 0 with *send_error set if the frames may leave later or
 * not at all.
 */
void fpisa_xsk_socket_reap(struct fpisa_xsk_socket *s);
struct xdp_desc *fpisa_xsk_socket_reserve(struct fpisa_xsk_socket *s);
unsigned char *fpisa_xsk_socket_data(const struct fpisa_xsk_socket *s, const struct xdp_desc *d);
void fpisa_xsk_socket_submit(struct fpisa_xsk_socket *s, uint32_t n);
int fpisa_xsk_socket_kick(struct fpisa_xsk_socket *s, int *send_error);

/* A received frame from its Ethernet header on. */
struct fpisa_xsk_frame {
	unsigned char *data;
	uint32_t len;
};

/*
 * Take up to FPISA_BATCH frames without waiting, and return their number. The caller owns the frames until
 * fpisa_xsk_socket_return().
 */
uint32_t fpisa_xsk_socket_take(struct fpisa_xsk_socket *s, struct fpisa_xsk_frame *frame);

/*
 * Return the frames of fpisa_xsk_socket_take() to the socket, before the next take. Return 0, or -EIO if a frame would
 * be lost permanently.
 */
int fpisa_xsk_socket_return(struct fpisa_xsk_socket *s);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stand-ins for the kernel's TCP sockets and epoll. The other side of each socket is the target, in this process. Descriptors of
 * stand-ins begin at SOCKET_FD; close() passes other descriptors on to the kernel.
 */
#ifndef FUZZ_SOCKETS_H
#define FUZZ_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

#define SOCKETS 12
#define SOCKET_FD 1000000
#define SOCKET_LISTENER (SOCKET_FD + SOCKETS)
#define SOCKET_EPOLL (SOCKET_LISTENER + 1)
#define SOCKET_IN 2048 /* bytes that may wait in a socket */

struct fake_socket {
	int open;	  /* the program has opened it */
	int waits;	  /* for accept4() */
	uint32_t address; /* address of the other side, network order */
	size_t n, at;	  /* bytes in in[], and bytes taken */
	int ended;	  /* no more bytes follow */
	int error;	  /* errno after these bytes; 0: none */
	size_t room;	  /* bytes that send() still takes */
	int epoll;	  /* descriptor of its epoll; 0: none */
	uint32_t wants;	  /* events */
	void *data;
	uint8_t in[SOCKET_IN]; /* last member */
};

extern struct fake_socket fake_socket[SOCKETS];

void sockets_reset(void);

/* Open socket `i`, as socket() or accept4() would. Return its descriptor. */
int socket_open(size_t i);

/* Add bytes from the other side. Bytes without room are lost, as all later bytes would be. */
void socket_arrive(size_t i, const void *bytes, size_t n);

/* Return whether epoll would report socket `i`. */
int socket_ready(size_t i);

/* Take bytes that the program has sent by socket `i`. The target defines this function. */
void socket_sent(size_t i, const uint8_t *bytes, size_t n);

#endif

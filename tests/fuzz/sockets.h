/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stand-ins for the kernel's TCP sockets and epoll. The target, in the same process, acts as the other side of each
 * socket. Stand-in descriptors begin at SOCKET_FD; close() passes all other descriptors to the kernel.
 */
#ifndef FUZZ_SOCKETS_H
#define FUZZ_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

#define SOCKETS 12
#define SOCKET_FD 1000000
#define SOCKET_LISTENER (SOCKET_FD + SOCKETS)
#define SOCKET_EPOLL (SOCKET_LISTENER + 1)
#define SOCKET_IN 2048 /* bytes that can wait in a socket */

struct fake_socket {
	int open;	  /* the program has opened the socket */
	int waits;	  /* the connection waits for accept4() */
	uint32_t address; /* address of the other side, network order */
	size_t n, at;	  /* number of bytes in in[], and number of bytes taken */
	int ended;	  /* no more bytes follow */
	int error;	  /* errno after these bytes; 0: no error */
	size_t room;	  /* bytes that send() still accepts */
	int epoll;	  /* descriptor of the socket's epoll; 0: no epoll */
	uint32_t wants;	  /* requested events */
	void *data;
	uint8_t in[SOCKET_IN]; /* must be the last member */
};

extern struct fake_socket fake_socket[SOCKETS];

void sockets_reset(void);

/* Open socket `i`, as socket() or accept4() would. Return its descriptor. */
int socket_open(size_t i);

/* Add bytes from the other side. Bytes beyond the socket's room are lost, as are all later bytes. */
void socket_arrive(size_t i, const void *bytes, size_t n);

/* Return whether epoll would report socket `i`. */
int socket_ready(size_t i);

/* Take bytes that the program has sent through socket `i`. The target defines this function. */
void socket_sent(size_t i, const uint8_t *bytes, size_t n);

#endif

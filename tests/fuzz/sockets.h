/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stand-ins for what a program asks the kernel about TCP sockets and epoll: the other side of each socket is the target, in this
 * process. Descriptors of theirs begin at SOCKET_FD; close() passes others on to the kernel.
 */
#ifndef FUZZ_SOCKETS_H
#define FUZZ_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

#define SOCKETS 12
#define SOCKET_FD 1000000
#define SOCKET_LISTENER (SOCKET_FD + SOCKETS)
#define SOCKET_EPOLL (SOCKET_LISTENER + 1)
#define SOCKET_IN 2048 /* bytes that may wait in one */

struct fake_socket {
	int open;	  /* the program has it */
	int waits;	  /* for accept4() */
	uint32_t address; /* of the other side, network order */
	size_t n, at;	  /* of in[] */
	int ended;	  /* after these bytes: nothing more comes */
	int error;	  /* after these bytes: this errno; 0: none */
	size_t room;	  /* bytes that send() takes yet */
	int epoll;	  /* it is in this one, 0: in none */
	uint32_t wants;	  /* events */
	void *data;
	uint8_t in[SOCKET_IN]; /* last */
};

extern struct fake_socket fake_socket[SOCKETS];

void sockets_reset(void);

/* Opens socket `i`, as socket() or accept4() would; its descriptor. */
int socket_open(size_t i);

/* The other side says this; what there is no room for is lost, as all after it would be. */
void socket_arrive(size_t i, const void *bytes, size_t n);

/* Would epoll report socket `i`? */
int socket_ready(size_t i);

/* The target's: the program has sent this by socket `i`. */
void socket_sent(size_t i, const uint8_t *bytes, size_t n);

#endif

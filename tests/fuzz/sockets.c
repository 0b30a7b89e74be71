/* SPDX-License-Identifier: GPL-2.0-only */
/* Sockets without a kernel. See sockets.h for the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "sockets.h"

struct fake_socket fake_socket[SOCKETS];
static size_t used, turn; /* all sockets from `used` on are zeroed */

/* Return the socket. Abort if the program does not have the descriptor. */
static struct fake_socket *socket_of(int fd)
{
	if (fd < SOCKET_FD || fd >= SOCKET_LISTENER || !fake_socket[fd - SOCKET_FD].open)
		abort();
	return &fake_socket[fd - SOCKET_FD];
}

static void clear(struct fake_socket *s)
{
	memset(s, 0, offsetof(struct fake_socket, in));
}

void sockets_reset(void)
{
	for (size_t i = 0; i < used; i++)
		clear(&fake_socket[i]);
	used = turn = 0;
}

int socket_open(size_t i)
{
	fake_socket[i].open = 1;
	fake_socket[i].waits = 0;
	used = i < used ? used : i + 1;
	return SOCKET_FD + (int)i;
}

void socket_arrive(size_t i, const void *bytes, size_t n)
{
	struct fake_socket *s = &fake_socket[i];

	if (s->ended || s->error || n > sizeof(s->in) - s->n) {
		s->ended = 1;
		return;
	}
	memcpy(s->in + s->n, bytes, n);
	s->n += n;
	used = i < used ? used : i + 1;
}

int socket_ready(size_t i)
{
	const struct fake_socket *s = &fake_socket[i];

	return s->open && s->epoll &&
	       ((s->wants & EPOLLIN && (s->at < s->n || s->ended)) || (s->wants & EPOLLOUT && s->room) || s->error);
}

/* -- replacements for system calls ----------------------------------------------------- */

ssize_t recv(int fd, void *to, size_t size, int flags)
{
	struct fake_socket *s = socket_of(fd);
	size_t n = s->n - s->at < size ? s->n - s->at : size;

	if (!n && !s->ended) {
		errno = s->error ? s->error : EAGAIN;
		return -1;
	}
	if (n)
		memcpy(to, s->in + s->at, n);
	if (!(flags & MSG_PEEK))
		s->at += n;
	if (s->at == s->n)
		s->at = s->n = 0;
	return (ssize_t)n;
}

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	struct fake_socket *s = socket_of(fd);

	if (!(flags & MSG_NOSIGNAL) || !(flags & MSG_DONTWAIT))
		abort();
	if (s->error) {
		errno = s->error;
		return -1;
	}
	n = n < s->room ? n : s->room;
	if (!n) {
		errno = EAGAIN;
		return -1;
	}
	s->room -= n;
	socket_sent((size_t)(fd - SOCKET_FD), bytes, n);
	return (ssize_t)n;
}

int shutdown(int fd, int how)
{
	(void)how;
	return socket_of(fd)->open ? 0 : -1;
}

int close(int fd)
{
	if (fd < SOCKET_FD)
		return (int)syscall(SYS_close, fd);
	if (fd < SOCKET_LISTENER)
		clear(socket_of(fd));
	return 0;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t n)
{
	(void)fd;
	(void)level;
	(void)name;
	(void)value;
	(void)n;
	return 0;
}

int socket(int family, int type, int protocol)
{
	(void)family;
	(void)type;
	(void)protocol;
	return SOCKET_LISTENER;
}

int bind(int fd, const struct sockaddr *to, socklen_t n)
{
	(void)to;
	(void)n;
	return fd == SOCKET_LISTENER ? 0 : -1;
}

int listen(int fd, int backlog)
{
	(void)backlog;
	return fd == SOCKET_LISTENER ? 0 : -1;
}

static void put_address(struct sockaddr *to, socklen_t *n, uint32_t address)
{
	const struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = address};

	memcpy(to, &a, *n < sizeof(a) ? *n : sizeof(a));
	*n = sizeof(a);
}

int getsockname(int fd, struct sockaddr *to, socklen_t *n)
{
	put_address(to, n, socket_of(fd)->open ? htonl(0x0a000001) : 0);
	return 0;
}

int accept4(int fd, struct sockaddr *from, socklen_t *n, int flags)
{
	(void)flags;
	for (size_t i = 0; fd == SOCKET_LISTENER && i < SOCKETS; i++)
		if (fake_socket[i].waits) {
			put_address(from, n, fake_socket[i].address);
			return socket_open(i);
		}
	errno = EAGAIN;
	return -1;
}

int epoll_create1(int flags)
{
	static int last;

	(void)flags;
	return SOCKET_EPOLL + last++ % 2;
}

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *e)
{
	struct fake_socket *s;

	if (fd >= SOCKET_LISTENER)
		return 0;
	s = socket_of(fd);
	if ((what == EPOLL_CTL_ADD) != !s->epoll || (s->epoll && s->epoll != epoll))
		abort();
	s->epoll = what == EPOLL_CTL_DEL ? 0 : epoll;
	s->wants = e ? e->events : 0;
	s->data = e ? e->data.ptr : NULL;
	return 0;
}

/*
 * Return the next ready socket, in turn. If no socket is ready but a connection waits, return the listener, whose data
 * is NULL.
 */
int epoll_wait(int epoll, struct epoll_event *e, int most, int timeout_ms)
{
	(void)most;
	(void)timeout_ms;
	for (size_t i = 0; i < SOCKETS; i++) {
		size_t k = turn++ % SOCKETS;

		if (fake_socket[k].epoll == epoll && socket_ready(k)) {
			*e = (struct epoll_event){.events = EPOLLIN, .data.ptr = fake_socket[k].data};
			return 1;
		}
	}
	for (size_t i = 0; i < SOCKETS; i++)
		if (fake_socket[i].waits) {
			*e = (struct epoll_event){.events = EPOLLIN};
			return 1;
		}
	return 0;
}

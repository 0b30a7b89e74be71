// SPDX-License-Identifier: GPL-2.0-only
/* Listening sockets; listen.h has the contract. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/address.h"
#include "listen.h"

static int open_socket(union fpisa_sockaddr *to)
{
	int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* A kernel without IPv6 has IPv4 addresses only. */
	if (fd < 0 && errno == EAFNOSUPPORT && IN6_IS_ADDR_UNSPECIFIED(&to->v6.sin6_addr)) {
		to->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = to->v6.sin6_port};
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	}
	return fd;
}

int listen_tcp(struct fpisa_address at, __u16 port, int backlog)
{
	union fpisa_sockaddr to = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
	int one = 1, zero = 0, fd, err;

	if (fpisa_is_address(&at))
		to = fpisa_sockaddr_of(&at, port);
	fd = open_socket(&to);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (to.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (!bind(fd, &to.any, fpisa_sockaddr_len(&to)) && !listen(fd, backlog))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

const char *listen_text(struct fpisa_address at, __u16 port, char text[FPISA_ENDPOINT_LEN])
{
	if (fpisa_is_address(&at))
		return fpisa_endpoint_text(&at, port, text);
	snprintf(text, FPISA_ENDPOINT_LEN, "*:%u", port);
	return text;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Detection of dead hosts; watch.h has the contracts. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>
#include "protocol.h"
#include "watch.h"

void fpisa_watch(int fd)
{
	static const int options[][3] = {
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 1},
		{IPPROTO_TCP, TCP_KEEPINTVL, 1},
		{IPPROTO_TCP, TCP_KEEPCNT, 4},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, FPISA_MANAGER_SILENCE_MS - 1500},
		{IPPROTO_TCP, TCP_NODELAY, 1},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i][0], options[i][1], &options[i][2], sizeof(int));
}

int fpisa_connect_within(const union fpisa_sockaddr *to, int timeout_ms)
{
	int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t n = sizeof(error);

	if (fd < 0)
		return -errno;
	fpisa_watch(fd);
	if (connect(fd, &to->any, fpisa_sockaddr_len(to)) && errno != EINPROGRESS)
		error = errno;
	else if (poll(&p, 1, timeout_ms) != 1)
		error = ETIMEDOUT;
	else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n))
		error = errno;
	if (!error)
		return fd;
	close(fd);
	return -error;
}

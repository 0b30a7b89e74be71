/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Hosts that vanish; watch.h has the contract. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
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

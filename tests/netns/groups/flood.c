// SPDX-License-Identifier: GPL-2.0-only
/*
 * flood ADDRESS PORT TEXT: open connections that send TEXT, which may be empty, as fast as possible until killed. Keep
 * the last 1400 connections open.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEPT 1400

int main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *to;
	struct rlimit files = {KEPT + 64, KEPT + 64};
	struct timeval patience = {.tv_usec = 200000};
	struct linger reset = {.l_onoff = 1}; /* close without TIME_WAIT, so that ports can be used again at once */
	int fd[KEPT];

	if (argc != 4 || getaddrinfo(argv[1], argv[2], &hints, &to))
		return 2;
	setrlimit(RLIMIT_NOFILE, &files);
	memset(fd, -1, sizeof(fd));
	for (int i = 0;; i = (i + 1) % KEPT) {
		close(fd[i]);
		fd[i] = socket(to->ai_family, SOCK_STREAM, 0);
		setsockopt(fd[i], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		setsockopt(fd[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		if (!connect(fd[i], to->ai_addr, to->ai_addrlen))
			send(fd[i], argv[3], strlen(argv[3]), MSG_NOSIGNAL);
	}
}

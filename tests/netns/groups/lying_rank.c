// SPDX-License-Identifier: GPL-2.0-only
/*
 * lying_rank ADDRESS PORT KEY_FILE SEED: open connections, one after the other, with one of the manager's keys. Each
 * connection sends the messages of ranks in any order, with random bytes changed, until SIGTERM. Then print the number
 * of connections.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/manager/channel.h"

#define MESSAGES 12 /* maximum number of messages on a connection */
#define PATIENCE_MS 200

static volatile sig_atomic_t ended;

static void end(int sig)
{
	(void)sig;
	ended = 1;
}

/* Return a valid message for a group with its own name, or such a message with changed bytes. */
static struct fpisa_manager_message lie(int first)
{
	struct fpisa_manager_message m =
		fpisa_manager_message(first ? FPISA_MANAGER_JOIN : FPISA_MANAGER_JOIN + rand() % FPISA_MANAGER_WAITS);

	if (m.type == FPISA_MANAGER_JOIN || m.type == FPISA_MANAGER_RETURN) {
		snprintf(m.join.name, sizeof(m.join.name), "liar-%d", rand() % 3);
		m.join.size = 1 + (unsigned int)rand() % 3;
		m.join.rank = (unsigned int)rand() % m.join.size;
		m.join.group = m.join.secret = m.type == FPISA_MANAGER_RETURN ? (unsigned int)rand() : 0;
	} else if (m.type == FPISA_MANAGER_ASK) {
		m.ask.index = (unsigned int)rand() % 9;
		m.ask.spec.format = (unsigned char)(rand() % 4);
	} else if (m.type == FPISA_MANAGER_BOUND) {
		m.bind.index = (unsigned int)rand() % 2;
		m.bind.port = (unsigned short)(1 + rand() % 65535);
		m.bind.taken = rand() % 2;
	} else if (m.type == FPISA_MANAGER_WAITS) {
		m.waits.call = 1 + (unsigned int)rand() % 3;
		m.waits.digest = (unsigned int)rand();
	}
	for (int changes = rand() % 4 ? 0 : 1 + rand() % 3; changes; changes--)
		((unsigned char *)&m)[8 + rand() % 248] = (unsigned char)rand();
	return m;
}

/* Exchange messages until the manager or this rank ends the connection. */
static void talk(struct fpisa_channel *c)
{
	int said = 0, most = 1 + rand() % MESSAGES;

	while (!ended && said <= most) {
		struct pollfd p = {.fd = fpisa_channel_fd(c), .events = fpisa_channel_events(c)};
		struct fpisa_manager_message m;
		int rc = fpisa_channel_work(c, &m);

		if (rc < 0)
			return;
		if (!rc && fpisa_channel_open(c)) {
			m = lie(!said++);
			if (fpisa_channel_send(c, &m) || fpisa_channel_flush(c))
				return;
		}
		if (!rc && poll(&p, 1, fpisa_channel_open(c) ? rand() % 20 : PATIENCE_MS) < 0)
			return;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct fpisa_psk key;
	unsigned long n = 0;

	if (argc != 5 || !inet_aton(argv[1], &to.sin_addr) || fpisa_psk_last(&key, argv[3]))
		return 2;
	to.sin_port = htons((in_port_t)atoi(argv[2]));
	srand((unsigned int)strtoul(argv[4], NULL, 0));
	signal(SIGTERM, end);
	while (!ended) {
		struct fpisa_channel *c;
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(fd, (struct sockaddr *)&to, sizeof(to)) && !fpisa_channel_call(&c, fd, &key)) {
			talk(c);
			fpisa_channel_close(c);
			n++;
		} else {
			close(fd);
			usleep(10000);
		}
	}
	printf("%lu\n", n);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run workers of queries that have a valid key and send given contents whatever the request is: lying_worker KEY_FILE
 * FOLDER PORT... FOLDER/PORT lists the contents of the worker at that port. A line `ON TYPE HEX` makes the worker send
 * a content of type TYPE at OPEN, START or FETCH. The first 4 bytes of a DONE are replaced by the number of the
 * attempt. The program prints "serving" when it serves.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fpisa.h"
#include "query/lib/control.h"

#define CONTENT 65536
#define MOST 64 /* maximum number of workers */

static struct fpisa_psks keys;

static size_t from_hex(const char *hex, unsigned char *to)
{
	size_t n = 0;
	unsigned int byte;

	for (; n < CONTENT && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
		to[n] = (unsigned char)byte;
	return n;
}

static void say(struct fpisa_control_channel *c, const char *file, const char *on, const unsigned char *heard)
{
	static char line[3 * CONTENT], hex[3 * CONTENT];
	static unsigned char content[CONTENT];
	FILE *f = fopen(file, "r");
	unsigned int type;
	char when[16];

	while (f && fgets(line, sizeof(line), f)) {
		size_t n;

		*hex = 0;
		if (sscanf(line, "%15s %u %s", when, &type, hex) < 2 || strcmp(when, on))
			continue;
		n = from_hex(hex, content);
		if (type == FPISA_CONTROL_DONE && n >= 4)
			memcpy(content, heard, 4);
		fpisa_control_send(c, (__u16)type, content, n);
	}
	if (f)
		fclose(f);
}

static void serve(int fd, const char *file)
{
	struct fpisa_control_channel c;
	const __u8 *content;
	__u16 type;
	size_t n;
	int rc = fpisa_control_serve(&c, fd, &keys);

	while (rc >= 0) {
		struct pollfd p = {.fd = fpisa_channel_fd(c.channel), .events = fpisa_channel_events(c.channel)};

		poll(&p, 1, 1000);
		rc = fpisa_control_work(&c, &type, &content, &n);
		if (rc > 0)
			say(&c, file,
			    type == FPISA_CONTROL_OPEN	? "OPEN" :
			    type == FPISA_CONTROL_START ? "START" :
							  "FETCH",
			    content);
		if (rc >= 0)
			rc = fpisa_control_flush(&c);
	}
	fpisa_control_close(&c);
}

int main(int argc, char **argv)
{
	struct pollfd listener[MOST];
	int n = argc - 3, one = 1;
	char file[4096];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	if (n < 1 || n > MOST || fpisa_psks_read(&keys, argv[1]))
		return 1;
	for (int i = 0; i < n; i++) {
		struct sockaddr_in at = {.sin_family = AF_INET,
					 .sin_port = htons((uint16_t)atoi(argv[3 + i])),
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

		listener[i] = (struct pollfd){.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN};
		setsockopt(listener[i].fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener[i].fd, (struct sockaddr *)&at, sizeof(at)) || listen(listener[i].fd, 8))
			return 1;
	}
	puts("serving");
	fflush(stdout);
	for (;;) {
		poll(listener, (nfds_t)n, -1);
		for (int i = 0; i < n; i++) {
			int fd = listener[i].revents ?
					 accept4(listener[i].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) :
					 -1;

			if (fd >= 0 && !fork()) {
				snprintf(file, sizeof(file), "%s/%s", argv[2], argv[3 + i]);
				serve(fd, file);
				_exit(0);
			}
			if (fd >= 0)
				close(fd);
		}
	}
}

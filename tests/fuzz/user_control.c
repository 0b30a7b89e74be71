/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: messages from a query's master to a worker (user/query/lib/control.c), and the worker's actions
 * (user/query/worker). A message is a type, the length of its content (2 bytes) and the content. If the type's upper
 * bit is set, a number of 4 bytes follows, which is a content's length, then 16 bytes of body. A worker opens no file
 * outside its directory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "channel.h"
#include "lib/base/error.h"
#include "query/worker/connection.h"

static struct input in;
static int pause_next, directory, null;

static const struct fpisa_address loopback = {.b = {[10] = 0xff, 0xff, 127, 0, 0, 1}}, loopback6 = {.b = {[15] = 1}};

/* Redirect frames to a loopback address, of IPv6 if the last byte of the address is odd. */
static void keep_here(uint8_t *content, uint16_t type, size_t n)
{
	uint8_t *to = content + offsetof(struct fpisa_query_open, aggregator);

	if (type == FPISA_CONTROL_OPEN && n >= sizeof(struct fpisa_query_open))
		memcpy(to, to[15] & 1 ? &loopback6 : &loopback, sizeof(loopback));
}

int channel_next(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	static uint8_t content[65536];
	uint16_t length = 0;
	uint32_t number = 0;
	uint8_t kind;
	size_t n;

	/* Run the worker between two messages, so that it starts the requested work. */
	if (pause_next) {
		pause_next = 0;
		return 0;
	}
	pause_next = 1;
	if (!in.left)
		return fpisa_fail(-ECONNRESET, "the connection ended");
	kind = input_byte(&in);
	if (kind & 0x80) {
		memset(m, 0, sizeof(*m));
		m->magic = FPISA_CONTROL_MAGIC;
		m->version = FPISA_CONTROL_VERSION;
		m->type = kind & 0x7f;
		input_take(&in, &number, sizeof(number));
		m->number = number;
		input_take(&in, m->body, 16);
		return 1;
	}
	input_take(&in, &length, sizeof(length));
	n = input_take(&in, content, length);
	keep_here(content, kind, n);
	return channel_content(c, m, kind, content, n);
}

/* Return a socket at the end of its stream, which is always readable. */
static int ended_socket(void)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd))
		abort();
	close(fd[1]);
	return fd[0];
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_file(const char *name, const char *text)
{
	int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

/* Make a table in a directory beside the program. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[4096];

	(void)argc;
	snprintf(path, sizeof(path), "%s.tables", **argv);
	mkdir(path, 0700);
	directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (directory < 0 || null < 0)
		abort();
	write_file("t.schema", "k int32 not null\nv real\n");
	write_file("t.csv", "k,v\n1,2.5\n2,\n1,-1e30\n3,nan\n");
	write_file("s.schema", "n int32\nm double\n");
	write_file("s.csv", "n,m\n1,1\n,2\n");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fpisa_control_channel control;

	in = (struct input){data, size};
	pause_next = 0;
	if (fpisa_control_serve(&control, ended_socket(), NULL))
		abort();
	session_run(&control, &loopback, directory, null);
	return 0;
}

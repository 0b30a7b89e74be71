// SPDX-License-Identifier: GPL-2.0-only
/*
 * An aggregator in user space on loopback, for ranks that are processes (mem_group.c) on a machine without XDP.
 *
 *	soft_server PORT RANKS MODE
 *
 * Values of type T have a job at PORT + T, whose rank R has the port PORT + 16 * T + 100 + R. It runs until it is killed.
 */
#include <arpa/inet.h>
#include <err.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fpisa.h"
#include "fpisa/format.h"
#include "lib/soft/soft.h"

static int port, ranks, mode;

static void init(struct fpisa_soft *s, int type)
{
	s->number = 7;
	s->job = (struct fpisa_job){
		.active = 1,
		.workers = (uint32_t)ranks,
		.live = ~0ull >> (64 - ranks),
		.address = fpisa_ipv4(htonl(INADDR_LOOPBACK)),
		.elements = type != FPISA_FLOAT64	 ? 352 :
			    mode == FPISA_JOB_MODE_EXACT ? 128 :
							   160,
		.window = 64,
		.format = (uint8_t)type,
		.mode = (uint8_t)mode,
		.rounding = mode >= FPISA_JOB_MODE_FPISA64 ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN,
		.pipeline = FPISA_PIPELINE_FUSED,
		.clz = FPISA_CLZ_BITS,
		.fanout = FPISA_FANOUT_UNICAST,
	};
	for (int r = 0; r < ranks; r++)
		s->job.rank[r] = (struct fpisa_rank){.addr = fpisa_ipv4(htonl(INADDR_LOOPBACK)),
						     .port = htons((uint16_t)(port + 16 * type + 100 + r))};
	if (fpisa_soft_init(s))
		errx(1, "type %d: %s", type, fpisa_error());
}

static int bound_socket(int type)
{
	const struct sockaddr_in a = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)(port + type)),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int size = 8 << 20;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)))
		err(1, "port %d", port + type);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return fd;
}

/* Send the frame to the ranks `to`. */
static void send_to(int fd, const struct fpisa_soft *s, const void *frame, size_t len, uint64_t to)
{
	for (int r = 0; to; r++, to >>= 1) {
		const struct sockaddr_in rank = {.sin_family = AF_INET,
						 .sin_port = s->job.rank[r].port,
						 .sin_addr.s_addr = s->job.rank[r].addr.w[3]};

		if (to & 1)
			sendto(fd, frame, len, 0, (const struct sockaddr *)&rank, sizeof(rank));
	}
}

static void *serve(void *arg)
{
	const int type = (int)(long)arg, fd = bound_socket(type);
	static struct fpisa_soft jobs[FPISA_FLOAT64 + 1];
	struct fpisa_soft *s = &jobs[type];
	_Alignas(8) unsigned char frame[FPISA_SOFT_FRAME];

	init(s, type);
	for (;;) {
		struct fpisa_address at;
		struct sockaddr_in from;
		socklen_t size = sizeof(from);
		ssize_t n = recvfrom(fd, frame, sizeof(frame), 0, (struct sockaddr *)&from, &size);
		size_t len = (size_t)n;
		uint64_t to = 0, bare;

		at = fpisa_ipv4(n > 0 ? from.sin_addr.s_addr : 0);
		if (n > 0)
			fpisa_soft_frame(s, &at, from.sin_port, 0, 0, frame, &len, &to);
		bare = fpisa_soft_bare(s, frame, to);
		send_to(fd, s, frame, len, to & ~bare);
		if (!bare)
			continue;
		fpisa_soft_cut(s, frame, &len);
		send_to(fd, s, frame, len, bare);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 4)
		errx(2, "usage: soft_server PORT RANKS MODE");
	port = atoi(argv[1]);
	ranks = atoi(argv[2]);
	mode = atoi(argv[3]);
	for (long type = FPISA_FLOAT32; type <= FPISA_FLOAT64; type++)
		pthread_create(&thread, NULL, serve, (void *)type);
	pause();
}

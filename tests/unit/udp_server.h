/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An aggregator on loopback for tests of the transport `udp`. A thread runs soft.h behind a UDP socket and causes the
 * faults that the test requests.
 */
#ifndef TESTS_UDP_SERVER_H
#define TESTS_UDP_SERVER_H

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "lib/soft/soft.h"
#include "lab/testbed/frame.h"
#include "workers.h"

#define JOB 7
#ifndef TOKEN
#define TOKEN 0ull /* no token, so handmade frames have checksums */
#endif

#define GSO_FRAMES 64 /* the value of UDP_MAX_SEGMENTS in older kernels */
#define GSO_SIZE 65507

struct gso_batch {
	struct sockaddr_in to;
	size_t frames, size; /* number of frames, all of one size */
	unsigned char data[GSO_SIZE];
};

struct server {
	struct fpisa_soft soft;
	int fd;
	uint16_t port;
	int held[MAX_RANKS]; /* sockets that keep the ranks' ports free for them; -1: the port was given to the rank */
	int stop;
	double loss; /* share of received frames that are lost, in addition to the workers' own losses */
	uint64_t random;
	int corrupt; /* every third reply except WELCOME is sent damaged, then intact */
	int intrude; /* each RESULT is preceded by two copies with a wrong sum, from another port and address */
	int other_port, other_address; /* sockets of the attacker */
	unsigned char *kept; /* the last RESULT by rank, slot and version, to be sent again too late; may be NULL */
	int replies;
	int gso;		 /* results for frames that arrived together are sent as one datagram for each rank */
	double gso_loss;	 /* share of such datagrams that are lost */
	struct gso_batch *batch; /* batch of each rank */
	size_t longest;		 /* maximum number of frames in a datagram, so far */
	uint64_t mute;		 /* first chunk number without RESULT or STATUS; 0: all chunks get answers */
	uint8_t seen[FPISA_TYPE_ADD + 1]; /* by type: a bit for each value of the ECN field, if the socket reports it */
	int wrong_echo;			  /* WELCOMEs answer a HELLO that this worker did not send */
	pthread_t thread;
};

static inline int bound_socket(const char *address, uint16_t *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
	a.sin_port = htons(*port);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static inline void set_checksum(unsigned char *frame, size_t len)
{
	struct fpisa_hdr *h = (struct fpisa_hdr *)frame;
	h->checksum = frame_checksum(h, h + 1, len - sizeof(*h));
}

/* Forge the frame as an attacker would, plausible except for its source. */
static inline void forge(const struct server *s, unsigned char *frame, size_t len, const struct sockaddr_in *to)
{
	frame[len - 1] ^= 0x40;
	set_checksum(frame, len);
	sendto(s->other_port, frame, len, 0, (const struct sockaddr *)to, sizeof(*to));
	sendto(s->other_address, frame, len, 0, (const struct sockaddr *)to, sizeof(*to));
}

/*
 * Send frames of `size` bytes in one datagram. The kernel splits it, or leaves it whole if the receiver accepts merged
 * datagrams.
 */
static inline void send_gso(int fd, const void *data, size_t len, size_t size, const struct sockaddr_in *to)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct iovec part = {(void *)data, len};
	struct msghdr msg = {.msg_name = (void *)to,
			     .msg_namelen = sizeof(*to),
			     .msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	uint16_t segment = (uint16_t)size;

	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	assert_int_equal(sendmsg(fd, &msg, 0), len);
}

static inline void flush_batch(struct server *s, struct gso_batch *b)
{
	if (b->frames && (double)(test_random(&s->random) >> 11) >= s->gso_loss * 0x1p53)
		send_gso(s->fd, b->data, b->frames * b->size, b->size, &b->to);
	s->longest = s->longest > b->frames ? s->longest : b->frames;
	b->frames = 0;
}

static inline void add_to_batch(struct server *s, struct gso_batch *b, const void *frame, size_t len,
				const struct sockaddr_in *to)
{
	if (b->frames == GSO_FRAMES || (b->frames && b->size != len) || (b->frames + 1) * len > GSO_SIZE)
		flush_batch(s, b);
	b->to = *to;
	b->size = len;
	memcpy(b->data + b->frames++ * len, frame, len);
}

/* After the current result, send again the result that this rank got 2W chunks ago. */
static inline void send_late(struct server *s, const unsigned char *frame, size_t len, const struct sockaddr_in *to,
			     int rank)
{
	const struct fpisa_hdr *h = (const void *)frame;
	unsigned char *kept = s->kept + (size_t)(rank * 2 * (int)s->soft.job.window + (int)h->slot) * FPISA_SOFT_FRAME;

	if (((struct fpisa_hdr *)kept)->magic)
		sendto(s->fd, kept, len, 0, (const struct sockaddr *)to, sizeof(*to));
	memcpy(kept, frame, len);
}

static inline void send_reply(struct server *s, const unsigned char *frame, size_t len, const struct sockaddr_in *to,
			      int rank)
{
	_Alignas(8) unsigned char copy[FPISA_SOFT_FRAME];
	int type = ((const struct fpisa_hdr *)frame)->type;

	if (s->gso && type == FPISA_TYPE_RESULT) {
		add_to_batch(s, &s->batch[rank], frame, len, to);
		return;
	}
	if (s->mute && (type == FPISA_TYPE_RESULT || type == FPISA_TYPE_STATUS) &&
	    ((const struct fpisa_hdr *)frame)->chunk >= s->mute)
		return;
	memcpy(copy, frame, len);
	if (s->wrong_echo && type == FPISA_TYPE_WELCOME) {
		((struct fpisa_hdr *)copy)->chunk--;
		set_checksum(copy, len);
		sendto(s->fd, copy, len, 0, (const struct sockaddr *)to, sizeof(*to));
		return;
	}
	if (s->intrude && type == FPISA_TYPE_RESULT) {
		forge(s, copy, len, to);
		memcpy(copy, frame, len);
	}
	if (s->kept && type == FPISA_TYPE_RESULT)
		send_late(s, frame, len, to, rank);
	if (s->corrupt && type != FPISA_TYPE_WELCOME && s->replies++ % 3 == 0) {
		size_t at = test_random(&s->random) % len;

		copy[at] ^= (unsigned char)(1 << test_random(&s->random) % 8);
		sendto(s->fd, copy, len, 0, (const struct sockaddr *)to, sizeof(*to));
		sendto(s->fd, frame, len - 4, 0, (const struct sockaddr *)to, sizeof(*to));
	}
	sendto(s->fd, frame, len, 0, (const struct sockaddr *)to, sizeof(*to));
}

/* Receive a frame, and record its ECN field. Return its length, or -1. */
static inline ssize_t receive(struct server *s, unsigned char *frame, struct sockaddr_in *from)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint8_t))];
	struct iovec part = {frame, FPISA_SOFT_FRAME};
	struct msghdr msg = {.msg_name = from,
			     .msg_namelen = sizeof(*from),
			     .msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(s->fd, &msg, 0);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);
	uint8_t type = ((const struct fpisa_hdr *)frame)->type;

	if (c && c->cmsg_type == IP_TOS && type <= FPISA_TYPE_ADD)
		s->seen[type] |= (uint8_t)(1 << (*CMSG_DATA(c) & 3));
	return n;
}

static inline void *serve(void *arg)
{
	struct server *s = arg;
	_Alignas(8) unsigned char frame[FPISA_SOFT_FRAME];

	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd p = {.fd = s->fd, .events = POLLIN};
		struct fpisa_address at;
		struct sockaddr_in from;
		ssize_t n;
		size_t len;
		uint64_t to;
		enum fpisa_verdict v;

		if (s->gso && poll(&p, 1, 0) <= 0)
			for (uint32_t i = 0; i < s->soft.job.workers; i++)
				flush_batch(s, &s->batch[i]);
		if (poll(&p, 1, 20) <= 0)
			continue;
		n = receive(s, frame, &from);
		if (n < 0 || (double)(test_random(&s->random) >> 11) < s->loss * 0x1p53)
			continue;
		len = (size_t)n;
		at = fpisa_ipv4(from.sin_addr.s_addr);
		v = fpisa_soft_frame(&s->soft, &at, from.sin_port, 0, 0, frame, &len, &to);
		if (v == FPISA_V_result && fpisa_is_address(&s->soft.job.group)) {
			struct sockaddr_in group = {.sin_family = AF_INET,
						    .sin_port = s->soft.job.group_port,
						    .sin_addr.s_addr = s->soft.job.group.w[3]};

			send_reply(s, frame, len, &group, 0);
			continue;
		}
		for (int rank = 0; to; rank++, to >>= 1) {
			struct sockaddr_in worker = {.sin_family = AF_INET,
						     .sin_port = s->soft.job.rank[rank].port,
						     .sin_addr.s_addr = s->soft.job.rank[rank].addr.w[3]};

			if (to & 1)
				send_reply(s, frame, len, &worker, rank);
		}
	}
	return NULL;
}

/* Release the port of a rank that is about to bind it. */
static inline void give_port(struct server *s, uint32_t rank)
{
	if (s->held[rank] >= 0)
		close(s->held[rank]);
	s->held[rank] = -1;
}

/* Start a job whose ranks are loopback ports that no other process has. */
static inline void start_server(struct server *s, const struct plan *p)
{
	int size = 4 << 20;
	uint16_t port = 0;

	s->fd = bound_socket("127.0.0.1", &port);
	assert_true(s->fd >= 0);
	setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	s->port = port;
	port = 0;
	s->other_port = bound_socket("127.0.0.1", &port);
	port = s->port;
	s->other_address = bound_socket("127.0.0.2", &port);
	assert_true(s->other_port >= 0 && s->other_address >= 0);
	s->random = test_seed();
	s->soft.number = JOB;
	if (s->gso)
		s->batch = calloc(p->workers, sizeof(*s->batch));
	s->soft.job = (struct fpisa_job){
		.active = 1,
		.workers = p->workers,
		.live = (1ull << p->workers) - 1,
		.token = TOKEN,
		.address = fpisa_ipv4(htonl(INADDR_LOOPBACK)),
		.elements = (uint16_t)p->elements,
		.window = p->window,
		.format = FPISA_FORMAT_FP32,
		.mode = FPISA_MODE_FPISA,
		.rounding = FPISA_ROUND_DOWN,
		.pipeline = FPISA_PIPELINE_FUSED,
		.clz = FPISA_CLZ_BITS,
		.fanout = FPISA_FANOUT_UNICAST,
	};
	for (uint32_t i = 0; i < p->workers; i++) {
		port = 0;
		s->held[i] = bound_socket("0.0.0.0", &port);
		assert_true(s->held[i] >= 0);
		s->soft.job.rank[i] =
			(struct fpisa_rank){.addr = fpisa_ipv4(htonl(INADDR_LOOPBACK)), .port = htons(port)};
	}
	assert_int_equal(fpisa_soft_init(&s->soft), 0);
}

static inline void run_server(struct server *s)
{
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static inline void pause_server(struct server *s)
{
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
	pthread_join(s->thread, NULL);
	s->stop = 0;
}

static inline void stop_server(struct server *s)
{
	pause_server(s);
	close(s->fd);
	close(s->other_port);
	close(s->other_address);
	for (uint32_t i = 0; i < s->soft.job.workers; i++)
		give_port(s, i);
	fpisa_soft_free(&s->soft);
	free(s->batch);
}

#endif

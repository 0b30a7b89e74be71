// SPDX-License-Identifier: GPL-2.0-only
/*
 * The middlebox between the worker hosts and the aggregator. In each direction it receives every frame of one link on a
 * packet socket, and sends the frame over the other link, with faults. Neither side can detect the middlebox. Frames
 * other than UDP, such as ARP, pass unchanged.
 *
 * The middlebox is also an adversary (doc/protocol.md, section 6). For each HELLO of a worker it forges HELLOs with
 * incarnations that the worker never had. The middlebox sends the forged HELLOs over another host's link.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fpisa/wire.h"
#include "lib/base/clock.h"
#include "soak.h"
#include "lab/testbed/frame.h"

#define ENDS (2 * SOAK_HOSTS)
#define FRAME_MAX 4096
#define PROTO_AT (ETH_HLEN + 9)
#define UDP 17
#define TCP 6
#define IP_LEN 20
#define TCP_CHECKSUM 16

/* One end of a link. Frames that arrive at this end leave at the other end. */
struct end {
	int fd;
	struct fpisa_faults faults;
};

static int open_end(struct end *e, char prefix, uint32_t host)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int one = 1, size = 4 << 20;
	char dev[IF_NAMESIZE];

	snprintf(dev, sizeof(dev), "%c%u", prefix, host);
	at.sll_ifindex = (int)if_nametoindex(dev);
	e->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (e->fd < 0 || setsockopt(e->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(e->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    bind(e->fd, (struct sockaddr *)&at, sizeof(at)))
		return -errno;
	return 0;
}

/* Forge a HELLO of this rank. Only use data of an attacker that can forge any address but has no cookie. */
static void forge_hello(const unsigned char *frame, size_t n, const struct end *other, struct soak_shared *shared)
{
	_Alignas(8) unsigned char copy[FRAME_MAX];
	struct fpisa_hdr *h = (struct fpisa_hdr *)(copy + 8);
	const size_t len = FPISA_HDR_LEN + sizeof(struct fpisa_hello);
	const uint64_t which = shared->forged++;

	memcpy(h, frame + FPISA_OFFSET, len);
	h->aux = which % 4 == 0 ? ~0ull : which % 4 == 1 ? (1ull << 63) - 1 : h->aux + which % 2 * 1000000;
	h->secret = which % 3 ? which * 0x9e3779b97f4a7c15ull : 0;
	h->chunk = ~h->chunk;
	h->checksum = frame_checksum(h, h + 1, sizeof(struct fpisa_hello));
	memmove(copy + FPISA_OFFSET, h, len);
	memcpy(copy, frame, FPISA_OFFSET);
	copy[11] ^= 0x55;
	send(other->fd, copy, n, MSG_DONTWAIT);
}

static bool is_hello(const unsigned char *frame, ssize_t n)
{
	return n == (ssize_t)(FPISA_PAYLOAD_OFFSET + sizeof(struct fpisa_hello)) && frame[FPISA_OFFSET] == 'F' &&
	       frame[FPISA_OFFSET + 1] == 'P' && frame[FPISA_OFFSET + 3] == FPISA_TYPE_HELLO;
}

/* Complete the TCP checksum of a frame from a veth, as a NIC would. */
static void complete_tcp(unsigned char *frame, size_t n)
{
	unsigned char *ip = frame + ETH_HLEN, *tcp = ip + IP_LEN;
	size_t length = (size_t)(ip[2] << 8 | ip[3]);
	uint32_t sum = TCP;

	if (ip[0] != 0x45 || length < IP_LEN + TCP_CHECKSUM + 2 || n < ETH_HLEN + length)
		return;
	length -= IP_LEN;
	tcp[TCP_CHECKSUM] = tcp[TCP_CHECKSUM + 1] = 0;
	sum += (uint32_t)length;
	for (size_t i = 0; i < length; i++)
		sum += (uint32_t)tcp[i] << (i % 2 ? 0 : 8);
	for (size_t i = 12; i < IP_LEN; i++)
		sum += (uint32_t)ip[i] << (i % 2 ? 0 : 8);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	tcp[TCP_CHECKSUM] = (unsigned char)(~sum >> 8);
	tcp[TCP_CHECKSUM + 1] = (unsigned char)~sum;
}

/* Receive frames. `other` is the aggregator's side of another host's link, or NULL if the frames go to workers. */
static void take_in(struct end *e, const struct end *other, struct soak_shared *shared)
{
	unsigned char frame[FRAME_MAX];
	ssize_t n;

	while ((n = recv(e->fd, frame, sizeof(frame), 0)) > 0) {
		struct iovec part = {frame, (size_t)n};
		bool ip = n > PROTO_AT && frame[12] == 8 && !frame[13];

		shared->impair_frames++;
		if (other && ip && is_hello(frame, n))
			forge_hello(frame, (size_t)n, other, shared);
		if (ip && frame[PROTO_AT] == TCP)
			complete_tcp(frame, (size_t)n);
		if (ip && frame[PROTO_AT] == UDP)
			fpisa_faults_put(&e->faults, &part, 1, 0, fpisa_now());
		else
			fpisa_faults_pass(&e->faults, &part, 1, fpisa_now());
	}
}

/* Send the frames that are due. A frame that cannot be sent now, for example because the link is down, is lost. */
static void let_out(struct end *from, const struct end *to)
{
	struct fpisa_frame *frame;

	while ((frame = fpisa_faults_take(&from->faults, fpisa_now()))) {
		ssize_t ignored = send(to->fd, frame->data, frame->len, 0);

		(void)ignored;
		free(frame);
	}
}

static void show_counts(const struct end *ends, struct soak_shared *shared)
{
	uint64_t sum[5] = {0};

	for (int i = 0; i < ENDS; i++) {
		const struct fpisa_faults *f = &ends[i].faults;

		sum[0] += f->dropped;
		sum[1] += f->duplicated;
		sum[2] += f->reordered;
		sum[3] += f->delayed;
		sum[4] += f->corrupted;
	}
	memcpy(shared->impair_faults, sum, sizeof(sum));
}

void soak_impair(void *arg, int control)
{
	const struct soak *s = arg;
	struct pollfd p[ENDS];
	struct end ends[ENDS];
	int err = 0;

	process_close_fds(control);
	for (uint32_t i = 0; !err && i < ENDS; i++) {
		err = open_end(&ends[i], i % 2 ? 'b' : 'a', i / 2);
		fpisa_faults_init(&ends[i].faults, &s->o.rates, s->o.seed * ENDS + i, ETH_HLEN);
		p[i] = (struct pollfd){.fd = ends[i].fd, .events = POLLIN};
	}
	if (!err)
		err = process_drop_privileges(s->parent);
	if (err) {
		fprintf(stderr, "fpisa: soak: cannot start the middlebox: %s\n", strerror(-err));
		_exit(1);
	}
	for (;;) {
		uint64_t due = UINT64_MAX, now = fpisa_now(), wait_ns;
		struct timespec ts;

		for (int i = 0; i < ENDS; i++)
			if (fpisa_faults_due(&ends[i].faults) < due)
				due = fpisa_faults_due(&ends[i].faults);
		wait_ns = due <= now ? 0 : due - now < 100000000 ? due - now : 100000000;
		ts = (struct timespec){.tv_nsec = (long)wait_ns};
		ppoll(p, ENDS, &ts, NULL);
		for (int i = 0; i < ENDS; i++)
			if (p[i].revents)
				take_in(&ends[i], i % 2 ? NULL : &ends[(i + 3) % ENDS], s->shared);
		for (int i = 0; i < ENDS; i++)
			let_out(&ends[i], &ends[i ^ 1]);
		show_counts(ends, s->shared);
	}
}

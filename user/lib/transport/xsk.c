/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Transport `xsk`, which uses AF_XDP on the interface that leads to the aggregator, with zero-copy if the driver
 * supports it. Connecting requires CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN, and an interface without an XDP program. The
 * program and its maps (xsk_program.c) exist as long as the handle. Socket, UMEM and link (xsk_socket.c) belong to an
 * interface, and are closed when the route to the aggregator uses another interface.
 *
 * A UDP transport inside this transport handles the rare cases. It occupies the port, joins the multicast address and
 * sends HELLO, so the kernel also resolves the Ethernet address of the next hop. The UDP transport sends
 * retransmissions, so sums continue when this Ethernet address changes. It also receives results from queues other than
 * the queue of the AF_XDP socket.
 *
 * A frame is built in the UMEM, into which the payload is copied once. A received frame is read in the UMEM, and
 * reply.c copies the result into the array. Other traffic of the interface passes to the kernel.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "lib/base/error.h"
#include "lib/base/fork.h"
#include "lib/base/hello.h"
#include "lib/base/order.h"
#include "nexthop.h"
#include "outer.h"
#include "transport.h"
#include "xsk.h"

#define MIN_RING 64

struct xsk {
	struct fpisa_transport base;
	struct fpisa_transport *udp;
	struct fpisa_xsk_lib lib;
	struct fpisa_address address; /* of the aggregator */
	uint16_t port, local_port;
	struct fpisa_xsk_program program; /* program that redirects replies to the socket */
	struct fpisa_route hop;
	union {
		struct outer v4;
		struct outer6 v6;
	} outer;	    /* headers of every frame, without lengths and port */
	uint32_t fixed_sum; /* sum of words that do not change: of the IPv4 header, or of IPv6's pseudo header */
	struct fpisa_xsk_socket socket; /* AF_XDP socket, which is opened by joined() */
	int other_queues;		/* the UDP transport had results when it was last checked */
};

/* Copy the counters of the inner UDP transport. */
static int from_udp(struct xsk *x, int rc)
{
	x->base.bad += x->udp->bad;
	x->udp->bad = 0;
	x->base.more = x->udp->more;
	if (x->udp->send_error)
		x->base.send_error = x->udp->send_error;
	x->udp->send_error = 0;
	return rc;
}

/* -- sending ------------------------------------------------------------- */

static int is_ipv6(const struct xsk *x)
{
	return fpisa_is_ipv6(&x->address);
}

/* Return the bytes before the FPISA header. */
static uint32_t headers(const struct xsk *x)
{
	return is_ipv6(x) ? FPISA_OFFSET6 : FPISA_OFFSET;
}

static uint16_t checksum(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Return the sum of the 16-bit words of `n` bytes. Every frame of a job is a multiple of 4 bytes long. */
static uint64_t sum_of(const unsigned char *p, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0, word; i < n; i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		sum += word;
	}
	return sum;
}

/* Write the headers before a FPISA frame, which makes the frame `len` bytes long. */
static void write_ipv4(const struct xsk *x, unsigned char *frame, uint16_t port, uint32_t len)
{
	struct outer *h = (struct outer *)frame;

	*h = x->outer.v4;
	h->destination_port = port;
	h->length = htons((uint16_t)(len - FPISA_ETH_LEN));
	h->udp_length = htons((uint16_t)(len - FPISA_ETH_LEN - FPISA_IP_LEN));
	h->checksum = checksum((uint64_t)x->fixed_sum + h->length);
}

static void write_ipv6(const struct xsk *x, unsigned char *frame, uint16_t port, uint32_t len)
{
	struct outer6 *h = (struct outer6 *)frame;

	*h = x->outer.v6;
	h->destination_port = port;
	h->length = h->udp_length = htons((uint16_t)(len - FPISA_ETH_LEN - FPISA_IPV6_LEN));
	len -= FPISA_ETH_LEN + FPISA_IPV6_LEN;
	/* 0 would mean that there is no checksum, which IPv6 forbids. */
	h->udp_checksum =
		checksum(x->fixed_sum + h->udp_length + sum_of((unsigned char *)&h->source_port, len)) ?: 0xffff;
}

/* Build a frame and return its length. */
static uint32_t build(const struct xsk *x, unsigned char *frame, const struct fpisa_out *out)
{
	const uint16_t port = htons((uint16_t)(x->port + out->port));
	uint32_t len = headers(x);

	for (int i = 0; i < out->parts; i++) {
		memcpy(frame + len, out->part[i].iov_base, out->part[i].iov_len);
		len += (uint32_t)out->part[i].iov_len;
	}
	(is_ipv6(x) ? write_ipv6 : write_ipv4)(x, frame, port, len);
	return len;
}

static size_t datagram_size(const struct xsk *x, const struct fpisa_out *out)
{
	size_t size = headers(x) - FPISA_ETH_LEN;

	for (int i = 0; i < out->parts; i++)
		size += out->part[i].iov_len;
	return size;
}

/*
 * Return the pending error of the interface. The kernel reports a missing interface once, to the first caller that
 * asks. poll() never reports this error, so a thread that sleeps in poll() would wait for frames that never arrive. So
 * check for the error before frames are sent again.
 */
static int interface_error(const struct xsk *x)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(fpisa_xsk_socket_fd(&x->socket), SOL_SOCKET, SO_ERROR, &error, &len))
		return -errno;
	return error == ENETDOWN ? -ENETDOWN : 0;
}

static int xsk_send(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	struct xsk *x = (struct xsk *)t;
	int queued = 0, rc = 0;

	if (!fpisa_xsk_socket_is_open(&x->socket))
		return from_udp(x, x->udp->ops->send(x->udp, out, n));
	fpisa_xsk_socket_reap(&x->socket);
	for (int i = 0; i < n && !rc; i++) {
		struct xdp_desc *d;

		/* Send HELLO and retransmissions by UDP. */
		if (out[i].no_gso) {
			rc = interface_error(x);
			if (!rc)
				rc = from_udp(x, x->udp->ops->send(x->udp, &out[i], 1));
			continue;
		}
		/*
		 * Submit the frames that have been reserved so far, because the ring would otherwise never submit them.
		 */
		if (datagram_size(x, &out[i]) > x->hop.mtu) {
			rc = -EMSGSIZE;
			continue;
		}
		d = fpisa_xsk_socket_reserve(&x->socket);
		if (!d) {
			t->send_error = ENOBUFS;
			continue;
		}
		d->len = build(x, fpisa_xsk_socket_data(&x->socket, d), &out[i]);
		queued++;
	}
	fpisa_xsk_socket_submit(&x->socket, (uint32_t)queued);
	return rc ? rc : queued ? fpisa_xsk_socket_kick(&x->socket, &t->send_error) : 0;
}

/* -- receiving ------------------------------------------------------------ */

static void take_addresses(const struct xsk *x, const unsigned char *frame, struct fpisa_address *from,
			   struct fpisa_address *to)
{
	const struct outer6 *v6 = (const struct outer6 *)frame;
	const struct outer *v4 = (const struct outer *)frame;

	if (is_ipv6(x)) {
		memcpy(from, v6->source, sizeof(*from));
		memcpy(to, v6->destination, sizeof(*to));
		return;
	}
	*from = fpisa_ipv4(fpisa_be32(v4->source));
	*to = fpisa_ipv4(fpisa_be32(v4->destination));
}

/* Return the tos byte, or the traffic class. */
static uint8_t class_of(const struct xsk *x, const unsigned char *frame)
{
	const struct outer6 *v6 = (const struct outer6 *)frame;

	return is_ipv6(x) ? (uint8_t)(ntohl(v6->class) >> 20) : ((const struct outer *)frame)->tos;
}

/* Find the FPISA frame in a received frame. The XDP program has checked that the frame is for this handle. */
static int unwrap(struct xsk *x, unsigned char *frame, uint32_t len, struct fpisa_in *in)
{
	const struct fpisa_xsk_filter *ours = x->program.ours;
	const uint32_t before = headers(x);
	struct fpisa_address from, to;
	uint16_t length;
	uint32_t size;

	if (len < before)
		return 0;
	take_addresses(x, frame, &from, &to);
	if (!fpisa_same_address(&from, &ours->source) ||
	    (!fpisa_same_address(&to, &ours->destination) && !fpisa_same_address(&to, &ours->group)))
		return 0;
	memcpy(&length, frame + before - 4, sizeof(length));
	size = ntohs(length);
	if (size < FPISA_UDP_LEN || size - FPISA_UDP_LEN > len - before)
		return 0;
	in->len = size - FPISA_UDP_LEN;
	in->data = frame + before;
	in->marked = FPISA_IS_CE(class_of(x, frame));
	/* Move the frame to an aligned address if the driver has a different headroom, or after an IPv6 header. */
	if ((uintptr_t)in->data % 8)
		in->data = memmove(frame - (uintptr_t)in->data % 8 + before, in->data, in->len);
	return 1;
}

static int take(struct xsk *x, struct fpisa_in *in)
{
	struct fpisa_xsk_frame frame[FPISA_BATCH];
	uint32_t n = fpisa_xsk_socket_take(&x->socket, frame);
	int good = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (unwrap(x, frame[i].data, frame[i].len, &in[good]))
			good++;
		else
			x->base.bad++;
	}
	return good;
}

/* Take the frames that arrived at other queues, which the kernel has passed to UDP. */
static int take_udp(struct xsk *x, struct fpisa_in *in, int most)
{
	int n;

	if (!most)
		return 0;
	n = from_udp(x, fpisa_udp_take(x->udp, in, most));
	x->other_queues = n > 0;
	return n;
}

#define BELOW 2u /* bit of the second descriptor, which is that of the UDP transport */

static int xsk_fds(struct fpisa_transport *t, int *fd)
{
	struct xsk *x = (struct xsk *)t;

	if (!fpisa_xsk_socket_is_open(&x->socket))
		return x->udp->ops->fds(x->udp, fd);
	fd[0] = fpisa_xsk_socket_fd(&x->socket);
	fd[1] = fpisa_udp_fd(x->udp);
	return 2;
}

static int xsk_receive(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns)
{
	struct xsk *x = (struct xsk *)t;
	struct timespec ts = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
	struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
	int n, more, rc, fd[2];

	if (!fpisa_xsk_socket_is_open(&x->socket))
		return from_udp(x, x->udp->ops->receive(x->udp, in, timeout_ns));
	rc = fpisa_xsk_socket_return(&x->socket);
	if (rc)
		return rc;
	n = take(x, in);
	/* Do not call take_udp() in every turn, because an unnecessary call takes as long as several frames. */
	if (x->other_queues || (!x->socket.lent_n && !timeout_ns && !(t->quiet & BELOW))) {
		more = take_udp(x, in + n, FPISA_BATCH - n);
		if (more < 0)
			return more;
		n += more;
	}
	if (n || x->socket.lent_n || !timeout_ns)
		return n;
	xsk_fds(t, fd);
	p[0].fd = fd[0];
	p[1].fd = fd[1];
	n = ppoll(p, 2, &ts, NULL);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	n = p[0].revents ? take(x, in) : 0;
	if (!p[1].revents)
		return n;
	more = take_udp(x, in + n, FPISA_BATCH - n);
	return more < 0 ? more : n + more;
}

/* -- setting up ------------------------------------------------------------ */

static void fill_ipv6(struct xsk *x)
{
	struct outer6 *h = &x->outer.v6;

	*h = (struct outer6){
		.type = htons(0x86dd),
		.class = htonl(6u << 28 | FPISA_ECT0 << 20 |
			       fpisa_flow_label(&x->hop.source, &x->address, fpisa_be16(htons(x->port)))),
		.next = IPPROTO_UDP,
		.hop_limit = 64,
		.source_port = htons(x->local_port),
	};
	memcpy(h->to, x->hop.to, sizeof(h->to));
	memcpy(h->from, x->hop.from, sizeof(h->from));
	memcpy(h->source, &x->hop.source, sizeof(h->source));
	memcpy(h->destination, &x->address, sizeof(h->destination));
	x->fixed_sum = (uint32_t)(uint16_t)~checksum(sum_of(h->source, 2 * sizeof(h->source))) + htons(IPPROTO_UDP);
}

static void fill_ipv4(struct xsk *x)
{
	x->outer.v4 = (struct outer){
		.type = htons(0x0800),
		.version = 0x45,
		.tos = FPISA_ECT0,
		.fragment = htons(0x4000), /* flag "don't fragment" */
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.source = fpisa_in_addr(x->hop.source.w[3]),
		.destination = fpisa_in_addr(x->address.w[3]),
		.source_port = htons(x->local_port),
	};
	memcpy(x->outer.v4.to, x->hop.to, sizeof(x->hop.to));
	memcpy(x->outer.v4.from, x->hop.from, sizeof(x->hop.from));
	x->fixed_sum = (uint16_t)~checksum(sum_of(&x->outer.v4.version, FPISA_IP_LEN));
}

static const char *advice(int error)
{
	switch (error) {
	case -EPERM:
	case -EACCES:
		return "run as root, or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; transport udp needs no privileges";
	case -EBUSY:
	case -EEXIST:
		return "the interface's first queue has an AF_XDP socket, or the interface has an XDP program; is another worker running?";
	case -ENOBUFS:
		return "frames need 16 KB of locked memory for each slot of the job's window: raise ulimit -l, or grant CAP_IPC_LOCK";
	}
	return "try transport udp";
}

/*
 * Set the message that xsk is not available, because of missing privilege or another reason that is known before a
 * HELLO.
 */
static int refused(int error)
{
	return fpisa_fail(error, "transport xsk: %s; %s", strerror(-error), advice(error));
}

/*
 * If the route uses another interface now, check that a socket can be opened there, because a socket cannot change its
 * interface and a new socket needs privilege. Check this before HELLO, because the other ranks would wait in the new
 * generation.
 */
static int xsk_may_join(struct fpisa_transport *t)
{
	struct xsk *x = (struct xsk *)t;
	struct fpisa_route hop;
	int fd, rc;

	if (fpisa_xsk_socket_is_open(&x->socket)) {
		/* Clear and ignore the error of an interface that no longer exists. */
		interface_error(x);
		rc = fpisa_nexthop(&hop, &x->address);
		/* If there is no route, joined() will report it. */
		if ((rc && rc != -EAGAIN) || hop.ifindex == x->hop.ifindex)
			return 0;
	}
	fpisa_fork_hold();
	fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	rc = fd < 0 ? -errno : close(fd);
	fpisa_fork_release();
	return rc ? refused(rc) : 0;
}

static int xsk_joined(struct fpisa_transport *t, const struct fpisa_hello *hello)
{
	struct xsk *x = (struct xsk *)t;
	const struct fpisa_address group = fpisa_hello_group(hello, is_ipv6(x));
	struct fpisa_route hop;
	int stays, rc = x->udp->ops->joined(x->udp, hello);
	uint32_t size;

	if (rc < 0)
		return rc;
	rc = fpisa_nexthop(&hop, &x->address);
	if (rc)
		return fpisa_fail(rc, "transport xsk: cannot find a route to the aggregator: %s; try transport udp",
				  strerror(-rc));
	stays = fpisa_xsk_socket_is_open(&x->socket) && hop.ifindex == x->hop.ifindex;
	x->hop = hop;
	(is_ipv6(x) ? fill_ipv6 : fill_ipv4)(x);
	*x->program.ours = (struct fpisa_xsk_filter){
		.source = hello->address ? fpisa_ipv4(hello->address) : x->address,
		.destination = hop.source,
		.group = fpisa_is_address(&group) ? group : hop.source,
		.from = htons(x->port),
		.to = htons(x->local_port),
	};
	/* Keep the socket for further generations, even with its current size for a larger window. */
	if (stays)
		return (int)(x->socket.size / 2);
	fpisa_fork_hold();
	fpisa_xsk_socket_close(&x->socket);
	fpisa_fork_release();
	for (size = MIN_RING; size < 2 * hello->window; size *= 2)
		;
	rc = fpisa_xsk_socket_open(&x->socket, &x->program, hop.dev, hop.ifindex, size);
	if (rc)
		return fpisa_fail(rc, "transport xsk: %s: %s; %s", x->hop.dev, strerror(-rc), advice(rc));
	return (int)(size / 2);
}

static unsigned int xsk_path_mtu(const struct fpisa_transport *t, unsigned int *headers)
{
	return fpisa_transport_path_mtu(((const struct xsk *)t)->udp, headers);
}

static uint64_t xsk_drops(struct fpisa_transport *t)
{
	struct xsk *x = (struct xsk *)t;
	struct xdp_statistics s = {0};
	socklen_t len = sizeof(s);

	if (fpisa_xsk_socket_is_open(&x->socket) &&
	    getsockopt(fpisa_xsk_socket_fd(&x->socket), SOL_XDP, XDP_STATISTICS, &s, &len))
		s = (struct xdp_statistics){0};
	return s.rx_dropped + s.rx_ring_full + x->udp->ops->drops(x->udp);
}

/*
 * Close socket and program as in the parent, because this does not affect the parent's mappings. Disown only the UDP
 * transport.
 */
static void xsk_disown(struct fpisa_transport *t)
{
	struct xsk *x = (struct xsk *)t;

	fpisa_xsk_socket_close(&x->socket);
	fpisa_xsk_program_close(&x->program);
	if (x->udp)
		x->udp->ops->disown(x->udp);
}

static void xsk_close(struct fpisa_transport *t)
{
	struct xsk *x = (struct xsk *)t;

	fpisa_xsk_socket_close(&x->socket);
	fpisa_xsk_program_close(&x->program);
	if (x->udp)
		x->udp->ops->close(x->udp);
	free(x);
}

static const struct fpisa_transport_ops xsk_ops = {
	.send = xsk_send,
	.receive = xsk_receive,
	.may_join = xsk_may_join,
	.joined = xsk_joined,
	.fds = xsk_fds,
	.drops = xsk_drops,
	.path_mtu = xsk_path_mtu,
	.disown = xsk_disown,
	.close = xsk_close,
};

int fpisa_xsk_open(struct fpisa_transport **t, const struct fpisa_address *address, uint16_t port, uint16_t local_port)
{
	struct xsk *x = calloc(1, sizeof(*x));
	int rc = -ENOMEM;

	*t = NULL;
	if (!x)
		return fpisa_fail(rc, "not enough memory for a socket; " FPISA_MORE_MEMORY);
	x->base.ops = &xsk_ops;
	x->program = FPISA_XSK_NO_PROGRAM;
	x->socket = FPISA_XSK_NO_SOCKET(&x->lib);
	x->address = *address;
	x->port = port;
	x->local_port = local_port;
	rc = fpisa_xsk_libraries(&x->lib);
	if (!rc) {
		rc = fpisa_xsk_program_load(&x->program, &x->lib, is_ipv6(x));
		if (rc)
			refused(rc);
	}
	if (!rc)
		rc = fpisa_udp_open(&x->udp, address, port, local_port);
	if (rc)
		xsk_close(&x->base);
	else
		*t = &x->base;
	return rc;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Transport `udp`, which uses one unconnected socket, and sends and receives batches by sendmmsg() and recvmmsg(). The
 * transport needs no privilege.
 *
 * Frames of the same size are sent in GSO batches (UDP_SEGMENT), which the kernel or the network card segments. A
 * virtual link may not segment a batch, and generic XDP at the other end then receives the batch as one frame. So
 * batches are sent only if HELLOs in a batch have arrived. The kernel may merge received frames (datagrams.h).
 *
 * The socket is unconnected, and not bound to an address, because results may also have a multicast address. A socket
 * that is connected or bound to its address would not receive such results. So this file compares the source of each
 * datagram.
 *
 * The sockets of a handle with several aggregators share one port (SO_REUSEPORT). A filter passes the datagrams of each
 * aggregator to its socket, or to the first of its sockets if the handle has several jobs there, because the kernel may
 * merge datagrams of these jobs. Each socket joins the multicast address of the results only for this source.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "datagrams.h"
#include "fpisa/wire.h"
#include "lib/base/address.h"
#include "lib/base/error.h"
#include "lib/base/hello.h"
#include "lib/base/shards.h"
#include "nexthop.h"
#include "transport.h"

/*
 * Size of a frame in the receive buffer as the kernel counts it. The size is a page and the metadata of a packet for
 * any length of the frame.
 */
#define FRAME_TRUESIZE (4096 + 768)

struct udp {
	struct fpisa_transport base;
	int fd;
	int no_segment; /* UDP_SEGMENT is not supported, by an old kernel or by a device without checksum offload */
	union fpisa_sockaddr to;
	struct fpisa_address source; /* source of the replies */
	struct fpisa_membership {
		struct fpisa_address group; /* multicast address that the socket has joined; :: if none */
		struct in_addr local;	    /* our source address towards the aggregator, over IPv4 */
		unsigned int ifindex;
	} member;
	struct udp *first,
		/*
		 * list of the sockets that share a port, in the order of bind(); `first` is NULL if the port is not
		 * shared
		 */
		*behind;
	struct fpisa_datagrams datagrams;
};

/* Return whether the error is temporary, so that only the frame is lost. */
static int is_loss(int error)
{
	switch (error) {
	case EINTR:
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	case EPERM:
	case EACCES:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ECONNREFUSED:
		return 1;
	}
	return 0;
}

/* Largest size of a datagram. */
#define GSO_SIZE 65507
#define GSO_PARTS (FPISA_BATCH * (int)(sizeof(((struct fpisa_out *)0)->part) / sizeof(struct iovec)))

static size_t frame_size(const struct fpisa_out *out)
{
	size_t size = 0;

	for (int i = 0; i < out->parts; i++)
		size += out->part[i].iov_len;
	return size;
}

static uint16_t port_of(const struct udp *u)
{
	return fpisa_sockaddr_port(&u->to);
}

static int is_ipv6(const struct udp *u)
{
	return u->to.any.sa_family == AF_INET6;
}

static union fpisa_sockaddr destination(const struct udp *u, const struct fpisa_out *out)
{
	union fpisa_sockaddr to = u->to;

	to.v4.sin_port = htons((uint16_t)(port_of(u) + out->port));
	return to;
}

/* Return whether the frame can be in the batch that begins with `first`, apart from its size. */
static int fits_in(const struct fpisa_out *first, const struct fpisa_out *out)
{
	return !out->no_gso && out->port == first->port;
}

/*
 * Return how many of the n frames can be sent as a batch. The frames of a batch go to the same port and have the same
 * size, except that the last frame may be shorter.
 */
static int gso_length(const struct udp *u, const struct fpisa_out *out, int n)
{
	size_t size = frame_size(out), total = 0, next;
	int k = 0;

	if (!u->base.gso || u->no_segment)
		return 1;
	for (next = size; k < n && fits_in(out, &out[k]) && next == size && total + next <= GSO_SIZE; k++) {
		total += next;
		next = k + 1 < n ? frame_size(&out[k + 1]) : 0;
	}
	if (k && k < n && fits_in(out, &out[k]) && next < size && total + next <= GSO_SIZE)
		k++;
	return k ? k : 1;
}

/* Send k frames as a GSO batch. Return 0 if the kernel accepted the batch, else a negative errno. */
static int send_gso(struct udp *u, const struct fpisa_out *out, int k)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	union fpisa_sockaddr to = destination(u, out);
	struct iovec part[GSO_PARTS];
	struct msghdr msg = {
		.msg_name = &to,
		.msg_namelen = fpisa_sockaddr_len(&to),
		.msg_iov = part,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	uint16_t size = (uint16_t)frame_size(out);

	for (int i = 0; i < k; i++)
		for (int j = 0; j < out[i].parts; j++)
			part[msg.msg_iovlen++] = out[i].part[j];
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	return sendmsg(u->fd, &msg, 0) < 0 ? -errno : 0;
}

/* Send n frames one by one. If an error is temporary (is_loss()), only the frame is lost. */
static int send_frames(struct udp *u, const struct fpisa_out *out, int n)
{
	union fpisa_sockaddr to[FPISA_BATCH];
	struct mmsghdr msg[FPISA_BATCH];
	int sent = 0, rc;

	for (int i = 0; i < n; i++) {
		to[i] = destination(u, &out[i]);
		msg[i].msg_hdr = (struct msghdr){
			.msg_name = &to[i],
			.msg_namelen = fpisa_sockaddr_len(&to[i]),
			.msg_iov = (struct iovec *)out[i].part,
			.msg_iovlen = (size_t)out[i].parts,
		};
	}
	while (sent < n) {
		rc = sendmmsg(u->fd, msg + sent, (unsigned int)(n - sent), 0);
		if (rc > 0) {
			sent += rc;
			continue;
		}
		/* A blackhole route gives EINVAL, for which send_gso() has other causes. */
		if (!is_loss(errno) && errno != EINVAL)
			return -errno;
		if (errno != EINTR) {
			u->base.send_error = errno;
			sent++;
		}
	}
	return 0;
}

static int udp_send(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	struct udp *u = (struct udp *)t;
	int k, rc = 0;

	for (; n && !rc; out += k, n -= k) {
		k = gso_length(u, out, n);
		if (k > 1) {
			int error = -send_gso(u, out, k);

			if (!error)
				continue;
			if (is_loss(error)) {
				t->send_error = error;
				continue;
			}
			u->no_segment = 1;
		}
		for (k = 1; k < n && gso_length(u, out + k, n - k) == 1; k++)
			;
		rc = send_frames(u, out, k);
	}
	return rc;
}

static int wait_readable(int fd, uint64_t timeout_ns)
{
	struct timespec ts = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int rc = ppoll(&p, 1, &ts, NULL);

	return rc < 0 && errno != EINTR ? -errno : rc > 0;
}

int fpisa_udp_take(struct fpisa_transport *t, struct fpisa_in *in, int most)
{
	struct udp *u = (struct udp *)t;
	const union fpisa_sockaddr source = fpisa_sockaddr_of(&u->source, port_of(u));
	int n = 0, looked = !fpisa_datagrams_left(&u->datagrams);

	if (looked)
		n = fpisa_datagrams_look(&u->datagrams, u->fd, most);
	/* If this call only returned remaining frames, other frames may have arrived. */
	t->more = !looked || n == most;
	if (n < 0)
		return is_loss(-n) ? 0 : n;
	n = fpisa_datagrams_frames(&u->datagrams, in, most, &source, &t->bad);
	t->more |= fpisa_datagrams_left(&u->datagrams);
	return n;
}

static int udp_receive(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns)
{
	int n = fpisa_udp_take(t, in, FPISA_BATCH);

	if (n || !timeout_ns)
		return n;
	n = wait_readable(fpisa_udp_fd(t), timeout_ns);
	return n > 0 ? fpisa_udp_take(t, in, FPISA_BATCH) : n;
}

/*
 * Find the local IPv4 address on the route to the aggregator, or INADDR_ANY if there is no route yet. Return 0, or a
 * negative errno.
 */
static int local_address(const union fpisa_sockaddr *to, struct in_addr *address)
{
	struct sockaddr_in local = {.sin_family = AF_INET};
	socklen_t len = sizeof(local);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, &to->any, fpisa_sockaddr_len(to)) || getsockname(fd, (struct sockaddr *)&local, &len))
		local.sin_addr.s_addr = htonl(INADDR_ANY);
	close(fd);
	*address = local.sin_addr;
	return 0;
}

/* Join `m`. With several aggregators, join only for the source of this aggregator. */
static int add_source(const struct udp *u, const struct fpisa_membership *m)
{
	const struct ip_mreq_source from = {.imr_multiaddr.s_addr = fpisa_in_addr(m->group.w[3]),
					    .imr_interface = m->local,
					    .imr_sourceaddr.s_addr = fpisa_in_addr(u->source.w[3])};
	struct group_source_req from6 = {.gsr_interface = m->ifindex};
	const union fpisa_sockaddr group = fpisa_sockaddr_of(&m->group, 0), source = fpisa_sockaddr_of(&u->source, 0);

	if (!is_ipv6(u))
		return setsockopt(u->fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &from, sizeof(from));
	memcpy(&from6.gsr_group, &group, sizeof(group));
	memcpy(&from6.gsr_source, &source, sizeof(source));
	return setsockopt(u->fd, IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP, &from6, sizeof(from6));
}

/* Join or leave `m`, without regard to sources. Leaving ends a membership for a source too. */
static int change_membership(const struct udp *u, const struct fpisa_membership *m, int join)
{
	const struct ip_mreqn v4 = {.imr_multiaddr.s_addr = fpisa_in_addr(m->group.w[3]),
				    .imr_address = m->local,
				    .imr_ifindex = (int)m->ifindex};
	struct ipv6_mreq v6 = {.ipv6mr_interface = m->ifindex};

	if (!is_ipv6(u))
		return setsockopt(u->fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &v4, sizeof(v4));
	memcpy(&v6.ipv6mr_multiaddr, &m->group, sizeof(v6.ipv6mr_multiaddr));
	return setsockopt(u->fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &v6, sizeof(v6));
}

static int add_membership(const struct udp *u, const struct fpisa_membership *m)
{
	return u->first ? add_source(u, m) : change_membership(u, m, 1);
}

/*
 * Join the multicast address `group`, :: for none, on the interface that leads to the aggregator, or else on the
 * kernel's default. If the address or the interface has changed since the last join, leave the old multicast address.
 */
static int join_group(struct udp *u, const struct fpisa_address *group)
{
	const struct fpisa_address aggregator = fpisa_address_from(&u->to);
	const int given = fpisa_is_address(group);
	struct fpisa_membership m;
	struct fpisa_route hop = {.ifindex = 0};
	int rc = 0;

	memset(&m, 0, sizeof(m));
	m.group = *group;
	if (given && !is_ipv6(u))
		rc = local_address(&u->to, &m.local);
	if (rc)
		return rc;
	if (given)
		fpisa_nexthop(&hop, &aggregator);
	/* If the route names no interface, the kernel selects one by the multicast address alone. */
	m.ifindex = hop.ifindex;
	if (!memcmp(&m, &u->member, sizeof(m)))
		return 0;
	if (fpisa_is_address(&u->member.group))
		change_membership(u, &u->member, 0);
	memset(&u->member, 0, sizeof(u->member));
	if (given && add_membership(u, &m)) {
		m.local.s_addr = htonl(INADDR_ANY);
		m.ifindex = 0;
		if (add_membership(u, &m))
			return -errno;
	}
	u->member = m;
	return 0;
}

/*
 * Offsets from the IP header on. The header has no options or extension headers, because the datapath of the aggregator
 * writes none.
 */
#define SOURCE_ADDRESS 12
#define SOURCE_ADDRESS6 8
#define SOURCE_PORT FPISA_IP_LEN
#define SOURCE_PORT6 FPISA_IPV6_LEN

#define WORDS_OF_ADDRESS 4 /* at most */

/* Write the instructions that return `place` for a datagram from the aggregator of `u`. Return their number. */
static unsigned short select_source(const struct udp *u, uint32_t place, struct sock_filter *code)
{
	const int v6 = is_ipv6(u), words = v6 ? WORDS_OF_ADDRESS : 1;
	const uint32_t address = v6 ? SOURCE_ADDRESS6 : SOURCE_ADDRESS;
	unsigned short n = 0, end = (unsigned short)(2 * words + 3);

	for (int i = 0; i < words; i++) {
		uint32_t word = ntohl(fpisa_in_addr(u->source.w[v6 ? i : 3]));

		code[n++] =
			(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_NET_OFF + address + 4 * (uint32_t)i);
		code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, 0, (uint8_t)(end - n - 1));
		n++;
	}
	code[n++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, SKF_NET_OFF + (v6 ? SOURCE_PORT6 : SOURCE_PORT));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port_of(u), 0, 1);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, place);
	return n;
}

/*
 * Attach the filter that selects the socket for each datagram by the datagram's source. The filter returns the index of
 * the socket in the order of bind().
 */
static int share_out(const struct udp *first)
{
	struct sock_filter code[(2 * WORDS_OF_ADDRESS + 3) * FPISA_MAX_SHARDS + 1];
	struct sock_fprog program = {.filter = code};
	unsigned short n = 0;
	uint32_t place = 0;

	for (const struct udp *u = first; u; u = u->behind)
		n = (unsigned short)(n + select_source(u, place++, code + n));
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	program.len = n;
	return setsockopt(first->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) ? -errno : 0;
}

/* Set the bits of ECN in frames to the aggregator. */
static int set_class(const struct udp *u, int class)
{
	return is_ipv6(u) ? setsockopt(u->fd, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof(class)) :
			    setsockopt(u->fd, IPPROTO_IP, IP_TOS, &class, sizeof(class));
}

static int is_same_source(const struct udp *a, const struct udp *b)
{
	return fpisa_same_address(&a->source, &b->source) && port_of(a) == port_of(b);
}

/* Return the first socket of the aggregator, which gets the unicast datagrams of all. Set *n to their number. */
static const struct udp *first_of_source(const struct udp *u, int *n)
{
	const struct udp *first = NULL;

	*n = 0;
	for (const struct udp *k = u->first; k; k = k->behind) {
		if (!is_same_source(k, u))
			continue;
		first = first ? first : k;
		++*n;
	}
	*n = first ? *n : 1;
	return first ? first : u;
}

/*
 * Enlarge the receive buffer of a socket for the results of `n` jobs with this window. Return the number of frames that the
 * buffer has for each job, or -1 with errno set.
 */
static int set_buffer(int fd, uint32_t window, int n)
{
	int want = (int)(window * 2 * FRAME_TRUESIZE) * n, have = 0;
	socklen_t len = sizeof(have);

	/* The kernel doubles the given size, and accounts the memory of frames by truesize. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &want, sizeof(want)) &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &want, sizeof(want)))
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &have, &len))
		return -1;
	/* The kernel may release up to a quarter of the buffer late (udp_rmem_release()). */
	have = have / 4 * 3 / FRAME_TRUESIZE / n;
	return have > 1 ? have : 1;
}

static int udp_joined(struct fpisa_transport *t, const struct fpisa_hello *hello)
{
	struct udp *u = (struct udp *)t;
	const struct fpisa_address group = fpisa_hello_group(hello, is_ipv6(u));
	const struct udp *first;
	int rc, n;

	/* If a router translates the aggregator's address (DNAT), unicast replies come from the address that HELLO went to. */
	if (hello->address && fpisa_is_address(&group))
		u->source = fpisa_ipv4(hello->address);
	rc = u->first ? share_out(u->first) : 0;
	if (rc)
		return fpisa_fail(rc, "cannot distribute the frames of one UDP port to its sockets: %s", fpisa_why(rc));
	rc = join_group(u, &group);
	if (rc)
		return fpisa_fail(rc, "cannot join the multicast address of the results: %s; %s", strerror(-rc),
				  fpisa_hint(rc, "check the route to the aggregator"));
	if (set_class(u, hello->elements ? FPISA_ECT0 : 0))
		return fpisa_fail(-errno, "cannot set the options of the UDP socket: %s", fpisa_why(-errno));
	first = first_of_source(u, &n);
	rc = set_buffer(first->fd, hello->window, n);
	if (rc > 0 && first != u)
		rc = set_buffer(u->fd, hello->window, n);
	return rc > 0 ? rc :
			fpisa_fail(-errno, "cannot set the receive buffer of the UDP socket: %s", fpisa_why(-errno));
}

static int udp_fds(struct fpisa_transport *t, int *fd)
{
	*fd = fpisa_udp_fd(t);
	return 1;
}

static uint64_t drops_of(const struct udp *u)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	return getsockopt(u->fd, SOL_SOCKET, SO_MEMINFO, info, &len) ? 0 : info[SK_MEMINFO_DROPS];
}

static uint64_t udp_drops(struct fpisa_transport *t)
{
	const struct udp *u = (const struct udp *)t, *first;
	int n;

	first = first_of_source(u, &n);
	return drops_of(u) + (first != u ? drops_of(first) : 0);
}

static unsigned int udp_path_mtu(const struct fpisa_transport *t, unsigned int *headers)
{
	const struct udp *u = (const struct udp *)t;
	const int v6 = is_ipv6(u), fd = socket(u->to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(int);
	int mtu = 0;

	*headers = (v6 ? FPISA_IPV6_LEN : FPISA_IP_LEN) + FPISA_UDP_LEN;
	if (fd < 0)
		return 0;
	if (connect(fd, &u->to.any, fpisa_sockaddr_len(&u->to)) ||
	    getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &len))
		mtu = 0;
	close(fd);
	return (unsigned int)mtu;
}

static void udp_disown(struct fpisa_transport *t)
{
	struct udp *u = (struct udp *)t;

	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

static void udp_close(struct fpisa_transport *t)
{
	struct udp *u = (struct udp *)t;

	udp_disown(t);
	fpisa_datagrams_free(&u->datagrams);
	free(u);
}

static const struct fpisa_transport_ops udp_ops = {
	.send = udp_send,
	.receive = udp_receive,
	.joined = udp_joined,
	.fds = udp_fds,
	.drops = udp_drops,
	.path_mtu = udp_path_mtu,
	.disown = udp_disown,
	.close = udp_close,
};

int fpisa_udp_fd(const struct fpisa_transport *t)
{
	return ((const struct udp *)t)->fd;
}

void fpisa_udp_redirect(struct fpisa_transport *t, uint16_t port)
{
	((struct udp *)t)->to.v4.sin_port = htons(port);
}

/*
 * Return whether `to` is a broadcast address by the routes of this host, so that connect() needs SO_BROADCAST. EACCES
 * alone is not sufficient, because a prohibited route gives EACCES too.
 */
static int is_broadcast(const union fpisa_sockaddr *to)
{
	int fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, is;

	if (fd < 0)
		return 0;
	is = to->any.sa_family == AF_INET && connect(fd, &to->any, sizeof(to->v4)) && errno == EACCES &&
	     !setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) && !connect(fd, &to->any, sizeof(to->v4));
	close(fd);
	return is;
}

/*
 * Set the options of the IP layer. Do not fragment frames, because the aggregator does not accept fragments. Use only the
 * MTU of the interface, because any host could reduce the path MTU by one ICMP message. Do not receive multicast addresses
 * that only other sockets of this host have joined.
 */
static int set_options(const struct udp *u)
{
	int on = 1, off = 0, dont_fragment = IP_PMTUDISC_PROBE, dont_fragment6 = IPV6_PMTUDISC_PROBE;

	if (is_ipv6(u))
		return setsockopt(u->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) ||
		       setsockopt(u->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &dont_fragment6, sizeof(dont_fragment6)) ||
		       setsockopt(u->fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off)) ||
		       setsockopt(u->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
	return setsockopt(u->fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof(dont_fragment)) ||
	       setsockopt(u->fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) ||
	       setsockopt(u->fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
}

/* Open the socket. The socket shares the port of `first`, or does not share a port if `first` is NULL. */
static int open_socket(struct udp *u, const struct udp *first, uint16_t local_port)
{
	const union fpisa_sockaddr local =
		is_ipv6(u) ? (union fpisa_sockaddr){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(local_port)}} :
			     (union fpisa_sockaddr){.v4 = {.sin_family = AF_INET, .sin_port = htons(local_port)}};
	int on = 1;

	u->fd = socket(u->to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (u->fd < 0)
		return fpisa_fail(-errno, "cannot create a UDP socket: %s", fpisa_why(-errno));
	if (set_options(u))
		return fpisa_fail(-errno, "cannot set the options of the UDP socket: %s", fpisa_why(-errno));
	/*
	 * Set SO_REUSEPORT on the first socket only after it was bound, so that it cannot share the port of another
	 * process.
	 */
	if (first && (setsockopt(first->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
		      setsockopt(u->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))))
		return fpisa_fail(-errno, "cannot set the options of the UDP socket: %s", fpisa_why(-errno));
	/* Ignore an error, because a kernel without UDP_GRO does not merge datagrams. */
	setsockopt(u->fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
	if (bind(u->fd, &local.any, fpisa_sockaddr_len(&local)))
		return fpisa_fail(-errno, "UDP port %u: %s; %s", local_port, strerror(errno),
				  errno == EACCES ? "without privileges, use a port from 1024 on, such as 18000" :
						    "is another worker running on this host?");
	return 0;
}

/* Bind the socket to the port of `first`, and append it to the sockets that share this port. */
static int share_port(struct udp *u, struct udp *first)
{
	struct udp *last = first;
	int rc;

	while (last->behind)
		last = last->behind;
	last->behind = u;
	u->first = first->first = first;
	rc = share_out(first);
	return rc ? fpisa_fail(rc, "cannot share the UDP port with other sockets of this process: %s", fpisa_why(rc)) :
		    0;
}

static int open_udp(struct fpisa_transport **t, struct udp *first, const struct fpisa_address *address, uint16_t port,
		    uint16_t local_port)
{
	struct udp *u = calloc(1, sizeof(*u));
	char text[FPISA_ADDRESS_LEN];
	int rc = -ENOMEM;

	*t = NULL;
	if (!u)
		return fpisa_fail(rc, "not enough memory for a socket; " FPISA_MORE_MEMORY);
	u->base.ops = &udp_ops;
	u->fd = -1;
	u->to = fpisa_sockaddr_of(address, port);
	u->source = *address;
	rc = fpisa_datagrams_init(&u->datagrams);
	if (rc)
		fpisa_fail(rc, "not enough memory for a socket; " FPISA_MORE_MEMORY);
	else if (is_broadcast(&u->to))
		rc = fpisa_no_host(fpisa_address_text(address, text));
	else
		rc = open_socket(u, first, local_port);
	if (!rc && first)
		rc = share_port(u, first);
	if (rc)
		udp_close(&u->base);
	else
		*t = &u->base;
	return rc;
}

int fpisa_udp_open(struct fpisa_transport **t, const struct fpisa_address *address, uint16_t port, uint16_t local_port)
{
	return open_udp(t, NULL, address, port, local_port);
}

int fpisa_udp_open_beside(struct fpisa_transport **t, struct fpisa_transport *first,
			  const struct fpisa_address *address, uint16_t port, uint16_t local_port)
{
	return open_udp(t, (struct udp *)first, address, port, local_port);
}

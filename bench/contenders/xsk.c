// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server on AF_XDP sockets. There is one socket for each link, and all sockets
 * share one UMEM. The contribution that completes a round is turned into the
 * result in place. The frame is addressed to the job's group and put into the
 * rings of all links. The XDP program of the library (user/lib/transport/xsk.h)
 * separates frames of the protocol from others.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/transport/outer.h"
#include "lib/transport/xsk.h"
#include "server.h"
#include "lab/testbed/process.h"

#define FRAME 4096
#define HEADROOM 10 /* with the kernel's 256 bytes and the headers before it, the payload is aligned to 32 bytes */
#define BATCH 64
#define MIN_RING 256
#define SOCKET_BUFFER (16 << 20)

_Static_assert((256 + HEADROOM + FPISA_PAYLOAD_OFFSET) % 32 == 0, "payload is aligned");

struct port {
	struct xsk_socket *socket;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons completion, rx;
	uint32_t filled; /* free frames for receiving */
	uint32_t queued; /* number of descriptors that the kernel does not know yet */
};

struct xsk {
	struct server *s;
	struct xsk_umem *umem;
	unsigned char *area;
	uint32_t ring, frames;
	uint64_t *free;
	uint32_t free_n;
	uint8_t *uses; /* number of links whose rings contain the frame */
	struct port port[FPISA_MAX_WORKERS];
	struct pollfd poll[FPISA_MAX_WORKERS];
};

/* -- frames ------------------------------------------------------------------------ */

static void release(struct xsk *x, uint64_t address)
{
	uint64_t frame = address / FRAME;

	if (x->uses[frame] && --x->uses[frame])
		return;
	x->free[x->free_n++] = frame * FRAME;
}

static void reap(struct xsk *x, struct port *p)
{
	uint32_t at, n = xsk_ring_cons__peek(&p->completion, x->ring, &at);

	for (uint32_t i = 0; i < n; i++)
		release(x, *xsk_ring_cons__comp_addr(&p->completion, at + i));
	xsk_ring_cons__release(&p->completion, n);
}

static void refill(struct xsk *x, struct port *p)
{
	uint32_t at, n = x->ring / 2 - p->filled;

	n = n < x->free_n ? n : x->free_n;
	n = n ? xsk_ring_prod__reserve(&p->fill, n, &at) : 0;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&p->fill, at + i) = x->free[--x->free_n];
	if (n)
		xsk_ring_prod__submit(&p->fill, n);
	p->filled += n;
}

static void queue(struct xsk *x, struct port *p, uint64_t address, uint32_t size)
{
	struct xdp_desc *d;
	uint32_t at;

	if (!xsk_ring_prod__reserve(&p->tx, 1, &at))
		return;
	d = xsk_ring_prod__tx_desc(&p->tx, at);
	*d = (struct xdp_desc){.addr = address, .len = size};
	p->queued++;
	x->uses[address / FRAME]++;
}

/* Make the kernel send. In copy mode a call sends one batch. */
static void kick(struct port *p)
{
	int tries = (int)p->queued / 16 + 2;

	if (!p->queued)
		return;
	xsk_ring_prod__submit(&p->tx, p->queued);
	p->queued = 0;
	while (tries-- && sendto(xsk_socket__fd(p->socket), NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno == EAGAIN)
		;
}

/* -- headers ------------------------------------------------------------------------- */

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint16_t ip_sum(const struct outer *h)
{
	const uint16_t *word = (const uint16_t *)&h->version;
	uint32_t sum = 0;

	for (int i = 0; i < FPISA_IP_LEN / 2; i++)
		sum += word[i];
	return fold(sum);
}

/* Return the UDP checksum. `words` is the sum of the datagram's words except for its FPISA checksum. */
static uint16_t udp_sum(const struct outer *h, uint64_t words)
{
	const struct fpisa_hdr *f = (const struct fpisa_hdr *)(h + 1);
	uint16_t sum = fold(words + f->checksum + h->source + h->destination + h->source_port + h->destination_port +
			    2ull * h->udp_length + htons(IPPROTO_UDP));

	return sum ? sum : 0xffff;
}

/* Swap source and destination in the headers of a frame. If `everyone` is set, the destination is the group. */
static void answer(const struct server *s, struct outer *h, size_t size, int everyone)
{
	const struct fpisa_job *job = &s->job;
	uint8_t here[6];
	uint32_t peer = h->source;
	uint16_t peer_port = h->source_port;

	memcpy(here, h->to, sizeof(here));
	memcpy(h->to, h->from, sizeof(h->to));
	memcpy(h->from, here, sizeof(h->from));
	if (everyone) {
		uint32_t group = ntohl(job->group.w[3]);
		const uint8_t mac[6] = {0x01, 0x00, 0x5e, group >> 16 & 0x7f, (uint8_t)(group >> 8), (uint8_t)group};

		memcpy(h->to, mac, sizeof(h->to));
		peer = job->group.w[3];
		peer_port = job->group_port;
	}
	h->tos = 0;
	h->length = htons((uint16_t)(FPISA_IP_LEN + FPISA_UDP_LEN + size));
	h->id = 0;
	h->fragment = htons(0x4000); /* do not fragment */
	h->ttl = 64;
	h->source = job->address.w[3];
	h->destination = peer;
	h->source_port = htons(FPISA_PORT);
	h->destination_port = peer_port;
	h->udp_length = htons((uint16_t)(FPISA_UDP_LEN + size));
	h->udp_checksum = udp_sum(h, s->words);
	h->checksum = 0;
	h->checksum = ip_sum(h);
}

/* Return the size of the datagram in a frame, or 0 if the frame is not for us. */
static size_t datagram(const struct fpisa_job *job, const struct outer *h, uint32_t len)
{
	size_t size;

	if (len < sizeof(*h) || h->destination != job->address.w[3] || ip_sum(h))
		return 0;
	size = ntohs(h->udp_length);
	if (size < FPISA_UDP_LEN || size + FPISA_ETH_LEN + FPISA_IP_LEN > len || ntohs(h->length) != size + FPISA_IP_LEN)
		return 0;
	return size - FPISA_UDP_LEN;
}

static void take_frame(struct xsk *x, struct port *p, uint64_t address, uint32_t len)
{
	struct outer *h = xsk_umem__get_data(x->area, address);
	const struct fpisa_job *job = &x->s->job;
	const struct fpisa_address from = fpisa_ipv4(h->source);
	size_t size = datagram(job, h, len);
	uint64_t to = 0;

	if (size)
		server_frame(x->s, &from, h->source_port, h + 1, &size, &to);
	if (to && !(to & (to - 1))) {
		answer(x->s, h, size, 0);
		queue(x, p, address, (uint32_t)(sizeof(*h) + size));
	} else if (to) {
		answer(x->s, h, size, 1);
		for (uint32_t r = 0; r < job->workers; r++)
			queue(x, &x->port[r], address, (uint32_t)(sizeof(*h) + size));
	}
	if (!x->uses[address / FRAME])
		release(x, address);
}

/* -- the loop --------------------------------------------------------------------------- */

static uint32_t take_frames(struct xsk *x, struct port *p)
{
	uint32_t at, n = xsk_ring_cons__peek(&p->rx, BATCH, &at);

	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&p->rx, at + i);

		take_frame(x, p, d->addr, d->len);
	}
	if (n)
		xsk_ring_cons__release(&p->rx, n);
	p->filled -= n;
	return n;
}

static int serve(struct xsk *x)
{
	uint32_t n = x->s->job.workers;

	for (;;) {
		uint32_t taken = 0;

		for (uint32_t r = 0; r < n; r++)
			taken += take_frames(x, &x->port[r]);
		for (uint32_t r = 0; r < n; r++)
			kick(&x->port[r]);
		for (uint32_t r = 0; r < n; r++) {
			reap(x, &x->port[r]);
			refill(x, &x->port[r]);
		}
		if (!taken && poll(x->poll, n, -1) < 0 && errno != EINTR)
			return -errno;
	}
}

/* -- setting up ---------------------------------------------------------------------------- */

static int make_umem(struct xsk *x)
{
	struct xsk_umem_config config = {.frame_size = FRAME, .frame_headroom = HEADROOM};
	uint32_t n = x->s->job.workers;

	for (x->ring = MIN_RING; x->ring < 4 * x->s->job.window; x->ring *= 2)
		;
	config.fill_size = config.comp_size = x->ring;
	x->frames = n * x->ring;
	x->free = calloc(x->frames, sizeof(*x->free));
	x->uses = calloc(x->frames, sizeof(*x->uses));
	x->area = mmap(NULL, (size_t)x->frames * FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!x->free || !x->uses || x->area == MAP_FAILED)
		return -ENOMEM;
	for (uint32_t i = x->frames; i--;)
		release(x, (uint64_t)i * FRAME);
	return xsk_umem__create(&x->umem, x->area, (uint64_t)x->frames * FRAME, &x->port[0].fill,
				&x->port[0].completion, &config);
}

/* Open a port. The process keeps its resources until it ends. */
static int make_port(struct xsk *x, uint32_t r, const char *dev)
{
	const struct xsk_socket_config config = {.rx_size = x->ring,
						 .tx_size = x->ring,
						 .libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
						 .bind_flags = XDP_USE_NEED_WAKEUP};
	const struct fpisa_xsk_lib lib = {.bpf_map_create = bpf_map_create, .bpf_prog_load = bpf_prog_load};
	const struct fpisa_rank *rank = &x->s->job.rank[r];
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
	struct port *p = &x->port[r];
	struct fpisa_xsk_program program;
	int size = SOCKET_BUFFER, rc;

	rc = xsk_socket__create_shared(&p->socket, dev, 0, x->umem, &p->rx, &p->tx, &p->fill, &p->completion, &config);
	if (rc)
		return rc;
	if (setsockopt(xsk_socket__fd(p->socket), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		return -errno;
	refill(x, p);
	x->poll[r] = (struct pollfd){.fd = xsk_socket__fd(p->socket), .events = POLLIN};
	rc = fpisa_xsk_program_load(&program, &lib, 0);
	if (rc)
		return rc;
	*program.ours = (struct fpisa_xsk_filter){.source = rank->addr,
						  .destination = x->s->job.address,
						  .group = x->s->job.address,
						  .from = rank->port,
						  .to = htons(FPISA_PORT)};
	rc = xsk_socket__update_xskmap(p->socket, program.sockets);
	if (rc)
		return rc;
	rc = bpf_link_create(program.program, (int)if_nametoindex(dev), BPF_XDP, &opts);
	return rc < 0 ? rc : 0;
}

int server_xsk(struct server *s, int control, char (*dev)[16])
{
	struct xsk *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return -ENOMEM;
	x->s = s;
	rc = make_umem(x);
	for (uint32_t r = 0; r < s->job.workers && !rc; r++)
		rc = make_port(x, r, dev[r]);
	return rc ?: process_report(control, &(struct report){0}) ?: serve(x);
}

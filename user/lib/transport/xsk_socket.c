/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * An AF_XDP socket on one queue of an interface, with its UMEM, its rings and the link of the program; xsk.h has the
 * contracts. UMEM frames [0, size) are for receiving, and the others for sending.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fpisa/wire.h"
#include "lib/base/fork.h"
#include "xsk.h"

#define FRAME 4096
/* Padding, so that the kernel's 256 bytes and the headers before the FPISA header are a multiple of 16 bytes. */
#define HEADROOM 6

_Static_assert((256 + HEADROOM + FPISA_OFFSET) % 16 == 0, "headers are aligned");
_Static_assert(256 + HEADROOM + FPISA_MAX_FRAME <= FRAME, "a frame fits");

/* -- sending ------------------------------------------------------------- */

void fpisa_xsk_socket_reap(struct fpisa_xsk_socket *s)
{
	uint32_t at = 0, n = xsk_ring_cons__peek(&s->completion, s->size, &at);

	for (uint32_t i = 0; i < n; i++)
		s->free[s->free_n++] = *xsk_ring_cons__comp_addr(&s->completion, at + i);
	xsk_ring_cons__release(&s->completion, n);
}

struct xdp_desc *fpisa_xsk_socket_reserve(struct fpisa_xsk_socket *s)
{
	struct xdp_desc *d;
	uint32_t at;

	if (!s->free_n || !xsk_ring_prod__reserve(&s->tx, 1, &at))
		return NULL;
	d = xsk_ring_prod__tx_desc(&s->tx, at);
	d->addr = s->free[--s->free_n];
	d->options = 0;
	return d;
}

unsigned char *fpisa_xsk_socket_data(const struct fpisa_xsk_socket *s, const struct xdp_desc *d)
{
	return xsk_umem__get_data(s->area, d->addr);
}

void fpisa_xsk_socket_submit(struct fpisa_xsk_socket *s, uint32_t n)
{
	xsk_ring_prod__submit(&s->tx, n);
}

int fpisa_xsk_socket_kick(struct fpisa_xsk_socket *s, int *send_error)
{
	if (!xsk_ring_prod__needs_wakeup(&s->tx))
		return 0;
	if (sendto(fpisa_xsk_socket_fd(s), NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
		return 0;
	switch (errno) {
	case EAGAIN:
	case EBUSY:
	case ENOBUFS:
	case ENETDOWN:
	case EINTR:
		*send_error = errno;
		return 0;
	}
	return -errno;
}

/* -- receiving ------------------------------------------------------------ */

/*
 * Pass UMEM frames to the kernel. The ring has room for all of them; otherwise return -EIO, because frames would be
 * lost permanently.
 */
static int give(struct fpisa_xsk_socket *s, const uint64_t *address, uint32_t n)
{
	uint32_t at;

	if (!n)
		return 0;
	if (xsk_ring_prod__reserve(&s->fill, n, &at) != n)
		return -EIO;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&s->fill, at + i) = address[i];
	xsk_ring_prod__submit(&s->fill, n);
	return 0;
}

int fpisa_xsk_socket_return(struct fpisa_xsk_socket *s)
{
	int rc = give(s, s->lent, s->lent_n);

	if (!rc)
		s->lent_n = 0;
	return rc;
}

uint32_t fpisa_xsk_socket_take(struct fpisa_xsk_socket *s, struct fpisa_xsk_frame *frame)
{
	uint32_t at = 0, n = xsk_ring_cons__peek(&s->rx, FPISA_BATCH, &at);

	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&s->rx, at + i);

		s->lent[i] = d->addr & ~(uint64_t)(FRAME - 1);
		frame[i] = (struct fpisa_xsk_frame){xsk_umem__get_data(s->area, d->addr), d->len};
	}
	s->lent_n = n;
	xsk_ring_cons__release(&s->rx, n);
	return n;
}

/* -- setting up ------------------------------------------------------------ */

void fpisa_xsk_socket_close(struct fpisa_xsk_socket *s)
{
	if (s->link >= 0)
		close(s->link);
	if (s->socket)
		s->lib->xsk_socket__delete(s->socket);
	if (s->umem)
		s->lib->xsk_umem__delete(s->umem);
	if (s->area)
		munmap(s->area, s->area_size);
	free(s->free);
	s->link = -1;
	s->socket = NULL;
	s->umem = NULL;
	s->area = NULL;
	s->free = NULL;
	s->free_n = s->lent_n = 0;
}

/*
 * Create rings of `size` frames in each direction. libxdp does not initialise the counters of the fill and completion
 * rings.
 */
static int make_socket(struct fpisa_xsk_socket *s, const char *dev)
{
	const struct xsk_umem_config umem = {
		.fill_size = s->size, .comp_size = s->size, .frame_size = FRAME, .frame_headroom = HEADROOM};
	const struct xsk_socket_config config = {.rx_size = s->size,
						 .tx_size = s->size,
						 .libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
						 .bind_flags = XDP_USE_NEED_WAKEUP};
	uint64_t address;
	int rc;

	memset(&s->fill, 0, sizeof(s->fill));
	memset(&s->completion, 0, sizeof(s->completion));
	s->area_size = 2ull * s->size * FRAME;
	s->area = mmap(NULL, s->area_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->area == MAP_FAILED) {
		s->area = NULL;
		return -ENOMEM;
	}
	s->free = calloc(s->size, sizeof(*s->free));
	if (!s->free)
		return -ENOMEM;
	rc = s->lib->xsk_umem__create(&s->umem, s->area, s->area_size, &s->fill, &s->completion, &umem);
	if (rc)
		return rc;
	rc = s->lib->xsk_socket__create(&s->socket, dev, 0, s->umem, &s->rx, &s->tx, &config);
	if (rc)
		return rc;
	/* libxdp does not set FD_CLOEXEC, so a program that the caller starts would keep the queue. */
	if (fcntl(fpisa_xsk_socket_fd(s), F_SETFD, FD_CLOEXEC))
		return -errno;
	for (uint32_t i = 0; i < s->size; i++) {
		address = (uint64_t)i * FRAME;
		rc = give(s, &address, 1);
		if (rc)
			return rc;
		s->free[s->free_n++] = (uint64_t)(s->size + i) * FRAME;
	}
	return 0;
}

/*
 * Attach the program in the driver or, if that fails, in generic mode. Closing the descriptor of the link detaches the
 * program.
 */
static int attach(struct fpisa_xsk_socket *s, int program, uint32_t ifindex)
{
	const uint32_t modes[] = {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) && s->link < 0; i++) {
		LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = modes[i]);

		s->link = s->lib->bpf_link_create(program, (int)ifindex, BPF_XDP, &opts);
		if (s->link == -EBUSY || s->link == -EEXIST)
			break;
	}
	return s->link < 0 ? s->link : 0;
}

static int start(struct fpisa_xsk_socket *s, const struct fpisa_xsk_program *p, const char *dev, uint32_t ifindex)
{
	int rc = make_socket(s, dev);

	if (!rc)
		rc = s->lib->xsk_socket__update_xskmap(s->socket, p->sockets);
	return rc ? rc : attach(s, p->program, ifindex);
}

/* Number of attempts to open a queue, because the kernel releases a queue some time after its socket was closed. */
#define BUSY_TRIES 20
#define BUSY_PAUSE_US 10000

int fpisa_xsk_socket_open(struct fpisa_xsk_socket *s, const struct fpisa_xsk_program *p, const char *dev,
			  uint32_t ifindex, uint32_t size)
{
	int rc, tries = 0;

	s->size = size;
	for (;;) {
		fpisa_fork_hold();
		rc = start(s, p, dev, ifindex);
		if (rc)
			fpisa_xsk_socket_close(s);
		fpisa_fork_release();
		if (!rc)
			break;
		if ((rc != -EBUSY && rc != -EEXIST) || ++tries == BUSY_TRIES)
			break;
		usleep(BUSY_PAUSE_US);
	}
	return rc;
}

int fpisa_xsk_socket_fd(const struct fpisa_xsk_socket *s)
{
	return s->lib->xsk_socket__fd(s->socket);
}

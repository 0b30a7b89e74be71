/* SPDX-License-Identifier: GPL-2.0-only */
/* A stand-in for user/lib/transport/udp.c. It accepts all frames, delivers no answer, and makes no system call. */
#include <stdlib.h>
#include "check.h"
#include "lib/base/error.h"
#include "lib/transport/transport.h"

static int leave(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	(void)t;
	(void)out;
	CHECK(n > 0 && n <= FPISA_BATCH);
	return 0;
}

static int hear(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns)
{
	(void)t;
	(void)in;
	(void)timeout_ns;
	return 0;
}

static int joined(struct fpisa_transport *t, const struct fpisa_hello *hello)
{
	(void)t;
	(void)hello;
	return FPISA_BATCH;
}

static unsigned int path_mtu(const struct fpisa_transport *t, unsigned int *headers)
{
	(void)t;
	*headers = FPISA_IP_LEN + FPISA_UDP_LEN;
	return 1500;
}

static int fds(struct fpisa_transport *t, int *fd)
{
	(void)t;
	(void)fd;
	return 0;
}

static void end(struct fpisa_transport *t)
{
	free(t);
}

int fpisa_udp_open_beside(struct fpisa_transport **t, struct fpisa_transport *first,
			  const struct fpisa_address *address, uint16_t port, uint16_t local_port)
{
	(void)first;
	return fpisa_udp_open(t, address, port, local_port);
}

int fpisa_udp_open(struct fpisa_transport **t, const struct fpisa_address *address, uint16_t port, uint16_t local_port)
{
	static const struct fpisa_transport_ops ops = {
		.send = leave, .receive = hear, .joined = joined, .fds = fds, .path_mtu = path_mtu, .close = end};

	(void)port;
	(void)local_port;
	if (!fpisa_is_address(address))
		return fpisa_fail(-1, "no address");
	*t = calloc(1, sizeof(**t));
	if (!*t)
		abort();
	(*t)->ops = &ops;
	return 0;
}

int fpisa_udp_fd(const struct fpisa_transport *t)
{
	(void)t;
	return -1;
}

int fpisa_udp_take(struct fpisa_transport *t, struct fpisa_in *in, int most)
{
	(void)most;
	return hear(t, in, 0);
}

void fpisa_udp_redirect(struct fpisa_transport *t, uint16_t port)
{
	(void)t;
	(void)port;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The transports by name; transport.h has the contracts. */
#include "fpisa.h"
#include "transport.h"

static int (*const openers[])(struct fpisa_transport **t, const struct fpisa_address *address, uint16_t port,
			      uint16_t local_port) = {
	[FPISA_TRANSPORT_UDP] = fpisa_udp_open,
	[FPISA_TRANSPORT_XSK] = fpisa_xsk_open,
};

int fpisa_transport_known(uint32_t name)
{
	return name < sizeof(openers) / sizeof(openers[0]);
}

int fpisa_transport_open(struct fpisa_transport **t, uint32_t name, const struct fpisa_address *address, uint16_t port,
			 uint16_t local_port)
{
	return openers[name](t, address, port, local_port);
}

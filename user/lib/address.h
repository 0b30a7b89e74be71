/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_ADDRESS_H
#define FPISA_ADDRESS_H

#include <netinet/in.h>
#include <stdint.h>

/* "10.0.0.1" or "10.0.0.1:18000"; *port in host order. -EINVAL, with the message set, if it is no host's. */
int fpisa_parse_address(const char *text, struct in_addr *address, uint16_t *port);

#endif

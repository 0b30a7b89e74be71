/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Rates and addresses of this host's interfaces, read without privilege, for the shares of several aggregators. */
#ifndef FPISA_MANAGER_INTERFACE_H
#define FPISA_MANAGER_INTERFACE_H

#include <stdint.h>
#include "fpisa/address.h"

/* Return the rate of an interface in Mbit/s, or 0 if the rate is unknown. */
uint32_t fpisa_link_rate(const char *dev);

/*
 * Return the rate, in Mbit/s, of the interface with this address. For an address on `lo`, return the
 * rate of the fastest interface. Return 0 if the rate is unknown.
 */
uint32_t fpisa_interface_rate(const struct fpisa_address *address);

/*
 * Return whether `address` belongs to this host, as the address of an interface or in an IPv4 network on `lo`. Binding a
 * socket would not be a sufficient test.
 */
int fpisa_address_is_here(const struct fpisa_address *address);

#endif

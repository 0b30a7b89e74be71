/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Rates and addresses of this host's interfaces, read without privilege, for the shares of several aggregators. */
#ifndef FPISA_MANAGER_INTERFACE_H
#define FPISA_MANAGER_INTERFACE_H

#include <stdint.h>

/* Return the rate of an interface, Mbit/s; 0 if unknown. */
uint32_t fpisa_link_rate(const char *dev);

/*
 * Return the rate of the link that has this address (network order), Mbit/s; for an address on `lo` the rate of the
 * fastest link. Return 0 if the rate is unknown.
 */
uint32_t fpisa_interface_rate(uint32_t address);

/*
 * Return whether it is an address of this host: of one of its interfaces, or in a network on `lo`. That a socket can be
 * bound to it is not sufficient.
 */
int fpisa_address_is_here(uint32_t address);

#endif

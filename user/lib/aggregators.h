/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_AGGREGATORS_H
#define FPISA_AGGREGATORS_H

#include <stdint.h>
#include "fpisa/address.h"
#include "layout.h"

struct fpisa_aggregator {
	struct fpisa_address address;
	uint16_t port; /* host order */
	uint32_t weight;
	uint32_t job; /* the handle's job there */
};

/*
 * Parse "ADDR[:PORT][/JOB][*WEIGHT],...", an IPv6 address with a port in brackets. `job` is the job where no number is given.
 * Return the number of aggregators, 1 to FPISA_MAX_SHARDS, or -EINVAL with the message set.
 */
int fpisa_parse_aggregators(const char *text, uint32_t job, struct fpisa_aggregator a[FPISA_MAX_SHARDS]);

#endif

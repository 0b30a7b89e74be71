/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_AGGREGATORS_H
#define FPISA_AGGREGATORS_H

#include <netinet/in.h>
#include <stdint.h>
#include "layout.h"

struct fpisa_aggregator {
	struct in_addr address;
	uint16_t port; /* host order */
	uint32_t weight;
};

/*
 * Parse "ADDR[:PORT][*WEIGHT],...". Return the number of aggregators, 1 to FPISA_MAX_SHARDS, or -EINVAL with the
 * message set.
 */
int fpisa_parse_aggregators(const char *text, struct fpisa_aggregator a[FPISA_MAX_SHARDS]);

#endif

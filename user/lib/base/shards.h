/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Limits for several aggregators, over which a call's chunks are spread. */
#ifndef FPISA_SHARDS_H
#define FPISA_SHARDS_H

#define FPISA_MAX_SHARDS 16  /* maximum number of aggregators of one call */
#define FPISA_MAX_WEIGHT 100 /* largest weight of an aggregator */

#endif

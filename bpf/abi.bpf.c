/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The types that programs and user space share. abi.py makes the stamp FPISA_ABI from the BTF of this object. The stamp
 * covers the maps of fpisa.o. For the maps of families, of queries and of steering, it covers only the entries below.
 */
#define FPISA_ABI 1 /* placeholder until abi.py has computed the stamp */
#include "phv.h"
#include "fpisa/block.h"
#include "fpisa/query/query.h"
#include "fpisa/steer.h"

struct fpisa_phv64_block phv64;
struct fpisa_man64_block man64;
struct fpisa_limbs_block limbs;
struct fpisa_partials partials;
struct fpisa_steering steering;
struct fpisa_steered steered;
struct fpisa_query_config query;
struct fpisa_query_state query_state;
struct fpisa_query_counters query_counters;
struct fpisa_bucket bucket;
struct fpisa_filter_block filter_block;
struct fpisa_query_group group;

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The names of the parameters of jobs and queries, for options, outputs, messages and adapters. Each list calls X(id,
 * name) for every name. `id` is the last part of the enum constant. `between` is put between two names, so
 * FPISA_MODE_NAMES(FPISA_NAME, " or ") can be part of a message.
 */
#ifndef FPISA_NAMES_H
#define FPISA_NAMES_H

#define FPISA_NAME(id, name, ...) name
#define FPISA_NAMED(id, name, ...) name, /* a name in an array initialiser; `between` is empty */

#define FPISA_MODE_NAMES(X, between) \
	X(FPISA, "fpisa") between X(FPISA_A, "fpisa-a") between X(FPISA64, "fpisa64") between X(EXACT, "exact")
#define FPISA_ROUND_NAMES(X, between) X(DOWN, "down") between X(NEAREST, "nearest")
#define FPISA_PIPELINE_NAMES(X, between) X(STAGED, "staged") between X(FUSED, "fused")
#define FPISA_CLZ_NAMES(X, between) X(LPM, "lpm") between X(BITS, "bits")
#define FPISA_FANOUT_NAMES(X, between) X(MULTICAST, "multicast") between X(UNICAST, "unicast")
#define FPISA_TRANSPORT_NAMES(X, between) X(UDP, "udp") between X(XSK, "xsk")

/* clang-format off */

/* enum fpisa_dtype. Programs also use these names for types. */
#define FPISA_FORMAT_NAMES(X, between) \
	X(FP32, "fp32", "float32") between X(FP16, "fp16", "float16") between X(BF16, "bf16", "bfloat16") between \
	X(FP64, "fp64", "float64") between X(E4M3, "e4m3", "e4m3") between X(E5M2, "e5m2", "e5m2") between \
	X(INT32, "int32", "int32") between X(MXINT8, "mxint8", "mxint8")

#define FPISA_OP_NAMES(X, between) \
	X(SUM, "sum") between X(MIN, "min") between X(MAX, "max") between \
	X(AVG, "avg") between X(SCALE, "scale") between X(NORM, "norm")

/* Injected faults, in the order of their enum. */
#define FPISA_FAULT_NAMES(X, between) \
	X(DROP, "drop") between X(DUPLICATE, "duplicate") between X(REORDER, "reorder") between \
	X(DELAY, "delay") between X(CORRUPT, "corrupt")

/* Types of columns, in the order of their enum, from 1. */
#define FPISA_COLUMN_NAMES(X, between) \
	X(REAL, "real") between X(DOUBLE, "double") between X(INT32, "int32") between \
	X(INT64, "int64") between X(TEXT, "text") between X(DATE, "date") between \
	X(DECIMAL, "decimal") between X(TIMESTAMP, "timestamp")
#define FPISA_DECIMAL_MOST 38  /* maximum number of digits of a decimal, because 10^38 < 2^127 */
#define FPISA_DECIMAL_INT64 18 /* maximum number of digits of a decimal in 64 bits */

/*
 * The columns of a query's group after its keys, in this order. Each column has its type for values that are reals, and
 * whether the column is never NULL.
 */
#define FPISA_AGGREGATE_NAMES(X, between) \
	X(COUNT, "count", INT64, 1) between X(SUM, "sum", REAL, 0) between X(MIN, "min", REAL, 0) between \
	X(MAX, "max", REAL, 0) between X(AVG, "avg", DOUBLE, 0)

/* clang-format on */

/* Queries: FPISA_QUERY_TOPN and others, and their filters. */
#define FPISA_KIND_NAMES(X, between) X(TOPN, "topn") between X(TABLE, "table") between X(JOIN, "join")
#define FPISA_FORM_NAMES(X, between) \
	X(REAL, "real") between X(DOUBLE, "double") between X(INT64, "int64") between X(INT128, "int128")
#define FPISA_FILTER_NAMES(X, between) X(BITMAP, "bitmap") between X(BLOOM, "bloom")
#define FPISA_PRUNING_NAMES(X, between) \
	X(NETWORK, "network") between X(NONE, "none") between X(WORKERS, "workers") between X(AUTO, "auto")

#endif

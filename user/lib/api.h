/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Further functions for groups and tests. Arguments and errors are those of fpisa.h. A handle from an open function
 * must join by fpisa_rejoin(). Before that, all other functions return -ENOTCONN. If `engine` is NULL, the handle gets
 * its own engine if options.progress is set, and otherwise no engine. The caller stops an engine after its handles are
 * closed.
 */
#ifndef FPISA_API_H
#define FPISA_API_H

#include "base/engine.h"
#include "fpisa.h"

struct fpisa_parts;

int fpisa_mem_open_handle(struct fpisa **f, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options,
			  struct fpisa_engine *engine);

/* Open or connect a handle of a rank with several aggregators; weight[i] is the weight of aggregator i. */
int fpisa_mem_open_shards(struct fpisa **f, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			  uint32_t rank, const struct fpisa_options *options, struct fpisa_engine *engine);
int fpisa_mem_connect_shards(struct fpisa **f, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			     uint32_t rank, const struct fpisa_options *options);

/* Return a call with these arguments. */
struct fpisa_call fpisa_call_of(const void *send, void *recv, size_t count, enum fpisa_dtype type,
				enum fpisa_operation op, double factor);

/*
 * Start the group's call with this number, as fpisa_start() does. The tag of the call is the digest of the group's
 * calls so far. to_wait is nonzero if fpisa_wait() follows at once, so no other thread needs to advance the request or
 * report its end. The caller owns *request unless on_done is set. recv gets this rank's part of the result, or all
 * elements if `parts` is NULL. The tag covers the parts.
 */
int fpisa_start_numbered(struct fpisa *f, const struct fpisa_call *call, struct fpisa_parts *parts, uint64_t number,
			 int to_wait, struct fpisa_request **request);

/*
 * Find the parts of `ranks` ranks, of which this rank is `rank`, in a call's vector, and let the call's tag cover them. If
 * `counts` is NULL, the parts are equal. Return 0, or -EINVAL if the parts are not those of the call.
 */
int fpisa_call_divide(struct fpisa_call *c, const size_t *counts, uint32_t ranks, uint32_t rank,
		      struct fpisa_parts *parts);

/*
 * Send `bytes` bytes of data from rank `root` to all ranks through a handle of FPISA_INT32. The broadcast is a sum to
 * which the other ranks contribute zeros. At rank root, data is not written. All ranks must give the same number of
 * bytes, root and tag, otherwise the call fails with -EPROTO. `c` has the tag, which is the digest of the group's calls so
 * far, the callback and the deadline. `number` and `to_wait` are as for fpisa_start_numbered().
 */
int fpisa_broadcast_start(struct fpisa *f, const struct fpisa_call *c, void *data, uint64_t bytes, uint32_t root,
			  uint64_t number, int to_wait, struct fpisa_request **request);

/* Make `c`, which has the tag of the program, the sum of a broadcast. Its tag then covers the bytes and the root. */
void fpisa_call_broadcast(struct fpisa_call *c, uint64_t bytes, uint32_t root);

/* Start a sum of FPISA_BLOCK zeros whose result is not kept. */
int fpisa_barrier_start(struct fpisa *f, uint64_t tag, uint64_t number, int to_wait, struct fpisa_request **request);

#endif

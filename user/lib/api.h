/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The functions that groups and tests use beside fpisa.h. Arguments and errors are those of fpisa.h. A handle that is
 * opened joins by fpisa_rejoin(); until then all other functions return -ENOTCONN. If `engine` is NULL, the handle
 * gets its own engine if options.progress is set, else no engine. The engine is stopped after its handles are closed.
 */
#ifndef FPISA_API_H
#define FPISA_API_H

#include "base/engine.h"
#include "fpisa.h"

int fpisa_mem_open_handle(struct fpisa **f, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options,
			  struct fpisa_engine *engine);

/* Open or connect a handle of a rank with several aggregators, which have as many weights. */
int fpisa_mem_open_shards(struct fpisa **f, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			  uint32_t rank, const struct fpisa_options *options, struct fpisa_engine *engine);
int fpisa_mem_connect_shards(struct fpisa **f, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			     uint32_t rank, const struct fpisa_options *options);

/*
 * Start the group's call with this number, as fpisa_start() does. The call's tag is the digest of the group's calls
 * so far. to_wait: fpisa_wait() follows at once, so no other thread need move the request or report its end. *request
 * belongs to the caller unless on_done is set.
 */
int fpisa_start_numbered(struct fpisa *f, const struct fpisa_call *call, uint64_t number, int to_wait,
			 struct fpisa_request **request);

/*
 * Send `bytes` of data, any number of them, from rank `root` to all ranks by a handle of FPISA_INT32. The broadcast
 * is a sum to which the other ranks give zeros. Root's own data is not written. All ranks give the same bytes, root
 * and tag, else -EPROTO. fpisa_broadcast_tag() distinguishes broadcasts whose lengths round up to the same number of
 * words. number, to_wait: as for fpisa_start_numbered().
 */
int fpisa_broadcast_start(struct fpisa *f, void *data, uint64_t bytes, uint32_t root, uint64_t tag, uint64_t number,
			  int to_wait, struct fpisa_request **request);
uint64_t fpisa_broadcast_tag(uint64_t bytes, uint32_t root);
uint64_t fpisa_broadcast_words(uint64_t bytes); /* elements of the sum */

/* Start a sum of FPISA_BLOCK zeros whose result is not kept. */
int fpisa_barrier_start(struct fpisa *f, uint64_t tag, uint64_t number, int to_wait, struct fpisa_request **request);

#endif

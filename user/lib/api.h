/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The functions that groups and tests use beside fpisa.h; arguments and errors are those of fpisa.h. A handle that is opened joins by
 * fpisa_rejoin(); until then all other functions return -ENOTCONN. Without an engine the handle gets one of its own if
 * options.progress is set, else none. The engine is stopped after its handles are closed.
 */
#ifndef FPISA_API_H
#define FPISA_API_H

#include "base/engine.h"
#include "fpisa.h"

int fpisa_mem_open_handle(struct fpisa **f, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options,
			  struct fpisa_engine *engine);

/* The same, and fpisa_mem_connect(), of a rank with several aggregators, which have as many weights. */
int fpisa_mem_open_shards(struct fpisa **f, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			  uint32_t rank, const struct fpisa_options *options, struct fpisa_engine *engine);
int fpisa_mem_connect_shards(struct fpisa **f, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			     uint32_t rank, const struct fpisa_options *options);

/*
 * As fpisa_start(), of the group's call of this number, whose tag is the digest of its calls so far. to_wait: fpisa_wait() follows at
 * once, so nobody else is to move it, or to be told of its end. *request is the caller's unless on_done is set.
 */
int fpisa_start_numbered(struct fpisa *f, const struct fpisa_call *call, uint64_t number, int to_wait,
			 struct fpisa_request **request);

/*
 * `bytes` of data, any number of them, from rank `root` to all, by a handle of FPISA_INT32: a sum to which the others give
 * zeros. Root's own data is not written. All ranks say the same bytes, root and tag, else -EPROTO: fpisa_broadcast_tag()
 * tells broadcasts apart whose lengths round up to the same number of words. number, to_wait: as of
 * fpisa_start_numbered().
 */
int fpisa_broadcast_start(struct fpisa *f, void *data, uint64_t bytes, uint32_t root, uint64_t tag, uint64_t number,
			  int to_wait, struct fpisa_request **request);
uint64_t fpisa_broadcast_tag(uint64_t bytes, uint32_t root);
uint64_t fpisa_broadcast_words(uint64_t bytes); /* elements of that sum */

/* A sum of FPISA_BLOCK zeros whose result is not kept. */
int fpisa_barrier_start(struct fpisa *f, uint64_t tag, uint64_t number, int to_wait, struct fpisa_request **request);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Handles whose requests one progress engine moves, and fpisa_connect() in two parts: fpisa_rejoin() is the second, or
 * fpisa_join_job() of who learns job and token later, and until then all else returns -ENOTCONN. Arguments and errors are those of fpisa.h; without an engine the
 * handle has one of its own if options.progress is set, else none. The engine is stopped after its handles are closed.
 */
#ifndef FPISA_API_H
#define FPISA_API_H

#include "base/engine.h"
#include "fpisa.h"

int fpisa_open(struct fpisa **f, const char *address, uint32_t job, const struct fpisa_options *options,
	       struct fpisa_engine *engine);
int fpisa_join_job(struct fpisa *f, uint32_t job, uint64_t token);
int fpisa_mem_open_handle(struct fpisa **f, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options,
			  struct fpisa_engine *engine);

/* As fpisa_start() of a call that fpisa_wait() follows at once: nobody else is to move it, or to be told of its end. */
int fpisa_start_to_wait(struct fpisa *f, const struct fpisa_call *call, struct fpisa_request **request);

/*
 * `bytes` of data, any number of them, from rank `root` to all, by a handle of FPISA_INT32: a sum to which the others give
 * zeros. Root's own data is not written. All ranks say the same bytes and root, else -EPROTO. to_wait: as
 * of fpisa_start_to_wait().
 */
int fpisa_broadcast_start(struct fpisa *f, void *data, uint64_t bytes, uint32_t root, int to_wait,
			  struct fpisa_request **request);

#endif

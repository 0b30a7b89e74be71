/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_PROGRESS_H
#define FPISA_PROGRESS_H

struct fpisa_request;

/*
 * Works for request r: one turn that waits for nothing, or, with `block`,
 * turns until r is done. The time of a request counts from the first call. 0,
 * or -errno: the handle is poisoned.
 */
int fpisa_advance(struct fpisa_request *r, int block);

#endif

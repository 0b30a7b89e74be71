/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_OUTCOME_H
#define FPISA_OUTCOME_H

struct fpisa_request;

int fpisa_request_ended(const struct fpisa_request *r); /* whether it is done, failed or given up */

/* Return the outcome of an ended request, for its owner: 0, or -errno with the message set. */
int fpisa_request_outcome(const struct fpisa_request *r);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_OUTCOME_H
#define FPISA_OUTCOME_H

struct fpisa_request;

/* return whether the request is done, has failed or was given up */
int fpisa_request_ended(const struct fpisa_request *r);

/* Return the outcome of an ended request to its owner. The outcome is 0, or a negative errno with the message set. */
int fpisa_request_outcome(const struct fpisa_request *r);

#endif

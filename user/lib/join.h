/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_JOIN_H
#define FPISA_JOIN_H

#include <stdint.h>

struct fpisa;

/* 0, or -errno with the message set. Forgets all requests. spent_ns of the deadline have gone. */
int fpisa_join(struct fpisa *f, uint64_t spent_ns);

#endif

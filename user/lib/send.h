/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_SEND_H
#define FPISA_SEND_H

struct fpisa;

/* Sends what is ready or fresh, as far as the window allows. -EMSGSIZE and the like poison the handle. */
int fpisa_send(struct fpisa *f);

#endif

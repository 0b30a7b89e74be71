/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_SEND_H
#define FPISA_SEND_H

struct fpisa;

/* Send the ready and the fresh slots, as far as the window allows. Return 0, or -errno if the handle has failed. */
int fpisa_send(struct fpisa *f);

#endif

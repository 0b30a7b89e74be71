/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages of libbpf and of the kernel about a call. */
#ifndef FPISA_DATAPATH_LOG_H
#define FPISA_DATAPATH_LOG_H

/* Catch the messages of libbpf from now on. With `verbose`, they are printed instead. */
void log_start(void);

/* Return strerror(-err), and in brackets the message of the kernel or libbpf since log_start(). The text is static. */
const char *reason(int err);

/* Return a hint for programs that could not be loaded. */
const char *load_hint(int err);

#endif

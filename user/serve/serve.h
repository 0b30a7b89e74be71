/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `fpisa serve`, the manager of groups. serve.c has the loop, conn.c the connections, and helper.c the process that
 * creates jobs.
 */
#ifndef FPISA_SERVE_H
#define FPISA_SERVE_H

int verb_serve(int argc, char **argv);

#endif

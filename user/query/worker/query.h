/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_QUERY_H
#define FPISA_QUERY_QUERY_H

int verb_query_worker(int argc, char **argv);

#endif

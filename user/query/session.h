/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_SESSION_H
#define FPISA_QUERY_SESSION_H

#include "lib/manager/psk.h"

#include <netinet/in.h>

/* Serves a master over its connection, which is closed in the end, until that ends; errors are reported. `key_file` had the keys. */
void session_run(int fd, const struct sockaddr_in *from, const struct fpisa_psks *keys, const char *key_file, int directory);

#endif

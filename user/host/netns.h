/* SPDX-License-Identifier: GPL-2.0-only */
/* Network namespaces as a process sees them. */
#ifndef FPISA_NETNS_H
#define FPISA_NETNS_H

#include <limits.h>
#include <stdbool.h>

/*
 * Is /sys that of `ip netns exec NAME` or `ip -n NAME`? They give their command one of its own: what is pinned below
 * it ends with the command, while programs stay attached. Then `name` is NAME.
 */
bool netns_exec(char name[NAME_MAX + 1]);

#endif

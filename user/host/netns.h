/* SPDX-License-Identifier: GPL-2.0-only */
/* Network namespaces that are peers of this one, and the one that `ip netns exec` enters. Nothing here reports. */
#ifndef FPISA_NETNS_H
#define FPISA_NETNS_H

#include <limits.h>
#include <stdbool.h>

/*
 * Find a process or name that leads into the namespace whose id is `id` here:
 * `prefix` gets the text to put before a command, *fd the caller's descriptor.
 * -ENOENT if none can be seen.
 */
#define NETNS_PREFIX_LEN 300
int netns_find(int id, char prefix[NETNS_PREFIX_LEN], int *fd);

/*
 * fn() in each other namespace that a name, a process or its descriptor leads to and this
 * process may enter, with the command before a command, until it is not 0:
 * that, or 0. -errno if it could not look at all; *hidden if
 * a process did not let it look.
 */
int netns_others(int (*fn)(const char *prefix, void *arg), void *arg, bool *hidden);

/* Moves this thread into `fd`; *home gets what netns_leave() takes back, and closes. */
int netns_enter(int fd, int *home);
void netns_leave(int home);

/*
 * Return whether /sys is that of `ip netns exec NAME` or `ip -n NAME`, which mount a private one for their command: pins below
 * it end with the command, while programs stay attached. Set `name` to NAME.
 */
bool netns_exec(char name[NAME_MAX + 1]);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Network namespaces: peers of this one, and the namespace that `ip netns exec` enters. These functions report nothing. */
#ifndef FPISA_NETNS_H
#define FPISA_NETNS_H

#include <limits.h>
#include <stdbool.h>

/*
 * Find a process or name by which the namespace with id `id` can be entered. Set `prefix` to the text to put before a
 * command, and *fd to a descriptor that the caller owns. Return -ENOENT if none can be seen.
 */
#define NETNS_PREFIX_LEN 300
int netns_find(int id, char prefix[NETNS_PREFIX_LEN], int *fd);

/*
 * Call fn() in each other namespace that this process may enter, until a call returns not 0. A name, a process or a
 * process's descriptor leads to the namespace. `prefix` is the text to put before a command. Return that value, or 0.
 * Return -errno if the search failed. Set *hidden if a process could not be examined.
 */
int netns_others(int (*fn)(const char *prefix, void *arg), void *arg, bool *hidden);

/* Move this thread into `fd`. Set *home to the descriptor that netns_leave() goes back to, and closes. */
int netns_enter(int fd, int *home);
void netns_leave(int home);

/*
 * Return whether /sys is the private mount that `ip netns exec NAME` or `ip -n NAME` makes for its command. Pins below
 * it end with the command, while programs stay attached. Set `name` to NAME.
 */
bool netns_exec(char name[NAME_MAX + 1]);

#endif

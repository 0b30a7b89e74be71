/* SPDX-License-Identifier: GPL-2.0-only */
/* Other network namespaces, and the namespace that `ip netns exec` enters. These functions print no errors. */
#ifndef FPISA_NETNS_H
#define FPISA_NETNS_H

#include <limits.h>
#include <stdbool.h>

/*
 * Find a process or name through which the namespace with id `id` can be entered. Set `prefix` to the text to put
 * before a command, and *fd to a descriptor that the caller owns. Return -ENOENT if there is no such process or name.
 */
#define NETNS_PREFIX_LEN 300
int netns_find(int id, char prefix[NETNS_PREFIX_LEN], int *fd);

/*
 * Call fn() in each other namespace that this process may enter, until a call returns a nonzero value. The namespaces
 * are found through names, processes and descriptors of processes. `prefix` is the text to put before a command. Return
 * the last value of fn(), or 0, or a negative errno if the search failed. Set *hidden if a process could not be
 * examined.
 */
int netns_others(int (*fn)(const char *prefix, void *arg), void *arg, bool *hidden);

/*
 * Move this thread into `fd`. Set *home to a descriptor of the current namespace, to which netns_leave() returns and
 * which it closes.
 */
int netns_enter(int fd, int *home);
void netns_leave(int home);

/*
 * Return whether /sys is the private mount that `ip netns exec NAME` or `ip -n NAME` creates for a command. Pins below
 * it end with the command, while programs stay attached. Set `name` to NAME.
 */
bool netns_exec(char name[NAME_MAX + 1]);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* One request to netlink and its answers, by libmnl, for the files of this directory. */
#ifndef FPISA_HOST_NETLINK_H
#define FPISA_HOST_NETLINK_H

#include <libmnl/libmnl.h>

#define REQUEST_LEN 256

/*
 * Start a request with the family's header of `size` bytes. Append attributes with mnl_attr_put(). A request
 * without NLM_F_DUMP has NLM_F_ACK in its flags, because netlink_ask() waits for the end of the answers.
 */
struct nlmsghdr *netlink_start(char buf[REQUEST_LEN], int type, int flags, const void *header, size_t size);

/*
 * Send `m`, and pass each message of the answer to take(), which returns MNL_CB_OK, or MNL_CB_ERROR with errno set.
 * Return 0, or the negative errno of the kernel or of take().
 */
int netlink_ask(int protocol, const struct nlmsghdr *m, mnl_cb_t take, void *arg);

#endif

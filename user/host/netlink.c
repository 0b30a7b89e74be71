// SPDX-License-Identifier: GPL-2.0-only
/* One request to netlink and its answers; netlink.h has the contracts. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "netlink.h"

#define ANSWER_LEN 32768

struct nlmsghdr *netlink_start(char buf[REQUEST_LEN], int type, int flags, const void *header, size_t size)
{
	struct nlmsghdr *m = mnl_nlmsg_put_header(buf);

	m->nlmsg_type = type;
	m->nlmsg_flags = NLM_F_REQUEST | flags;
	memcpy(mnl_nlmsg_put_extra_header(m, size), header, size);
	return m;
}

int netlink_ask(int protocol, const struct nlmsghdr *m, mnl_cb_t take, void *arg)
{
	struct mnl_socket *s = mnl_socket_open2(protocol, SOCK_CLOEXEC);
	char answer[ANSWER_LEN];
	int got = MNL_CB_ERROR, err;

	if (s && mnl_socket_sendto(s, m, m->nlmsg_len) >= 0)
		got = MNL_CB_OK;
	while (got == MNL_CB_OK) {
		ssize_t len = mnl_socket_recvfrom(s, answer, sizeof(answer));

		got = len < 0 ? MNL_CB_ERROR : mnl_cb_run(answer, len, 0, 0, take, arg);
	}
	err = got == MNL_CB_ERROR ? -errno : 0;
	if (s)
		mnl_socket_close(s);
	return err;
}

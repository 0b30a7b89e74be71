/* SPDX-License-Identifier: GPL-2.0-only */
/* A rank or an aggregator that is connected to the manager (user/manager), as the tests of the manager simulate it */
#ifndef FPISA_TEST_PEER_H
#define FPISA_TEST_PEER_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "manager/group.h"

#define PEER_NET 0x0a000000
#define PEER_MANAGER 0xfe /* host of the manager */

/* Tests keep their own data of a peer in a structure whose first member is this one. */
struct peer {
	struct manager_caller caller;
	bool connected, hung_up;
};

static inline struct peer *peer_of(const struct manager_caller *c)
{
	return (struct peer *)((char *)(uintptr_t)c - offsetof(struct peer, caller));
}

/* Connect from a host with a key. `size` is the size of the test's structure. */
static inline void peer_connect(struct peer *p, size_t size, uint32_t host, const char *owner)
{
	memset(p, 0, size);
	p->connected = true;
	p->caller.address = fpisa_ipv4(htonl(PEER_NET + host));
	p->caller.local = fpisa_ipv4(htonl(PEER_NET + PEER_MANAGER));
	strcpy(p->caller.owner, owner);
	p->caller.place = -1;
}

static inline void peer_say(struct manager *m, struct peer *p, const struct fpisa_manager_message *msg)
{
	assert_int_equal(fpisa_manager_check(msg, FPISA_MANAGER_RANK), 0);
	manager_message(m, &p->caller, msg);
}

/* Check a message that the manager sends to a peer. */
static inline void peer_hears(const struct peer *p, const struct fpisa_manager_message *msg)
{
	assert_true(p->connected && !p->hung_up);
	assert_int_equal(fpisa_manager_check(msg, FPISA_MANAGER_MANAGER), 0);
}

/* -- functions for struct manager_ops ------------------------------------------------ */

static inline void peer_hang_up(void *arg, struct manager_caller *who)
{
	(void)arg;
	assert_int_equal(who->place, -1);
	peer_of(who)->hung_up = true;
}

static inline void peer_refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason,
				const char *text)
{
	(void)arg;
	assert_true(peer_of(who)->connected && reason && *text);
}

#endif

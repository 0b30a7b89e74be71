/* SPDX-License-Identifier: GPL-2.0-only */
/* Stacks of interfaces (user/host/stack.c) and fixes for a rank's port (user/job/port.c), with made-up facts of links */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <net/if_arp.h>
#include "host/stack.h"
#include "job/port.h"

enum { P0, P1, BOND, TAGGED, BRIDGE, VETH, PEER, VRF, P2, MACVLAN, AWAY, TUN, GRE, LINKS };

/*
 * p0 and p1 in a bond, the bond's VLAN device in a bridge; a veth and its peer; p2 in a VRF, with a macvlan here and a macvlan in
 * another namespace
 */
static const struct link links[LINKS] = {
	[P0] = {.name = "p0", .index = 1, .hardware = ARPHRD_ETHER, .master = 3, .lower_netns = -1},
	[P1] = {.name = "p1", .index = 2, .hardware = ARPHRD_ETHER, .master = 3, .lower_netns = -1},
	[BOND] = {.name = "bond0", .kind = "bond", .index = 3, .hardware = ARPHRD_ETHER, .lower_netns = -1},
	[TAGGED] = {.name = "bond0.5",
		    .kind = "vlan",
		    .index = 4,
		    .hardware = ARPHRD_ETHER,
		    .lower = 3,
		    .lower_netns = -1,
		    .master = 5},
	[BRIDGE] = {.name = "br0", .kind = "bridge", .index = 5, .hardware = ARPHRD_ETHER, .lower_netns = -1},
	[VETH] = {.name = "ve0", .kind = "veth", .index = 6, .hardware = ARPHRD_ETHER, .lower = 7, .lower_netns = -1},
	[PEER] = {.name = "ve1", .kind = "veth", .index = 7, .hardware = ARPHRD_ETHER, .lower = 6, .lower_netns = -1},
	[VRF] = {.name = "red", .kind = "vrf", .index = 8, .hardware = ARPHRD_ETHER, .lower_netns = -1},
	[P2] = {.name = "p2", .index = 9, .hardware = ARPHRD_ETHER, .master = 8, .lower_netns = -1},
	[MACVLAN] =
		{.name = "mv0", .kind = "macvlan", .index = 10, .hardware = ARPHRD_ETHER, .lower = 9, .lower_netns = -1},
	[AWAY] = {.name = "mv1", .kind = "macvlan", .index = 11, .hardware = ARPHRD_ETHER, .lower = 9, .lower_netns = 2},
	[TUN] = {.name = "tun0", .kind = "tun", .index = 12, .hardware = ARPHRD_NONE, .lower_netns = -1},
	[GRE] = {.name = "gre1", .kind = "gre", .index = 13, .hardware = ARPHRD_IPGRE, .lower = 1, .lower_netns = -1},
};

static void expect_stack(int at, bool up, int n, const int *want)
{
	int found[LINKS];

	assert_int_equal(links_stack(links, LINKS, &links[at], up, found), n);
	assert_memory_equal(found, want, n * sizeof(*want));
}

static void test_stacks(void **state)
{
	(void)state;
	expect_stack(P0, true, 3, (int[]){BOND, TAGGED, BRIDGE});
	expect_stack(BRIDGE, false, 4, (int[]){TAGGED, BOND, P0, P1});
	expect_stack(TAGGED, false, 3, (int[]){BOND, P0, P1});
	expect_stack(BRIDGE, true, 0, (int[]){0});
	expect_stack(VETH, true, 0, (int[]){0});
	expect_stack(VETH, false, 0, (int[]){0});
	/* A VRF receives nothing, so it does not stand on its ports. */
	expect_stack(P2, true, 1, (int[]){MACVLAN});
	expect_stack(VRF, false, 0, (int[]){0});
	expect_stack(AWAY, false, 0, (int[]){0});
	expect_stack(GRE, false, 0, (int[]){0});
}

static void test_headers(void **state)
{
	(void)state;
	for (int i = 0; i < LINKS; i++)
		assert_int_equal(link_ethernet(&links[i]), i != TUN && i != GRE);
	assert_true(link_ethernet(&(struct link){.hardware = ARPHRD_LOOPBACK}));
	for (int i = 0; i < LINKS; i++)
		assert_int_equal(link_vrf(&links[i]), i == VRF);
}

static void expect_port(int at, const char *below, const char *above, bool native, enum job_port want, const char *why,
			const char *advice, const char *fix)
{
	enum job_port p = job_port(&links[at], below, above);
	struct job_port_text t;

	assert_int_equal(p, want);
	job_port_text(p, &links[at], below ? below : above, native, &t);
	assert_string_equal(t.why, why);
	assert_string_equal(t.advice, advice);
	assert_string_equal(t.fix, fix);
}

static void test_ports(void **state)
{
	const char *no_headers = "its frames have no Ethernet headers, so that no datapath can be loaded on it";
	const char *elsewhere = "let workers reach this machine by another interface";

	(void)state;
	expect_port(P0, NULL, NULL, true, JOB_PORT_BARE, "this datapath is not loaded on it", "fpisa load p0",
		    "fpisa load p0");
	expect_port(BRIDGE, NULL, NULL, false, JOB_PORT_BARE, "this datapath is not loaded on it",
		    "fpisa load br0 --mode skb", "fpisa load br0 --mode skb");
	expect_port(BRIDGE, "p0", NULL, false, JOB_PORT_NAME, "this datapath is on p0, below it",
		    "name that for each worker behind it, ADDR@p0", "");
	expect_port(MACVLAN, "p2", NULL, false, JOB_PORT_NAME, "this datapath is on p2, below it",
		    "name that for each worker behind it, ADDR@p2", "");
	expect_port(TAGGED, "p0", NULL, false, JOB_PORT_MOVE, "this datapath is on p0, below it",
		    "fpisa unload p0 && fpisa load bond0.5 --mode skb",
		    "fpisa unload p0 && fpisa load bond0.5 --mode skb");
	expect_port(BOND, "p1", NULL, true, JOB_PORT_MOVE, "this datapath is on p1, below it",
		    "fpisa unload p1 && fpisa load bond0", "fpisa unload p1 && fpisa load bond0");
	expect_port(P0, NULL, "br0", true, JOB_PORT_ABOVE, "this datapath is on br0, above it", "leave @p0 away", "");
	expect_port(VRF, NULL, NULL, false, JOB_PORT_VRF, "it is a VRF, which receives no frames itself",
		    "name the port of each worker, ADDR@PORT", "");
	expect_port(TUN, NULL, NULL, false, JOB_PORT_NO_ETHERNET, no_headers, elsewhere, "");
	expect_port(GRE, "p0", NULL, false, JOB_PORT_NO_ETHERNET, no_headers, elsewhere, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

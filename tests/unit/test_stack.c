/* SPDX-License-Identifier: GPL-2.0-only */
/* Test stacks of interfaces (user/host/stack.c) and fixes for a rank's port (user/job/port.c), with simulated links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <net/if_arp.h>
#include "host/kind.h"
#include "host/stack.h"
#include "job/port.h"

enum { P0, P1, BOND, TAGGED, BRIDGE, VETH, PEER, VRF, P2, MACVLAN, AWAY, TUN, GRE, DUMMY, TEAM, P3, LINKS };

/*
 * p0 and p1 are in a bond, and the bond's VLAN device is in a bridge. There is a veth and its peer. p2 is in a VRF,
 * with a macvlan here and a macvlan in another namespace. p3 is in a team.
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
	[DUMMY] = {.name = "dummy0", .kind = "dummy", .index = 14, .hardware = ARPHRD_ETHER, .lower_netns = -1},
	[TEAM] = {.name = "team0", .kind = "team", .index = 15, .hardware = ARPHRD_ETHER, .lower_netns = -1},
	[P3] = {.name = "p3", .index = 16, .hardware = ARPHRD_ETHER, .master = 15, .lower_netns = -1},
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
	/* A VRF does not receive frames, so it does not count as a device above its ports. */
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
	job_port_text(p, &links[at], below ? below : above, "ip link set dev p0 xdpdrv off", native, &t);
	assert_string_equal(t.why, why);
	assert_string_equal(t.advice, advice);
	assert_string_equal(t.fix, fix);
}

static void test_ports(void **state)
{
	const char *no_headers = "its frames have no Ethernet headers, so that no datapath can be loaded on it";
	const char *elsewhere = "let workers reach this machine through another interface";

	(void)state;
	expect_port(P0, NULL, NULL, true, JOB_PORT_BARE, "this datapath is not loaded on it", "run fpisa load p0",
		    "fpisa load p0");
	expect_port(BRIDGE, NULL, NULL, false, JOB_PORT_BARE, "this datapath is not loaded on it",
		    "run fpisa load br0 --mode skb", "fpisa load br0 --mode skb");
	expect_port(BRIDGE, "p0", NULL, false, JOB_PORT_NAME, "this datapath is on p0, below it",
		    "give that interface for each worker behind it, ADDR@p0", "");
	expect_port(MACVLAN, "p2", NULL, false, JOB_PORT_NAME, "this datapath is on p2, below it",
		    "give that interface for each worker behind it, ADDR@p2", "");
	expect_port(TAGGED, "p0", NULL, false, JOB_PORT_MOVE, "this datapath is on p0, below it",
		    "run ip link set dev p0 xdpdrv off && fpisa load bond0.5 --mode skb",
		    "ip link set dev p0 xdpdrv off && fpisa load bond0.5 --mode skb");
	expect_port(BOND, "p0", NULL, true, JOB_PORT_MOVE, "this datapath is on p0, below it",
		    "run ip link set dev p0 xdpdrv off && fpisa load bond0",
		    "ip link set dev p0 xdpdrv off && fpisa load bond0");
	expect_port(P0, NULL, "br0", true, JOB_PORT_ABOVE, "this datapath is on br0, above it", "leave @p0 out", "");
	expect_port(VRF, NULL, NULL, false, JOB_PORT_VRF, "it is a VRF, which receives no frames itself",
		    "name the port of each worker, ADDR@PORT", "");
	expect_port(TUN, NULL, NULL, false, JOB_PORT_NO_ETHERNET, no_headers, elsewhere, "");
	expect_port(GRE, "p0", NULL, false, JOB_PORT_NO_ETHERNET, no_headers, elsewhere, "");
}

/* `why` is NULL if the link is suitable. */
static void expect_kind(int at, bool generic, bool native, const char *why)
{
	char got[KIND_WHY_LEN];

	assert_int_equal(kind_unfit(&links[at], generic, native, links, LINKS, got), why != NULL);
	if (why)
		assert_string_equal(got, why);
}

static void test_kinds(void **state)
{
	const char *dummy =
		"is a dummy, which receives no frames of other machines; load the datapath on the interface through which "
		"workers' frames arrive, even if the address is on another interface";
	const char *no_headers =
		"has frames without Ethernet headers, which the datapath needs; load it on the interface through which workers' "
		"frames arrive with such headers, or use a tunnel that has them, of kind gretap or vxlan";

	(void)state;
	for (int generic = 0; generic < 2; generic++) {
		expect_kind(P2, generic, true, NULL);
		expect_kind(VETH, generic, true, NULL);
		expect_kind(BOND, generic, true, NULL);
		expect_kind(TUN, generic, true, no_headers);
		expect_kind(GRE, generic, false, no_headers);
		expect_kind(DUMMY, generic, true, dummy);
		expect_kind(VRF, generic, false,
			    "is a VRF, which receives no frames itself; load the datapath on its ports");
		expect_kind(
			P1, generic, true,
			"is a port of bond bond0, which chooses the port of each frame; load the datapath on bond0, which is on all of "
			"its ports");
		expect_kind(
			P3, generic, true,
			"is a port of team team0, which chooses the port of each frame; load the datapath on team0, which is on all of "
			"its ports");
	}
	expect_kind(
		BRIDGE, false, false,
		"is a bridge, which has no native XDP; load the datapath on its ports that lead to workers (ports: bond0.5), and "
		"name them in job add, ADDR@PORT, or run fpisa load br0 --mode skb");
	expect_kind(
		MACVLAN, false, false,
		"is a macvlan device, which has no native XDP; load the datapath on p2 and name it in job add, ADDR@p2, or run "
		"fpisa load mv0 --mode skb");
	/* The interface below is in another namespace. */
	expect_kind(AWAY, false, false, "is a macvlan device, which has no native XDP; run fpisa load mv1 --mode skb");
	expect_kind(TEAM, false, false, "is a team, which has no native XDP; run fpisa load team0 --mode skb");
	for (int at = BRIDGE; at <= MACVLAN; at += MACVLAN - BRIDGE) {
		expect_kind(at, true, false, NULL);
		expect_kind(at, false, true, NULL); /* on a future kernel */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

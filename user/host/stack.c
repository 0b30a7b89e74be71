// SPDX-License-Identifier: GPL-2.0-only
/* Interfaces that are stacked on each other; stack.h has the contracts. */
#include <net/if_arp.h>
#include <string.h>

#include "stack.h"

bool link_ethernet(const struct link *l)
{
	return l->hardware == ARPHRD_ETHER || l->hardware == ARPHRD_LOOPBACK;
}

bool link_vrf(const struct link *l)
{
	return !strcmp(l->kind, "vrf");
}

/*
 * Return whether the interface shares frames with the interface below. For other kinds, IFLA_LINK is the peer of a
 * veth, or the interface through which the packets of a tunnel leave.
 */
static bool shares_frames(const struct link *l)
{
	static const char *const kinds[] = {"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(l->kind, kinds[i]))
			return true;
	return false;
}

bool link_above(const struct link *upper, const struct link *lower)
{
	return (lower->master == upper->index && !link_vrf(upper)) ||
	       (upper->lower == lower->index && upper->lower_netns < 0 && shares_frames(upper));
}

bool link_answered_below(const struct link *l)
{
	return strcmp(l->kind, "vlan") && strcmp(l->kind, "bond") && strcmp(l->kind, "team");
}

int links_stack(const struct link *links, int n, const struct link *at, bool up, int *found)
{
	int all = 0;

	for (int next = -1; next < all; next++) {
		const struct link *from = next < 0 ? at : &links[found[next]];

		for (int i = 0; i < n; i++) {
			bool known = links[i].index == at->index;

			for (int k = 0; k < all; k++)
				known |= found[k] == i;
			if (!known && (up ? link_above(&links[i], from) : link_above(from, &links[i])))
				found[all++] = i;
		}
	}
	return all;
}

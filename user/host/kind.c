// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kinds of interfaces; kind.h has the contract. The table of doc/guide.md, section 3, has the same contents for users.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kind.h"
#include "stack.h"

enum rule {
	NO_FRAMES = 1, /* no frames of other machines arrive at this kind */
	ITS_PORTS,     /* no native XDP; load the datapath on its ports, or use generic XDP */
	ITS_PARENT,    /* no native XDP; load it on the interface below, or use generic XDP */
	ITSELF,	       /* no native XDP, and the interfaces below are not suitable; use generic XDP */
};

static const struct {
	const char *kind, *noun; /* name in IFLA_INFO_KIND of rtnetlink, and name in messages */
	enum rule rule;
} kinds[] = {
	{"dummy", "a dummy", NO_FRAMES},
	{"bridge", "a bridge", ITS_PORTS},
	{"team", "a team", ITSELF},
	{"vlan", "a VLAN device", ITSELF},
	{"macvlan", "a macvlan device", ITS_PARENT},
	{"macvtap", "a macvtap device", ITS_PARENT},
	{"ipvlan", "an ipvlan device", ITS_PARENT},
	{"ipvtap", "an ipvtap device", ITS_PARENT},
	{"netkit", "a netkit device", ITSELF},
	{"vxlan", "a VXLAN tunnel", ITSELF},
	{"geneve", "a Geneve tunnel", ITSELF},
	{"gretap", "a GRE tunnel", ITSELF},
	{"ip6gretap", "a GRE tunnel", ITSELF},
};

__attribute__((format(printf, 2, 3))) static bool say(char why[KIND_WHY_LEN], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, KIND_WHY_LEN, fmt, ap);
	va_end(ap);
	return true;
}

static const struct link *find(const struct link *links, int n, __u32 index)
{
	for (int i = 0; i < n; i++)
		if (links[i].index == index)
			return &links[i];
	return NULL;
}

/* List as many ports of `at` as fit. Return "" if the interface has no ports. */
static const char *ports_of(const struct link *at, const struct link *links, int n, char list[KIND_WHY_LEN / 4])
{
	int len = 0;

	*list = 0;
	for (int i = 0; i < n && len + IF_NAMESIZE + 2 < KIND_WHY_LEN / 4; i++)
		if (links[i].master == at->index)
			len += sprintf(list + len, " %s", links[i].name);
	return list;
}

/* Decide about a link whose driver has no native XDP. */
static bool not_native(const struct link *at, const char *noun, enum rule rule, const struct link *links, int n,
		       char why[KIND_WHY_LEN])
{
	const struct link *parent = at->lower_netns < 0 ? find(links, n, at->lower) : NULL;
	char list[KIND_WHY_LEN / 4];

	if (rule == ITS_PORTS && *ports_of(at, links, n, list))
		return say(why,
			   "is %s, which has no native XDP; load the datapath on its ports that lead to workers (ports:%s), "
			   "and name them in job add, ADDR@PORT, or run fpisa load %s --mode skb",
			   noun, list, at->name);
	if (rule == ITS_PARENT && parent)
		return say(why,
			   "is %s, which has no native XDP; load the datapath on %s and name it in job add, ADDR@%s, or "
			   "run fpisa load %s --mode skb",
			   noun, parent->name, parent->name, at->name);
	return say(why, "is %s, which has no native XDP; run fpisa load %s --mode skb", noun, at->name);
}

bool kind_unfit(const struct link *at, bool generic, bool native, const struct link *links, int n,
		char why[KIND_WHY_LEN])
{
	const struct link *master = find(links, n, at->master);

	if (!link_ethernet(at))
		return say(
			why,
			"has frames without Ethernet headers, which the datapath needs; load it on the interface through which "
			"workers' frames arrive with such headers, or use a tunnel that has them, of kind gretap or vxlan");
	if (link_vrf(at))
		return say(why, "is a VRF, which receives no frames itself; load the datapath on its ports");
	if (master && (!strcmp(master->kind, "bond") || !strcmp(master->kind, "team")))
		return say(why,
			   "is a port of %s %s, which chooses the port of each frame; load the datapath on %s, which is on "
			   "all of its ports",
			   master->kind, master->name, master->name);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(at->kind, kinds[i].kind))
			continue;
		if (kinds[i].rule == NO_FRAMES)
			return say(why,
				   "is %s, which receives no frames of other machines; load the datapath on the interface "
				   "through which workers' frames arrive, even if the address is on another interface",
				   kinds[i].noun);
		return !generic && !native && not_native(at, kinds[i].noun, kinds[i].rule, links, n, why);
	}
	return false;
}

// SPDX-License-Identifier: GPL-2.0-only
/* The other end of a veth; veth.h has the contracts. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "ethtool.h"
#include "veth.h"

void veth_look(const struct link *l, struct veth_peer *p)
{
	struct channels c = {0};
	int fd = -1, home = -1;
	__u32 program = 0;

	memset(p, 0, sizeof(*p));
	if (strcmp(l->kind, "veth") || !l->lower)
		return;
	if (l->lower_netns >= 0 && (netns_find(l->lower_netns, p->enter, &fd) || netns_enter(fd, &home)))
		goto out;
	p->seen = !link_get(l->lower, &p->link);
	p->gro = ethtool_gro(p->link.name) > 0;
	p->tso = ethtool_tso(p->link.name) > 0;
	p->udp_forwarding = ethtool_feature(p->link.name, "rx-udp-gro-forwarding");
	p->tags = !ethtool_vlan_tx(p->link.name);
	p->tx = ethtool_channels(p->link.name, &c) ? 0 : c.tx;
	p->xdp = !bpf_xdp_query_id((int)l->lower, XDP_FLAGS_DRV_MODE, &program) && program;
	if (home >= 0)
		netns_leave(home);
out:
	if (fd >= 0)
		close(fd);
}

int veth_takes(const struct link *l, const struct veth_peer *p, const __u64 *features)
{
	if (strcmp(l->kind, "veth"))
		return 1;
	if (features)
		return !!(*features & NETDEV_XDP_NDO_XMIT);
	return p->seen ? p->gro || p->xdp : -ENOENT;
}

void veth_warn(const struct link *l, const struct veth_peer *p)
{
	__u64 features;
	bool know = !netdev_xdp_features(l->index, &features);

	if (veth_takes(l, p, know ? &features : NULL))
		return;
	if (p->seen)
		warning("%s: GRO is off on its peer %s, so results sent to it vanish; run %sethtool -K %s gro on",
			l->name, p->link.name, p->enter, p->link.name);
	else
		warning("%s: GRO is off on its peer, interface %u of a network namespace that cannot be seen from "
			"here, so results sent to it vanish; there, run ethtool -K DEV gro on",
			l->name, l->lower);
}

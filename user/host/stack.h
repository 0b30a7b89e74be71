/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces that are stacked on each other, such as a bridge on its ports or a VLAN device on its parent. Only one
 * interface of a stack may have a datapath. The lowest datapath takes the received frames, and frames sent through the
 * upper interface do not pass the upper datapath. These functions use only the data of link.h.
 */
#ifndef FPISA_HOST_STACK_H
#define FPISA_HOST_STACK_H

#include "link.h"

/* Return whether the link's frames have Ethernet headers. Frames of tun, GRE and IPIP devices do not. */
bool link_ethernet(const struct link *l);

/* Return whether the link is a VRF, which routes for its ports and receives no frames itself. */
bool link_vrf(const struct link *l);

/* Return whether `upper`, directly above `lower`, receives the frames that `lower` receives. */
bool link_above(const struct link *upper, const struct link *lower);

/*
 * Return whether the datapath on a port below `l` may answer frames that come through `l`. This is not possible for a
 * VLAN device, because the answer would lack the tag, or for a bond, because the bond selects the port.
 */
bool link_answered_below(const struct link *l);

/*
 * Find the links above `at` (with `up`) or below `at` among the n `links`, the nearest first. Write their positions to
 * found[n]. Return their number.
 */
int links_stack(const struct link *links, int n, const struct link *at, bool up, int *found);

#endif

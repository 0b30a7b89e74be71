/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces that stand on each other: a bridge on its ports, a VLAN device on its parent. Only one of a stack may carry a
 * datapath: the lowest one takes the frames, and what is sent through the upper one does not pass it. By the facts of link.h alone.
 */
#ifndef FPISA_HOST_STACK_H
#define FPISA_HOST_STACK_H

#include "link.h"

/* Do its frames have Ethernet headers? Those of tun, GRE and IPIP devices do not. */
bool link_ethernet(const struct link *l);

/* Return whether the link is a VRF, which routes for its ports, and receives nothing itself. */
bool link_vrf(const struct link *l);

/* Return whether `upper`, directly above `lower`, receives what `lower` does. */
bool link_above(const struct link *upper, const struct link *lower);

/*
 * Return whether the datapath on a port below `l` may answer frames that come through `l`. It may not for a VLAN device, whose tag would be missing, nor for a
 * bond, which chooses among its ports.
 */
bool link_answered_below(const struct link *l);

/* Find the links above `at` (`up`) or below it among the n `links`, the nearest first: found[n] gets their places. Return how many there are. */
int links_stack(const struct link *links, int n, const struct link *at, bool up, int *found);

#endif

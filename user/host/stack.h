/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces that are stacked on each other: a bridge on its ports, a VLAN device on its parent. Only one interface of
 * a stack may carry a datapath. The lowest takes the frames, and frames sent through the upper one do not pass its
 * datapath. These functions use only the facts of link.h.
 */
#ifndef FPISA_HOST_STACK_H
#define FPISA_HOST_STACK_H

#include "link.h"

/* Return whether the link's frames have Ethernet headers. Frames of tun, GRE and IPIP devices do not. */
bool link_ethernet(const struct link *l);

/* Return whether the link is a VRF, which routes for its ports, and receives nothing itself. */
bool link_vrf(const struct link *l);

/* Return whether `upper`, directly above `lower`, receives the frames that `lower` receives. */
bool link_above(const struct link *upper, const struct link *lower);

/*
 * Return whether the datapath on a port below `l` may answer frames that come through `l`. It may not for a VLAN
 * device, whose tag would be missing, nor for a bond, which chooses among its ports.
 */
bool link_answered_below(const struct link *l);

/*
 * Find the links above `at` (`up`) or below it among the n `links`, the nearest first. Write their positions to
 * found[n]. Return how many.
 */
int links_stack(const struct link *links, int n, const struct link *at, bool up, int *found);

#endif

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

/* Is it a VRF? It routes for its ports, and receives nothing itself. */
bool link_vrf(const struct link *l);

/* Does `upper` receive what `lower` does, next to it? */
bool link_above(const struct link *upper, const struct link *lower);

/*
 * May the datapath on a port below `l` answer what comes through `l`? Not for a VLAN device, whose tag would be missing, nor for a
 * bond, which chooses among its ports.
 */
bool link_answered_below(const struct link *l);

/* Of `links`, n of them, those above `at` (`up`), or those below it, the nearest first: found[n] gets their places. How many there are. */
int links_stack(const struct link *links, int n, const struct link *at, bool up, int *found);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kind of an interface means for a datapath on it. The function uses only facts of link.h. */
#ifndef FPISA_HOST_KIND_H
#define FPISA_HOST_KIND_H

#include "link.h"

#define KIND_WHY_LEN 512

/*
 * Return whether no datapath should be attached to the link. Then write the reason, and what to load in its place.
 * `generic`: the datapath would run in the stack; `native`: link_native(). The n `links` are all interfaces.
 */
bool kind_unfit(const struct link *at, bool generic, bool native, const struct link *links, int n,
		char why[KIND_WHY_LEN]);

#endif

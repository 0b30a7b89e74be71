/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Suitability of an interface for a datapath, by the kind of the interface. The function uses only the data of link.h.
 */
#ifndef FPISA_HOST_KIND_H
#define FPISA_HOST_KIND_H

#include "link.h"

#define KIND_WHY_LEN 512

/*
 * Return true if a datapath should not be attached to the link. In this case write the reason, and the interface to
 * load instead. `generic` says that the datapath would run in generic mode, and `native` is the result of link_native().
 * `links` has all n interfaces.
 */
bool kind_unfit(const struct link *at, bool generic, bool native, const struct link *links, int n,
		char why[KIND_WHY_LEN]);

#endif

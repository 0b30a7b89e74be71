// SPDX-License-Identifier: GPL-2.0-only
/* Names of the attach modes. */
#include "cli/names.h"
#include "datapath.h"

const struct name xdp_mode_names[] = {
	{DATAPATH_NATIVE, "native"}, {DATAPATH_SKB, "skb"}, {DATAPATH_OFFLOAD, "offload"}, {0}};
const struct name attach_mode_names[] = {{DATAPATH_NATIVE, "native"}, {DATAPATH_SKB, "skb"}, {0}};

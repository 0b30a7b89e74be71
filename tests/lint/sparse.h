/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sparse includes this header before each file. Hosts are little-endian (fpisa/base.h refuses others), so __le is this
 * host's order, and only __be is a distinct type.
 */
#define _GNU_SOURCE
#include <linux/types.h>
#define __le16 __u16
#define __le32 __u32
#define __le64 __u64

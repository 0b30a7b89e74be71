/* SPDX-License-Identifier: GPL-2.0-only */
/* Assertions of cmocka 2, which deprecates assert_in_range(), for cmocka 1, which has no other. */
#ifndef RANGES_H
#define RANGES_H

#ifndef assert_uint_in_range
#define assert_uint_in_range assert_in_range
#endif

#endif

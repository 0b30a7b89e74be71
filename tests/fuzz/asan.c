/* SPDX-License-Identifier: GPL-2.0-only */
/* Options of the address sanitizer for all targets. */

const char *__asan_default_options(void);

/* What is free for a while is found out soon; more costs a page each. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* Options of the address sanitizer for all targets. */

const char *__asan_default_options(void);

/* A small quarantine still finds a use soon after free(); a larger one costs a page each. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}

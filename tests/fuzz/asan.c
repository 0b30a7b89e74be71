/* SPDX-License-Identifier: GPL-2.0-only */
/* Options of AddressSanitizer for all targets */

const char *__asan_default_options(void);

/*
 * Set a small quarantine, which still finds a use soon after free(). A larger quarantine costs one page for each block.
 */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}

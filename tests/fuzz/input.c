/* SPDX-License-Identifier: GPL-2.0-only */
/* The input of a target. See input.h for the contract. */
#include <string.h>
#include "input.h"

size_t input_take(struct input *in, void *to, size_t most)
{
	most = most < in->left ? most : in->left;
	if (most)
		memcpy(to, in->at, most);
	in->at += most;
	in->left -= most;
	return most;
}

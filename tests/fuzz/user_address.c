/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: the aggregator's address as a worker writes it (user/lib/address.c). An accepted address must be
 * printed back as four numbers and a port.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), again[64];
	struct in_addr address;
	uint16_t port;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	if (!fpisa_parse_address(text, &address, &port)) {
		snprintf(again, sizeof(again), "%s:%u", inet_ntoa(address), port);
		if (!port || strncmp(text, again, strcspn(again, ":")))
			abort();
	}
	free(text);
	return 0;
}

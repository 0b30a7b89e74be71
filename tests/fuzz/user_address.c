/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: the aggregator's address as a worker writes it (user/lib/address.c). An accepted address must be the
 * same after it is printed and parsed again.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/address.h"
#include "lib/base/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), again[FPISA_ENDPOINT_LEN];
	struct fpisa_address address, back;
	uint16_t port;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	if (!fpisa_parse_address(text, &address, &port)) {
		uint16_t number = 0;

		fpisa_endpoint_text(&address, port, again);
		if (!port || fpisa_parse_address(again, &back, &number) || number != port ||
		    !fpisa_same_address(&address, &back))
			abort();
	}
	free(text);
	return 0;
}

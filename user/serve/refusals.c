// SPDX-License-Identifier: GPL-2.0-only
/* The log of refusals; refusals.h has the contracts. */
#include "cli/print.h"
#include "refusals.h"

static const char *const names[] = {
#define X(name, number, error) [number] = #name,
	FPISA_MANAGER_REASONS(X)
#undef X
};

void refusals_say(struct log *l, __u64 now_ms, const struct refusal *r)
{
	char a[ADDRESS_LEN];

	log_line(l, now_ms, "refused %s, %s%s (%s): %s%s%s%s", address_text(r->address, a),
		 *r->key ? "key " : "without a key", r->key, names[r->reason], r->group ? "group " : "", r->group ?: "",
		 r->group ? ": " : "", r->text);
}

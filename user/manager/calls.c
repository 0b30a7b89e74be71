// SPDX-License-Identifier: GPL-2.0-only
/* The comparison of the calls for which ranks wait; calls.h has the contract. */
#include "calls.h"

/*
 * Return whether the call for which one rank waits cannot be the call of that number at another rank, which waits for a
 * later call. There the call has ended. A call ends without results only if it has no elements and its job exists, or if
 * its job has failed.
 */
static bool ended_otherwise(const struct fpisa_manager_waits *here, const struct fpisa_manager_waits *there)
{
	const bool failed = there->failed >> here->index & 1, made = there->made >> here->index & 1;

	return here->call > there->last && !failed && (here->elements || !made);
}

bool manager_calls_differ(const struct fpisa_manager_waits *a, const struct fpisa_manager_waits *b)
{
	if (!a->call || !b->call)
		return false;
	if (a->call == b->call)
		return a->digest != b->digest;
	return a->call < b->call ? ended_otherwise(a, b) : ended_otherwise(b, a);
}

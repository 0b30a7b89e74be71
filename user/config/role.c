// SPDX-License-Identifier: GPL-2.0-only
/*
 * The role of `fpisa serve` on this host; config.h has the contract. Options override the file, and hosts with the same
 * file agree on the manager.
 */
#include "config.h"
#include "lib/address.h"
#include "lib/manager/interface.h"
#include "lib/manager/watch.h"

int config_give(struct config *c, const struct config_given *given)
{
	c->given = *given;
	c->manager.manager = given->manager ?: c->manager.manager;
	c->manager.colocated = given->colocated ?: c->manager.colocated;
	if (fpisa_is_address(&given->address)) {
		c->manager.address = given->address;
		c->manager.other = given->other;
	}
	c->manager.rate = given->rate ?: c->manager.rate;
	return manager_policy_check(&c->manager);
}

bool config_manager_elsewhere(const struct config *c)
{
	const struct manager_policy *p = &c->manager;
	union fpisa_sockaddr at[FPISA_HOST_ADDRESSES];
	int n;

	if (!p->manager || !p->colocated)
		return p->manager;
	n = fpisa_find_host(p->manager, FPISA_MANAGER_SILENCE_MS * 1000000ull, at);
	for (int i = 0; i < n; i++) {
		const struct fpisa_address manager = fpisa_address_from(&at[i]);

		if (fpisa_address_is_here(&manager))
			return false;
	}
	return true;
}

// SPDX-License-Identifier: GPL-2.0-only
/* The interfaces with the datapath below a rank's interface, such as the ports of a bridge; job.h has the contracts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/route.h"
#include "host/stack.h"
#include "job.h"

/* Return the bridge's port towards the rank, or 0 if it is not known. */
static __u32 port_towards(__u32 bridge, const struct fpisa_job *j, __u32 rank)
{
	const struct fpisa_address *to = &j->rank[rank].addr;
	struct route way;

	return route_get(*to, fpisa_own_address(j, to), 0, &way) ? 0 : bridge_port_towards(bridge, &way.next);
}

bool job_port_towards(const struct datapath *dp, __u32 ifindex, const struct fpisa_job *j, __u32 rank,
		      char name[IF_NAMESIZE])
{
	const __u32 towards = port_towards(ifindex, j, rank);
	struct link at, *links = NULL;
	int n = link_get(ifindex, &at) ? 0 : links_get(&links), *found = n > 0 ? calloc(n, sizeof(*found)) : NULL;
	const struct link *port = NULL;
	int loaded = 0;

	n = found ? links_stack(links, n, &at, false, found) : 0;
	for (int k = 0; k < n; k++) {
		const struct link *l = &links[found[k]];
		struct datapath_interface i;

		if (datapath_attached(dp, l->index, &i) <= 0)
			continue;
		loaded++;
		if (!port || l->index == towards)
			port = l;
	}
	if (loaded > 1 && port->index != towards)
		port = NULL;
	snprintf(name, IF_NAMESIZE, "%s", port ? port->name : JOB_PORT_UNKNOWN);
	free(found);
	free(links);
	return loaded > 1;
}

const char *job_port_note(const char *command)
{
	return strstr(command, "@" JOB_PORT_UNKNOWN) ? "; " JOB_PORT_UNKNOWN " is the port towards that worker" : "";
}

bool job_ports_text(const struct datapath *dp, const struct fpisa_job *j, const __u32 *ifindex, __u32 rank,
		    char text[JOB_PORTS_LEN])
{
	char name[IF_NAMESIZE], a[ENDPOINT_LEN];
	bool several = false;
	int len = 0;

	*text = 0;
	for (__u32 r = rank; r < j->workers; r++) {
		if (ifindex[r] != ifindex[rank])
			continue;
		several |= job_port_towards(dp, ifindex[r], j, r, name);
		len += snprintf(text + len, JOB_PORTS_LEN - len, "%s%s@%s", len ? "," : "",
				endpoint_text(j->rank[r].addr, j->rank[r].port, a), name);
	}
	return several;
}

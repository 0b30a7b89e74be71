// SPDX-License-Identifier: GPL-2.0-only
/*
 * doctor: jobs with several ports (job add --ports). Several ports help only if a card gives each port, and so each
 * slot, to one queue: by a rule for each port, or by a hash over the destination port alone.
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "host/ethtool.h"

#define MAX_RULES 256

struct spread {
	const char *dev;
	__u32 port, ports; /* the first port, and the number of ports */
	__u32 queues;
	int rules; /* number of rules of UDP ports, or -errno */
	struct port_rule rule[MAX_RULES];
};

/*
 * Return the maximum number of ports of an active job that has a live rank behind the interface. Set *job to its
 * number.
 */
static __u32 ports_behind(const struct datapath *dp, __u32 ifindex, __u32 *job)
{
	__u32 most = 0;

	for (__u32 id = 0; id < FPISA_MAX_JOBS; id++) {
		const struct fpisa_job *j = &dp->jobs[id];
		bool here = false;

		if (!j->active || j->ports <= most || !datapath_job_here(dp, id))
			continue;
		for (__u32 r = 0; !here && r < j->workers; r++) {
			struct fpisa_peer p;

			here = j->live >> r & 1 && !datapath_peer(dp, id, r, &p) && p.ifindex == ifindex;
		}
		if (here) {
			most = j->ports;
			*job = id;
		}
	}
	return most;
}

static const struct port_rule *rule_of(const struct spread *s, __u32 port)
{
	for (int i = 0; i < s->rules; i++)
		if (s->rule[i].port == port)
			return &s->rule[i];
	return NULL;
}

/*
 * Return whether each port has a rule and the rules name different queues. Set `missing` to the number of ports without
 * a rule.
 */
static bool spread_by_rules(const struct spread *s, __u32 *missing)
{
	const struct port_rule *first = rule_of(s, s->port);
	bool differ = false;

	*missing = 0;
	for (__u32 i = 0; i < s->ports; i++) {
		const struct port_rule *r = rule_of(s, s->port + i);

		*missing += !r;
		differ |= r && first && r->queue != first->queue;
	}
	return !*missing && differ;
}

/* Write the commands that give each port a rule of its own, with the queues in turn. */
static void write_rules(const struct spread *s, char *out, size_t size)
{
	size_t n = 0;

	if (ethtool_ntuple(s->dev) == 0)
		n = snprintf(out, size, "ethtool -K %s ntuple on && ", s->dev);
	for (int i = 0; i < s->rules && n < size; i++)
		if (s->rule[i].port - s->port < s->ports)
			n += snprintf(out + n, size - n, "ethtool -N %s delete %u && ", s->dev, s->rule[i].location);
	for (__u32 i = 0; i < s->ports && n < size; i++)
		n += snprintf(out + n, size - n, "%sethtool -N %s flow-type udp4 dst-port %u action %u",
			      i ? " && " : "", s->dev, s->port + i, i % s->queues);
}

static void check_spread(struct doctor *d, const struct spread *s, __u32 job)
{
	bool hashed, ruled = s->rules >= 0;
	char fix[FIX_LEN];
	__u32 missing;
	__u64 hash = 0;

	hashed = !ethtool_udp_hash(s->dev, &hash);
	if (ruled && spread_by_rules(s, &missing)) {
		finding(d, LEVEL_OK, s->dev, "ports", NULL, "each of %u ports of job %u has a queue by rule", s->ports,
			job);
	} else if (hashed && hash == RXH_L4_B_2_3 && (!ruled || missing == s->ports)) {
		finding(d, LEVEL_OK, s->dev, "ports", NULL,
			"UDP spread by destination port: each slot of job %u has a queue", job);
	} else if (ruled) {
		write_rules(s, fix, sizeof(fix));
		if (missing)
			finding(d, LEVEL_WARN, s->dev, "ports", fix,
				"%u of %u ports of job %u have no rule: a slot's frames arrive at several queues",
				missing, s->ports, job);
		else
			finding(d, LEVEL_WARN, s->dev, "ports", fix, "all %u ports of job %u have rules for one queue",
				s->ports, job);
	} else if (hashed) {
		snprintf(fix, sizeof(fix), "ethtool -N %s rx-flow-hash udp4 n", s->dev);
		finding(d, LEVEL_WARN, s->dev, "ports", fix,
			"UDP is not spread by destination port alone: frames of a slot of job %u arrive at several "
			"queues",
			job);
	} else {
		finding(d, LEVEL_OK, s->dev, "ports", NULL,
			"the driver reports neither rules nor hash, so it is not known whether job %u's %u ports "
			"have a queue each",
			job, s->ports);
	}
}

void doctor_ports(struct doctor *d, const char *dev, __u32 ifindex)
{
	struct spread s = {.dev = dev};
	struct channels c = {0};
	__u32 job = 0;

	if (!d->dp || ethtool_channels(dev, &c) || c.rx < 2)
		return;
	s.ports = ports_behind(d->dp, ifindex, &job);
	if (s.ports < 2)
		return;
	if (d->dp->steering.cpus) {
		finding(d, LEVEL_OK, dev, "ports", NULL, "a CPU map gives each slot to one CPU, whatever its port");
		return;
	}
	s.port = d->dp->control->port ?: FPISA_PORT;
	s.queues = c.rx;
	s.rules = ethtool_port_rules(dev, s.rule, MAX_RULES);
	check_spread(d, &s, job);
}

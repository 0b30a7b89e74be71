// SPDX-License-Identifier: GPL-2.0-only
/* A job's parameters and members as text and as JSON. */
#include <arpa/inet.h>
#include <json-c/json.h>
#include <math.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "cli/names.h"
#include "cli/print.h"
#include "job.h"

struct member {
	char address[ADDRESS_LEN], endpoint[ENDPOINT_LEN], dev[IF_NAMESIZE], mac[18];
	double silence;
	unsigned int port, path_mtu;
	bool seen; /* the HELLO has arrived */
};

static int get_member(const struct datapath *dp, __u32 job, const struct fpisa_job *j, __u32 rank, struct member *m)
{
	struct fpisa_peer p;
	int err = datapath_peer(dp, job, rank, &p) ?: job_silence(dp, job, rank, &m->silence);

	if (err)
		return err;
	address_text(j->rank[rank].addr, m->address);
	endpoint_text(j->rank[rank].addr, j->rank[rank].port, m->endpoint);
	m->port = ntohs(j->rank[rank].port);
	if (!datapath_job_here(dp, job))
		snprintf(m->dev, sizeof(m->dev), "if%u", p.ifindex);
	else if (!if_indextoname(p.ifindex, m->dev))
		snprintf(m->dev, sizeof(m->dev), "%s", "?");
	snprintf(m->mac, sizeof(m->mac), "%02x:%02x:%02x:%02x:%02x:%02x", p.mac[0], p.mac[1], p.mac[2], p.mac[3],
		 p.mac[4], p.mac[5]);
	m->path_mtu = p.path_mtu;
	m->seen = memcmp(p.mac, "\0\0\0\0\0", 6);
	return 0;
}

static const char *state_of(__u64 live, __u64 joined, __u32 rank)
{
	return !(live >> rank & 1) ? "removed" : joined >> rank & 1 ? "joined" : "missing";
}

/* The state of a job, for both outputs. */
struct standing {
	struct fpisa_job job;
	struct fpisa_session session;
	__u64 joined;
	__u64 missing, chunk; /* ranks for which the oldest open round waits, or 0, and the chunk of the round */
};

static int get_standing(const struct datapath *dp, __u32 job, struct standing *st)
{
	int err = datapath_job(dp, job, &st->job) ?: datapath_session(dp, job, &st->session);

	st->chunk = 0;
	if (!err)
		err = job_missing(dp, job, &st->missing, &st->chunk);
	if (!err)
		st->joined = job_joined(&st->job, &st->session);
	return err;
}

int job_print_text(const struct datapath *dp, __u32 job)
{
	char address[ENDPOINT_LEN], group[ENDPOINT_LEN], ranks[RANKS_LEN], silence[SILENCE_LEN];
	char arithmetic[ARITHMETIC_LEN], parent[PARENT_LEN];
	struct standing st;
	__u32 port;
	int err;

	err = get_standing(dp, job, &st);
	if (err)
		return err;
	port = dp->control->port ?: FPISA_PORT;
	printf("job         %u\n", job);
	printf("address     %s", endpoint_text(st.job.address, htons(port), address));
	if (st.job.ipv4)
		printf(" and %s", endpoint_text(fpisa_ipv4(st.job.ipv4), htons(port), address));
	if (st.job.ports > 1)
		printf(" to %u, slots by port", port + st.job.ports - 1);
	putchar('\n');
	job_arithmetic_text(&st.job, arithmetic);
	printf("mode        %s\n", arithmetic);
	printf("pipeline    %s, leading zeros by %s\n", name_of(pipeline_names, st.job.pipeline),
	       name_of(clz_names, st.job.clz));
	printf("fan-out     %s", name_of(fanout_names, st.job.fanout));
	if (st.job.fanout == FPISA_FANOUT_MULTICAST)
		printf(" to %s", endpoint_text(st.job.group, st.job.group_port, group));
	job_parent_text(&st.job, parent);
	if (*parent)
		printf("\nparent      %s, the last number%s there", parent,
		       st.job.parent.given ? "s are rank and job" : " is the rank");
	printf("\nelements    %u a frame\n", st.job.elements);
	printf("window      %u, slot entries %u to %u\n", st.job.window, st.job.slot_base,
	       st.job.slot_base + 2 * st.job.window - 1);
	if (datapath_job_limbs(&st.job))
		printf("limbs       %llu KB of superaccumulators\n",
		       (unsigned long long)datapath_job_limbs(&st.job) / 1024);
	if (st.job.vlan)
		printf("vlan        %u%s\n", st.job.vlan,
		       st.job.stripped ? ", of frames whose tags the card has removed too" : "");
	if (st.job.token)
		printf("token       %016llx\n", (unsigned long long)st.job.token);
	if (!datapath_job_here(dp, job))
		puts("network     another network namespace's, its interfaces by number");
	job_print_faults(&st.job.faults);
	if (st.session.generation)
		printf("generation  %u%s\n", st.session.generation,
		       st.session.joining ? ", a new one is gathering" : "");
	else
		printf("generation  none yet\n");
	err = job_silence_text(dp, job, st.missing, silence);
	if (err)
		return err;
	if (st.missing)
		printf("waiting     for ranks %s in chunk %llu%s\n", ranks_text(st.missing, ranks),
		       (unsigned long long)st.chunk, silence);
	printf("\n%4s  %-21s  %-16s  %-17s  %-9s  %s\n", "rank", "address", "interface", "mac", "state", "last heard");
	for (__u32 r = 0; r < st.job.workers; r++) {
		char dev[IF_NAMESIZE + 1], age[AGE_LEN];
		struct member m;

		err = get_member(dp, job, &st.job, r, &m);
		if (err)
			return err;
		/* Print the interface that was given to `job add`, or that was found by the route. */
		snprintf(dev, sizeof(dev), "%s%s", st.job.rank[r].given ? "@" : "", m.dev);
		job_age_text(m.silence, age);
		printf("%4u  %-21s  %-16s  %-17s  %-9s  %s%s", r, m.endpoint, dev, m.seen ? m.mac : "-",
		       state_of(st.job.live, st.joined, r), isinf(m.silence) ? "never" : age,
		       isinf(m.silence) ? "" : " ago");
		if (m.path_mtu)
			printf(", path MTU %u", m.path_mtu);
		putchar('\n');
	}
	return 0;
}

int job_print_json(const struct datapath *dp, __u32 job)
{
	struct json_object *o, *members;
	struct standing st;
	int err;

	err = get_standing(dp, job, &st);
	if (err)
		return err;
	o = json_object_new_object();
	members = json_object_new_array();
	json_add_number(o, "job", job);
	job_parameters_json(o, &st.job, 0);
	json_add_number(o, "port", dp->control->port ?: FPISA_PORT);
	json_add_number(o, "guard", st.job.guard);
	json_add_number(o, "group_port", ntohs(st.job.group_port));
	json_add_number(o, "slot_base", st.job.slot_base);
	json_object_object_add(o, "live", ranks_json(st.job.live));
	json_object_object_add(o, "joined", ranks_json(st.joined));
	json_object_object_add(o, "missing", ranks_json(st.missing));
	json_add_number(o, "generation", st.session.generation);
	json_object_object_add(o, "gathering", json_object_new_boolean(st.session.joining || !st.session.generation));
	json_object_object_add(o, "members", members);
	for (__u32 r = 0; !err && r < st.job.workers; r++) {
		struct json_object *e = json_object_new_object();
		struct member m = {.seen = false};

		json_object_array_add(members, e);
		err = get_member(dp, job, &st.job, r, &m);
		json_add_number(e, "rank", r);
		json_add_string(e, "address", m.address);
		json_add_number(e, "port", m.port);
		json_add_string(e, "dev", m.dev);
		json_object_object_add(e, "given", json_object_new_boolean(st.job.rank[r].given));
		json_add_string(e, "mac", m.seen ? m.mac : NULL);
		json_add_string(e, "state", state_of(st.job.live, st.joined, r));
		json_add_double(e, "silent_s", m.silence);
		json_object_object_add(e, "path_mtu", m.path_mtu ? json_object_new_int64(m.path_mtu) : NULL);
		json_add_number(e, "incarnation", st.session.incarnation[r]);
	}
	if (err) {
		json_object_put(o);
		return err;
	}
	return print_json(o, false);
}

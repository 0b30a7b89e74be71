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
	char address[ADDRESS_LEN], dev[IF_NAMESIZE], mac[18];
	double silence;
	unsigned int port;
	bool seen; /* its HELLO came */
};

static int get_member(const struct datapath *dp, __u32 job, const struct fpisa_job *j, __u32 rank,
		      struct member *m)
{
	struct fpisa_peer p;
	int err = datapath_peer(dp, job, rank, &p) ?: job_silence(dp, job, rank, &m->silence);

	if (err)
		return err;
	address_text(j->rank[rank].addr, m->address);
	m->port = ntohs(j->rank[rank].port);
	if (!datapath_job_here(dp, job))
		snprintf(m->dev, sizeof(m->dev), "if%u", p.ifindex);
	else if (!if_indextoname(p.ifindex, m->dev))
		snprintf(m->dev, sizeof(m->dev), "%s", "?");
	snprintf(m->mac, sizeof(m->mac), "%02x:%02x:%02x:%02x:%02x:%02x", p.mac[0], p.mac[1], p.mac[2],
		 p.mac[3], p.mac[4], p.mac[5]);
	m->seen = memcmp(p.mac, "\0\0\0\0\0", 6);
	return 0;
}

static const char *state_of(__u64 live, __u64 joined, __u32 rank)
{
	return !(live >> rank & 1) ? "taken out" : joined >> rank & 1 ? "joined" : "missing";
}

int job_print_text(const struct datapath *dp, __u32 job)
{
	char address[ADDRESS_LEN], group[ADDRESS_LEN], ranks[RANKS_LEN], silence[SILENCE_LEN];
	char arithmetic[ARITHMETIC_LEN];
	struct fpisa_session s;
	struct fpisa_job j;
	__u64 joined, missing, chunk = 0;
	__u32 port;
	int err;

	err = datapath_job(dp, job, &j);
	if (!err)
		err = datapath_session(dp, job, &s);
	if (!err)
		err = job_missing(dp, job, &missing, &chunk);
	if (err)
		return err;
	joined = job_joined(&j, &s);
	port = dp->control->port ?: FPISA_PORT;
	printf("job         %u\n", job);
	printf("address     %s:%u", address_text(j.address, address), port);
	if (j.ports > 1)
		printf(" to %u, slots by port", port + j.ports - 1);
	putchar('\n');
	job_arithmetic_text(&j, arithmetic);
	printf("mode        %s\n", arithmetic);
	printf("pipeline    %s, leading zeros by %s\n", name_of(pipeline_names, j.pipeline),
	       name_of(clz_names, j.clz));
	printf("fan-out     %s", name_of(fanout_names, j.fanout));
	if (j.fanout == FPISA_FANOUT_MULTICAST)
		printf(" to %s:%u", address_text(j.group, group), ntohs(j.group_port));
	printf("\nelements    %u a frame\n", j.elements);
	printf("window      %u, slot entries %u to %u\n", j.window, j.slot_base,
	       j.slot_base + 2 * j.window - 1);
	if (j.token)
		printf("token       %016llx\n", (unsigned long long)j.token);
	if (!datapath_job_here(dp, job))
		puts("network     another network namespace's, its interfaces by number");
	job_print_faults(&j.faults);
	if (s.generation)
		printf("generation  %u%s\n", s.generation, s.joining ? ", a new one is gathering" : "");
	else
		printf("generation  none yet\n");
	err = job_silence_text(dp, job, missing, silence);
	if (err)
		return err;
	if (missing)
		printf("waiting     for ranks %s in chunk %llu%s\n", ranks_text(missing, ranks),
		       (unsigned long long)chunk, silence);
	printf("\n%4s  %-21s  %-16s  %-17s  %-9s  %s\n", "rank", "address", "interface", "mac", "state",
	       "last heard");
	for (__u32 r = 0; r < j.workers; r++) {
		char where[ADDRESS_LEN + 8], dev[IF_NAMESIZE + 1], age[AGE_LEN];
		struct member m;

		err = get_member(dp, job, &j, r, &m);
		if (err)
			return err;
		snprintf(where, sizeof(where), "%s:%u", m.address, m.port);
		/* As `job add` was given it, or as the route leads. */
		snprintf(dev, sizeof(dev), "%s%s", j.rank[r].given ? "@" : "", m.dev);
		job_age_text(m.silence, age);
		printf("%4u  %-21s  %-16s  %-17s  %-9s  %s%s\n", r, where, dev, m.seen ? m.mac : "-",
		       state_of(j.live, joined, r), isinf(m.silence) ? "never" : age,
		       isinf(m.silence) ? "" : " ago");
	}
	return 0;
}

int job_print_json(const struct datapath *dp, __u32 job)
{
	struct json_object *o, *members;
	struct fpisa_session s;
	struct fpisa_job j;
	__u64 joined, missing, chunk;
	int err;

	err = datapath_job(dp, job, &j);
	if (!err)
		err = datapath_session(dp, job, &s);
	if (!err)
		err = job_missing(dp, job, &missing, &chunk);
	if (err)
		return err;
	joined = job_joined(&j, &s);
	o = json_object_new_object();
	members = json_object_new_array();
	json_add_number(o, "job", job);
	job_parameters_json(o, &j, 0);
	json_add_number(o, "port", dp->control->port ?: FPISA_PORT);
	json_add_number(o, "guard", j.guard);
	json_add_number(o, "group_port", ntohs(j.group_port));
	json_add_number(o, "slot_base", j.slot_base);
	json_object_object_add(o, "live", ranks_json(j.live));
	json_object_object_add(o, "joined", ranks_json(joined));
	json_object_object_add(o, "missing", ranks_json(missing));
	json_add_number(o, "generation", s.generation);
	json_object_object_add(o, "gathering", json_object_new_boolean(s.joining || !s.generation));
	json_object_object_add(o, "members", members);
	for (__u32 r = 0; !err && r < j.workers; r++) {
		struct json_object *e = json_object_new_object();
		struct member m = { .seen = false };

		json_object_array_add(members, e);
		err = get_member(dp, job, &j, r, &m);
		json_add_number(e, "rank", r);
		json_add_string(e, "address", m.address);
		json_add_number(e, "port", m.port);
		json_add_string(e, "dev", m.dev);
		json_object_object_add(e, "given", json_object_new_boolean(j.rank[r].given));
		json_add_string(e, "mac", m.seen ? m.mac : NULL);
		json_add_string(e, "state", state_of(j.live, joined, r));
		json_add_double(e, "silent_s", m.silence);
		json_add_number(e, "incarnation", s.incarnation[r]);
	}
	if (err) {
		json_object_put(o);
		return err;
	}
	return print_json(o, false);
}

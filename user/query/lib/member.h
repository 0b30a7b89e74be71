/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A member of a query (doc/query-wire.md), worker or master. A member joins, and sends and takes frames of its epoch.
 * Without an aggregator, rows go straight to the master. Then worker and master share a cookie that the master has
 * drawn, and the epoch is the attempt; such frames have no tags.
 */
#ifndef FPISA_QUERY_MEMBER_H
#define FPISA_QUERY_MEMBER_H

#include <netinet/in.h>

#include "fpisa/query/query.h"
#include "fpisa/tag.h"
#include "lib/base/hello.h"
#include "lib/transport/faults.h"
#include "lib/transport/transport.h"

struct fpisa_member {
	struct fpisa_transport *t;
	uint32_t query;
	struct fpisa_key token, rank_key;
	struct fpisa_nh_key nh; /* key of the tags of a query with a token */
	struct fpisa_incarnation incarnation;
	struct fpisa_joining joining;
	uint32_t epoch;
	uint32_t rank, members;
	uint8_t kind, key_bytes, order; /* enum fpisa_job_kind; order: FPISA_QUERY_ASCENDING and other flags */
	uint8_t form;			/* enum fpisa_value_form */
	uint8_t filter_bytes;		/* bytes of a join key; 0: the query has no filter */
	uint32_t limit;
};

/* A member's frame: a header, then a payload of whole FPISA_QUERY_PAD. */
struct fpisa_member_frame {
	struct fpisa_hdr header;
	void *payload;
	size_t bytes;
};

/*
 * Open the socket. Addresses are in network order, ports in host order; a local port of 0 means any port. Return 0 or
 * -errno, the message set.
 */
int fpisa_member_open(struct fpisa_member *m, uint32_t address, uint16_t port, uint16_t local_port);
void fpisa_member_close(struct fpisa_member *m);
uint16_t fpisa_member_port(const struct fpisa_member *m); /* return the local port; call before faults are injected */

/* Make room for unread frames, and inject faults (transport.h, faults.h). Return 0 or -errno, the message set. */
int fpisa_member_prepare(struct fpisa_member *m, const struct fpisa_fault_rates *faults, uint64_t seed);

/* Begin to join again, as another incarnation. Return 0 or -EIO. */
int fpisa_member_join(struct fpisa_member *m, uint32_t query, uint64_t token);

/* Mark the member as joined, without an aggregator. */
void fpisa_member_direct(struct fpisa_member *m, uint32_t epoch, uint32_t rank, uint32_t key_bytes, uint32_t form,
			 uint64_t cookie);

/* Send a HELLO if it is due. Return 0 or -errno, the message set. */
int fpisa_member_turn(struct fpisa_member *m, uint64_t now);

/* Return when the next HELLO is due, or UINT64_MAX if never. */
uint64_t fpisa_member_due(const struct fpisa_member *m);

/*
 * Take a received frame. Return a whole frame of our epoch from a permitted sender, or NULL. Answers to HELLO are
 * handled here. Set *error and the message if the job is not a query, or if another answer ends the query.
 */
const struct fpisa_hdr *fpisa_member_take(struct fpisa_member *m, const struct fpisa_in *in, int *error);

/* Send frames whose type, flags, count, slot and chunk are set. Return 0 or -errno, the message set. */
int fpisa_member_send(struct fpisa_member *m, struct fpisa_member_frame *frame, int n);

/* Return the MTU of the path to the address, or 0 if it is unknown. */
uint16_t fpisa_member_mtu(uint32_t address);

/* Return how many entries of `bytes` bytes fit into a frame, at most `most`. */
uint32_t fpisa_member_fit(uint32_t mtu, uint32_t bytes, uint32_t most);

/* Return the name of a kind of query: FPISA_QUERY_TOPN, FPISA_QUERY_TABLE or FPISA_QUERY_JOIN. */
const char *fpisa_kind_name(uint8_t kind);

/* Return the name of a valid enum fpisa_value_form. */
const char *fpisa_form_name(uint32_t form);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A member of a query (doc/query-wire.md), which is a worker or the master. A member joins, and sends and receives
 * frames of its epoch. Without an aggregator, workers send rows directly to the master. Then worker and master share a
 * random cookie of the master, the epoch is the attempt, and frames have no tags.
 */
#ifndef FPISA_QUERY_MEMBER_H
#define FPISA_QUERY_MEMBER_H

#include "fpisa/query/query.h"
#include "fpisa/tag.h"
#include "lib/base/hello.h"
#include "lib/transport/faults.h"
#include "lib/transport/transport.h"

struct fpisa_member {
	struct fpisa_transport *t;
	uint32_t headers; /* bytes of a packet before the FPISA header */
	uint32_t query;
	struct fpisa_key token, rank_key;
	struct fpisa_nh_key nh; /* key of the frames' tags, if the query has a token */
	struct fpisa_incarnation incarnation;
	struct fpisa_joining joining;
	uint32_t epoch;
	uint32_t rank, members;
	/* kind is an enum fpisa_job_kind; order has FPISA_QUERY_ASCENDING and other flags */
	uint8_t kind, key_bytes, order;
	uint8_t form;	      /* enum fpisa_value_form */
	uint8_t filter_bytes; /* bytes of a join key; 0 if the query has no filter */
	uint32_t limit;
};

/* A frame of a member. The header is followed by the payload, which is a multiple of FPISA_QUERY_PAD. */
struct fpisa_member_frame {
	struct fpisa_hdr header;
	void *payload;
	size_t bytes;
};

/*
 * Open the socket. Ports are in host byte order. A local port of 0 means any port. Return 0, or -errno with the message
 * set.
 */
int fpisa_member_open(struct fpisa_member *m, const struct fpisa_address *to, uint16_t port, uint16_t local_port);
void fpisa_member_close(struct fpisa_member *m);
uint16_t fpisa_member_port(const struct fpisa_member *m); /* returns the local port; call before faults are injected */

/* Make room for unread frames, and inject faults (transport.h, faults.h). Return 0, or -errno with the message set. */
int fpisa_member_prepare(struct fpisa_member *m, const struct fpisa_fault_rates *faults, uint64_t seed);

/* Begin to join again with a new incarnation. Return 0 or -EIO. */
int fpisa_member_join(struct fpisa_member *m, uint32_t query, uint64_t token);

/* Mark a member without an aggregator as joined. */
void fpisa_member_direct(struct fpisa_member *m, uint32_t epoch, uint32_t rank, uint32_t key_bytes, uint32_t form,
			 uint64_t cookie);

/* Send a HELLO if it is due. Return 0, or -errno with the message set. */
int fpisa_member_turn(struct fpisa_member *m, uint64_t now);

/* Return when the next HELLO is due, or UINT64_MAX if no HELLO is due. */
uint64_t fpisa_member_due(const struct fpisa_member *m);

/*
 * Take a received frame. If the frame is complete, has our epoch and comes from a permitted sender, return it.
 * Otherwise return NULL. Handle answers to HELLO here. Set *error and the message if the job is not a query, or if
 * another answer ends the query.
 */
const struct fpisa_hdr *fpisa_member_take(struct fpisa_member *m, const struct fpisa_in *in, int *error);

/* Send frames. The caller has set type, flags, count, slot and chunk. Return 0, or -errno with the message set. */
int fpisa_member_send(struct fpisa_member *m, struct fpisa_member_frame *frame, int n);

/* Return the MTU of the path to the peer, or 0 if the MTU is unknown or the member is not open. */
uint16_t fpisa_member_mtu(const struct fpisa_member *m);

/* Return the number of entries of `bytes` bytes that fit into a frame of `mtu` bytes. The result is at most `most`. */
uint32_t fpisa_member_fit(const struct fpisa_member *m, uint32_t mtu, uint32_t bytes, uint32_t most);

/* Return the name of a kind of query: FPISA_QUERY_TOPN, FPISA_QUERY_TABLE or FPISA_QUERY_JOIN. */
const char *fpisa_kind_name(uint8_t kind);

/* Return the name of a valid enum fpisa_value_form. */
const char *fpisa_form_name(uint32_t form);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Make frames for tests and benches, and for attackers in tests. fpisa/wire.h describes the format. */
#ifndef FPISA_TESTBED_FRAME_H
#define FPISA_TESTBED_FRAME_H

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fpisa/frame.h"
#include "fpisa/wire.h"

#define FRAME_NO_RANK 0xffff /* the rank in a HELLO */

static inline struct fpisa_hdr *frame_hdr(uint8_t *frame)
{
	return (struct fpisa_hdr *)(frame + FPISA_OFFSET);
}

static inline void *frame_payload(uint8_t *frame)
{
	return frame + FPISA_PAYLOAD_OFFSET;
}

/* Return the checksum of a header and its payload. The size of the payload must be a multiple of 8 bytes. */
static inline uint32_t frame_checksum(const struct fpisa_hdr *h, const void *payload, size_t bytes)
{
	struct fpisa_sum s = {0};

	fpisa_sum_words(&s, h, FPISA_SUM_HDR_WORDS);
	fpisa_sum_words(&s, payload, (int)(bytes / 8));
	return fpisa_sum_fold(&s);
}

/* Return the tag of an ADD, or of an answer to an ADD, for a job with a token. `key` is the key of the sender. */
static inline uint64_t frame_tag(const struct fpisa_job *j, const struct fpisa_key *key, const struct fpisa_hdr *h,
				 const void *payload, size_t bytes)
{
	struct fpisa_key token = fpisa_token_of(j);
	__u64 k[FPISA_NH_WORDS];
	struct fpisa_nh s;
	int words = (int)(bytes / 8);

	if (FPISA_NH_PAYLOAD + words >= FPISA_NH_WORDS)
		return 0;
	fpisa_nh_fill(k, FPISA_NH_PAYLOAD + words + 1, &token);
	s = fpisa_nh_header(h, k);
	fpisa_nh_words(&s, payload, k + FPISA_NH_PAYLOAD, words);
	return fpisa_tag(key, h->chunk, &s, k + FPISA_NH_PAYLOAD + words);
}

/* Return the proof of a HELLO or a WELCOME of the job. */
static inline uint64_t frame_proof(const struct fpisa_job *j, const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	struct fpisa_key token = fpisa_token_of(j);
	__u64 k[FPISA_NH_HELLO_WORDS];

	fpisa_nh_fill(k, FPISA_NH_HELLO_WORDS, &token);
	return fpisa_proof(j, k, h, p);
}

/*
 * Seal a frame of the job that is otherwise complete. Set the checksum, proof and tag that the job and the type
 * require. The tag of an ADD depends on the cookie in the frame.
 */
static inline void frame_seal(const struct fpisa_job *j, struct fpisa_hdr *h, void *payload, size_t bytes)
{
	struct fpisa_key key;

	if (h->type == FPISA_TYPE_HELLO && bytes == sizeof(struct fpisa_hello))
		((struct fpisa_hello *)payload)->proof = frame_proof(j, h, (const struct fpisa_hello *)payload);
	h->checksum = j->keyed && h->type != FPISA_TYPE_HELLO ? 0 : frame_checksum(h, payload, bytes);
	if (!j->keyed || h->type == FPISA_TYPE_HELLO)
		return;
	key = fpisa_rank_key(j, h->rank, h->bitmap);
	h->secret = frame_tag(j, &key, h, payload, bytes);
}

/* Return whether the aggregator has sealed its answer correctly. The answer is for `rank`, whose cookie is `cookie`. */
static inline int frame_sealed(const struct fpisa_job *j, const struct fpisa_hdr *h, const void *payload, size_t bytes,
			       uint32_t rank, uint64_t cookie)
{
	struct fpisa_key token = fpisa_token_of(j), key;

	if (h->type == FPISA_TYPE_WELCOME || !j->keyed)
		return frame_checksum(h, payload, bytes) == h->checksum &&
		       (h->type != FPISA_TYPE_WELCOME || frame_proof(j, h, (const struct fpisa_hello *)payload) ==
								 ((const struct fpisa_hello *)payload)->proof);
	if (h->type == FPISA_TYPE_RESULT)
		key = fpisa_key_of(&token, FPISA_KEY_RESULTS, 0, fpisa_result_secret(&j->key, h->generation));
	else if (!h->generation)
		key = fpisa_key_of(&token, FPISA_KEY_HELLO, 0, 0);
	else
		key = fpisa_rank_key(j, rank, cookie);
	return !h->checksum && h->secret == frame_tag(j, &key, h, payload, bytes);
}

/*
 * Return the checksum of an IPv4 header without options. The result is 0 if the header already has the right checksum.
 */
static inline uint16_t frame_ip_checksum(const void *ip)
{
	const uint8_t *p = (const uint8_t *)ip;
	uint32_t sum = 0;

	for (int i = 0; i < FPISA_IP_LEN; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t) ~(sum + (sum >> 16)));
}

/* Write the Ethernet, IPv4 and UDP headers of a frame from a rank to the aggregator. Return the length of the frame. */
static inline uint32_t frame_outer(uint8_t *frame, const struct fpisa_job *j, uint32_t rank, uint32_t payload)
{
	const uint16_t udp_len = (uint16_t)(FPISA_UDP_LEN + FPISA_HDR_LEN + payload);
	const struct fpisa_rank *from = &j->rank[rank % FPISA_MAX_WORKERS];
	const struct ethhdr eth = {
		.h_dest = {2, 0, 0, 0, 0, 0xfe}, .h_source = {2, 0, 0, 0, 1, (uint8_t)rank}, .h_proto = htons(ETH_P_IP)};
	const __be16 udp[] = {from->port, htons(FPISA_PORT), htons(udp_len), 0};
	struct iphdr ip = {.version = 4,
			   .ihl = 5,
			   .ttl = 64,
			   .protocol = IPPROTO_UDP,
			   .tot_len = htons((uint16_t)(FPISA_IP_LEN + udp_len)),
			   .saddr = from->addr.w[3],
			   .daddr = j->address.w[3]};

	ip.check = frame_ip_checksum(&ip);
	memcpy(frame, &eth, sizeof(eth));
	memcpy(frame + FPISA_ETH_LEN, &ip, sizeof(ip));
	memcpy(frame + FPISA_ETH_LEN + FPISA_IP_LEN, udp, sizeof(udp));
	return FPISA_PAYLOAD_OFFSET + payload;
}

/*
 * Return the header of a rank's HELLO without a checksum. frame_add() returns the header of the rank's contribution to
 * a chunk.
 */
static inline struct fpisa_hdr frame_hello(const struct fpisa_job *j, uint32_t id, uint32_t rank, uint64_t incarnation)
{
	return (struct fpisa_hdr){.magic = FPISA_MAGIC,
				  .version = FPISA_VERSION,
				  .type = FPISA_TYPE_HELLO,
				  .job = id,
				  .rank = FRAME_NO_RANK,
				  .secret = fpisa_cookie(&j->key, rank, incarnation),
				  .aux = incarnation};
}

static inline struct fpisa_hdr frame_add(const struct fpisa_job *j, uint32_t id, uint32_t generation, uint32_t rank,
					 uint64_t chunk, uint32_t count, uint64_t cookie)
{
	return (struct fpisa_hdr){.magic = FPISA_MAGIC,
				  .version = FPISA_VERSION,
				  .type = FPISA_TYPE_ADD,
				  .format = j->format,
				  .op = FPISA_OP_SUM,
				  .job = id,
				  .generation = generation,
				  .slot = fpisa_slot_of(chunk, j->window),
				  .rank = (uint16_t)rank,
				  .count = (uint16_t)count,
				  .chunk = chunk,
				  .secret = j->keyed ? 0 : cookie,
				  .bitmap = j->keyed ? cookie : 0};
}

#endif

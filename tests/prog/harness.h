/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loaded datapath under BPF_PROG_TEST_RUN, with real programs, real maps, and frames from memory. Nothing is pinned
 * or attached.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "fpisa/frame.h"
#include "fpisa.skel.h"

#define HARNESS_AGGREGATOR 0x0a4d00feu	      /* 10.77.0.254 */
#define HARNESS_WORKER(r) (0x0a4d0001u + (r)) /* from 10.77.0.1 on */
#define HARNESS_FRAME 4096
#define HARNESS_INCARNATION 1		 /* incarnation that all ranks of a new job have */
#define HARNESS_DIGEST 0x646967657374ull /* digest of earlier calls and of a contribution's call */

/* The contents of the program array */
enum harness_stages {
	HARNESS_ENTRY,	  /* the entry program in every slot, as after plain `ip link` */
	HARNESS_PROGRAMS, /* fpisa_mau0..8, as after `fpisa load` */
};

struct harness {
	struct fpisa_bpf *skel;
	struct bpf_object *family[FPISA_FAMILIES]; /* each family is loaded when a job first needs it */
	int prog, cpus;
	uint32_t generation;
	bool fanned_out[FPISA_MAX_JOBS];	 /* job numbers with a map of ports */
	uint64_t incarnation[FPISA_MAX_WORKERS]; /* each rank's incarnation, which determines the secret of its contributions */
};

struct frame {
	_Alignas(8) uint8_t ip_align[2]; /* as NET_IP_ALIGN, so that the headers after the Ethernet header are aligned */
	uint8_t data[HARNESS_FRAME];
	uint32_t len;
	int vlan;   /* VLAN ID of the tag that harness_run() removed from an outgoing frame, or 0 */
	int action; /* XDP_*, after harness_run() */
};

/* The harness of a test program, which the group's fixtures open and close. NULL where BPF is not permitted. */
extern struct harness *harness;
extern const char *harness_why;

int harness_setup(void **state);
int harness_teardown(void **state);

/* This must be the first line of a test. */
#define NEED_BPF()                                                \
	do {                                                      \
		if (!harness) {                                   \
			print_message("skip: %s\n", harness_why); \
			skip();                                   \
		}                                                 \
	} while (0)

/* Set this function to change the maps of every object before the object is loaded. */
extern void (*harness_prepare)(struct bpf_object *o);

/* Load the datapath. Return NULL and the reason in *why if this process may not load BPF programs. */
struct harness *harness_open(const char **why);
void harness_close(struct harness *h);
void harness_stages(struct harness *h, enum harness_stages s);
void harness_hole(struct harness *h, uint8_t family, int stage); /* empty this slot, or FPISA_ADMISSION, in both banks */
void harness_fill(struct harness *h, uint8_t family); /* fill the family's stage programs and its admission again */

/* Create a job, with defaults for the fields of *j that are 0. All ranks have joined. */
void harness_job(struct harness *h, uint32_t id, struct fpisa_job *j);

/* Make an ADD from `rank` of job `id`, with `count` packed elements of *payload. `payload` may be NULL. */
void harness_add(struct frame *f, const struct harness *h, const struct fpisa_job *j, uint32_t id, uint32_t rank,
		 uint64_t chunk, uint32_t count, const void *payload);
void harness_hello(struct frame *f, const struct fpisa_job *j, uint32_t id, uint32_t rank, uint64_t incarnation);

/* Send the frame to the aggregator's port number `port`, counted from 0. */
void harness_port(struct frame *f, uint32_t port);

/* Insert a tag with this type, in host order, and this ID. */
void harness_tag(struct frame *f, uint16_t type, uint16_t id);

/* Recompute the FPISA checksum and the IPv4 checksum after a change of the frame. Return whether both were right. */
void harness_set_checksums(struct frame *f);
bool harness_checksums_right(const struct frame *f);

bool harness_is_ipv6(const struct frame *f);

/* Return the right UDP checksum by RFC 768, 1071 and 8200, never 0. Return whether the frame has this checksum. */
uint16_t harness_udp_checksum(const struct frame *f);
bool harness_udp_checksum_right(const struct frame *f);

struct fpisa_hdr *harness_hdr(struct frame *f);
uint32_t *harness_payload(struct frame *f);

/*
 * Run the entry program on the frame, and store the output in the frame. An outgoing frame must have the right UDP
 * checksum. The function removes its VLAN tag. Return the duration of the run in ns.
 */
uint32_t harness_run(struct harness *h, struct frame *f);
struct fpisa_counters harness_counters(struct harness *h, uint32_t key);
uint64_t harness_verdict(struct harness *h, uint32_t key, enum fpisa_verdict v);

/* Find the state and registers of a slot version. */
void harness_slot(struct harness *h, uint32_t key, struct fpisa_slot *s, uint16_t *e, int32_t *m);

#endif

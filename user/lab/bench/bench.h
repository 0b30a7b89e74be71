/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the verb `bench` share.
 *
 * 	bench.c        options of `bench arith`, order of events
 * 	arith.c        the configurations of the datapath, and their rounds
 * 	spread.c       medians and quartiles
 * 	data.c         payloads of random values or values of a file
 * 	frame.c        frames for BPF_PROG_TEST_RUN
 * 	reference.c    the programs for comparison, bpf/fpisa_bench.bpf.c
 * 	cpus.c         one and two CPUs, on different slots and on the same slots
 * 	report.c       table and JSON
 * 	wire*.c        `bench wire` and `bench`; wire.h has the overview
 *
 * The verb moves into its own namespaces (lab.h). There it loads the datapath like `fpisa
 * load`, and adds a job for each configuration like `fpisa job add`. When the process ends,
 * all of these disappear.
 *
 * Functions return 0, or report the error and return -errno.
 */
#ifndef FPISA_BENCH_H
#define FPISA_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "datapath/datapath.h"
#include "fpisa/job.h"
#include "lab/values/gradients.h"

struct bpf_object;
struct json_object;

int verb_bench(int argc, char **argv);
int verb_bench_arith(int argc, char **argv);
int verb_bench_wire(int argc, char **argv);
int verb_bench_worker(int argc, char **argv);
extern const char bench_arith_help[], bench_wire_help[], bench_worker_help[];

#define BENCH_ELEMENTS FPISA_DEFAULT_ELEMENTS
#define BENCH_MIN_ROUNDS 9
#define BENCH_MAX_ROUNDS 10000
#define BENCH_WORKERS 8			  /* number of ranks in a job, except in the table of whole rounds */
#define BENCH_WINDOW FPISA_DEFAULT_WINDOW /* window of the job that two CPUs share */

struct bench_options {
	struct common c;
	uint64_t rounds, seed;
	uint32_t cpus, rows;
	const char *gradients; /* file with values, or NULL */
};

/* -- bench.c ------------------------------------------------------------ */

/*
 * Run `bench arith` with its defaults and the fewest rounds. Add the result to the
 * JSON object `into`, or print text if `into` is NULL.
 */
int bench_arith_default(struct json_object *into);

/* -- spread.c ---------------------------------------------------------- */

/* Median and quartiles. */
struct bench_spread {
	double median, low, high;
};

/* Compute the spread of n samples. n is 1 to BENCH_MAX_ROUNDS. This function is not thread-safe. */
struct bench_spread bench_spread(const double *v, size_t n);

/* -- data.c ------------------------------------------------------------- */

/* The source of contributions. */
struct bench_source {
	uint64_t random;	      /* state of splitmix64() */
	const struct gradients *file; /* NULL means random values whose exponents differ by up to 40 */
};

/* Write BENCH_ELEMENTS packed values of `f` to `out`, as in a frame of this rank. */
void bench_fill(struct bench_source *s, struct fpisa_format f, uint32_t rank, void *out);

/* Take the next contributions from another part of the file. */
void bench_next_chunk(struct bench_source *s);

/* -- frame.c ------------------------------------------------------------ */

struct bench_frame {
	_Alignas(8) uint8_t ip_align[2]; /* padding like NET_IP_ALIGN */
	uint8_t data[FPISA_MAX_FRAME];
	uint32_t len;
};

/* Set the checksum. Header and payload must be complete. */
void bench_seal(const struct fpisa_job *j, struct bench_frame *f);

/* Give a complete frame of an IPv4 job from this rank the headers of the job's network. */
void bench_dress(const struct fpisa_job *j, uint32_t rank, struct bench_frame *f);

/*
 * Run a program once on the frame without changing the frame. Set *action to the XDP action that the program returns.
 */
int bench_run(int prog_fd, const struct bench_frame *f, uint32_t *ns, uint32_t *action);

/*
 * Run a program on some thousand live frames, as a driver delivers them. Each frame is in an existing page. The program
 * must drop the frames. Set *ns to the time for one frame, which includes the kernel's path to and from the program.
 * Set *ns to 0 if the kernel does not support live frames. Linux 5.18 and later supports them.
 */
int bench_run_live(int prog_fd, const struct bench_frame *f, uint32_t *ns);

/* -- reference.c -------------------------------------------------------- */

#define BENCH_MAX_PROGRAMS 64

/* Kinds of programs, which are the prefixes of the programs' names. */
enum bench_kind { BENCH_TOUCH, BENCH_ADD, BENCH_EMPTY, BENCH_SPIN, BENCH_KINDS };

struct bench_program {
	char name[48]; /* such as "u32_x8 clang-19" */
	enum bench_kind kind;
	int fd;
	double *ns; /* [rounds], per element */
};

struct bench_reference {
	struct bpf_object *object[2];
	struct bench_program program[BENCH_MAX_PROGRAMS];
	int programs;
	int best[BENCH_KINDS]; /* index of the fastest program, set by bench_reference_choose() */
};

/*
 * Load the programs, and check that programs of kind BENCH_ADD add correctly. Call bench_reference_close() even after
 * an error.
 */
int bench_reference_open(struct bench_reference *r, struct bench_source *s, uint64_t rounds);
void bench_reference_close(struct bench_reference *r);

/* Run one round of all programs. */
int bench_reference_round(struct bench_reference *r, struct bench_source *s, uint64_t round);
void bench_reference_choose(struct bench_reference *r, uint64_t rounds);

/* Return the fastest program of a kind. */
const struct bench_program *bench_best(const struct bench_reference *r, enum bench_kind kind);

/* -- arith.c ------------------------------------------------------------ */

/* The steps of a round, which are measured in ns per element. */
enum bench_step {
	BENCH_SET,   /* the first contribution */
	BENCH_MORE,  /* a further contribution */
	BENCH_LAST,  /* the contribution that completes the round, with its add and the read-out */
	BENCH_READ,  /* the same as BENCH_LAST, but without an add */
	BENCH_ROUND, /* all contributions of a round */
	BENCH_STEPS,
};

struct bench_config {
	uint8_t format, mode, pipeline, clz;
	uint32_t workers;
	uint32_t window; /* 0 means 1 */
	/* elements of a frame; 0 means the same as other configurations, or the maximum that format and mode allow */
	uint16_t elements;
	uint64_t token; /* 0 means no token */
	bool file;	/* whether the values come from the file */
	__u8 flags;	/* flags of the job: FPISA_JOB_UNCOUNTED or FPISA_JOB_BIG_ENDIAN */
	bool ipv6;	/* whether the addresses are IPv6's */
	uint16_t vlan;	/* VLAN ID of the frames' tag; 0: no tag */
	uint32_t id;	/* job number */
	uint32_t generation;
	uint64_t chunk; /* next chunk */
	struct fpisa_job job;
	double *ns[BENCH_STEPS]; /* [rounds] */
};

#define BENCH_MAX_CONFIGS FPISA_MAX_JOBS

/* The rate of two CPUs as a multiple of one CPU's rate. */
enum bench_scaling {
	BENCH_ADDS,  /* each CPU has its own job */
	BENCH_SPINS, /* a program that uses only registers */
	/* one job, in which each CPU has its own slots for all ranks, as when frames are steered by port */
	BENCH_OWNED,
	/* one job, in which each CPU has half of the ranks for all slots, as when frames are spread by source */
	BENCH_SHARED,
	BENCH_SCALINGS,
};

/* The networks that are compared with IPv4 without a VLAN tag. */
enum bench_network { BENCH_VLAN, BENCH_IPV6, BENCH_NETWORKS };

/*
 * A frame that was added before, which is run alone, as a driver delivers it, alone in a job with a token, and alone in
 * each network.
 */
enum bench_known {
	BENCH_ALONE,
	BENCH_LIVE,
	BENCH_TAGGED,
	BENCH_IN_NETWORK,
	BENCH_KNOWN = BENCH_IN_NETWORK + BENCH_NETWORKS
};

struct bench_arith {
	struct bench_options o;
	struct gradients file;
	struct bench_source random, stored;
	struct bench_reference reference;
	struct datapath dp;
	int entry_fd; /* the program `fpisa` */
	struct bench_config config[BENCH_MAX_CONFIGS];
	uint32_t configs;
	struct bench_config pair[2]; /* the separate jobs of the two CPUs */
	struct bench_config window;  /* the job with many slots that the two CPUs share */
	int cpu[2];
	double *scaling[BENCH_SCALINGS]; /* [rounds]; NULL if there is only one CPU */
	struct bench_config tagged;	 /* a job with a token */
	struct bench_config network[BENCH_NETWORKS];

	double *known[BENCH_KNOWN]; /* [rounds], ns for a frame that was added before */
};

/* Load the datapath and create the jobs. */
int bench_datapath_open(struct bench_arith *a);
void bench_datapath_close(struct bench_arith *a);

/* Make a rank's contribution to the next round of `c`. */
void bench_add_frame(const struct bench_config *c, struct bench_source *s, uint32_t rank, struct bench_frame *frame);

/* Make a rank's contribution and run the datapath on it. Call this function for all ranks in order. */
int bench_contribute(const struct bench_arith *a, const struct bench_config *c, struct bench_source *s, uint32_t rank,
		     uint32_t *ns);

int bench_datapath_round(struct bench_arith *a, uint64_t round);

/* Measure the time in ns of a frame that the datapath processes without an add, alone and as a driver delivers it. */
int bench_known_round(struct bench_arith *a, uint64_t round);

/* Return the configuration of fp32 with these parameters and without flags, or NULL if there is none. */
const struct bench_config *bench_find(const struct bench_arith *a, uint8_t mode, uint8_t pipeline, uint8_t clz,
				      uint32_t workers, bool file);

/* Return the configuration with which the other networks are compared. */
const struct bench_config *bench_ipv4(const struct bench_arith *a);

/* Return the fused configuration of fp64 in mode exact with the maximum number of elements in a frame. */
const struct bench_config *bench_exact64(const struct bench_arith *a);

/* Return the configuration of fused fp32 in mode fpisa with these flags. */
const struct bench_config *bench_flagged(const struct bench_arith *a, __u8 flags);

/* -- cpus.c ------------------------------------------------------------- */

/* Find the first two CPUs that this process may use. Return their number, at most 2. */
int bench_cpus(int cpu[2]);

int bench_cpus_round(struct bench_arith *a, uint64_t round);

/* -- report.c ----------------------------------------------------------- */

struct json_object *bench_arith_json(const struct bench_arith *a);
void bench_arith_text(const struct bench_arith *a);

#endif

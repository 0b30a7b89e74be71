/* SPDX-License-Identifier: GPL-2.0-only */
/* Jobs, in the layer above the datapath: create a job from options, read its state, and print it. */
#ifndef FPISA_USER_JOB_H
#define FPISA_USER_JOB_H

#include <getopt.h>

#include "cli/print.h"
#include "datapath/datapath.h"
#include "fpisa/discard.h"
#include "port.h"

struct json_object;

/* -- options.c, spec.c, resolve.c: a job from options -------------------- */

/* The options of a job. An option that was not given is 0. Zero the struct before the first option. */
struct job_spec {
	char *workers; /* list of workers, which job_spec_complete() splits */
	struct fpisa_job job;
	bool foreign_address; /* job.address need not be an address of this machine */
	double worker_bits;   /* rate of each worker's link, in bits per second; 0: not given */
	/* only warn of missing parts, which may be added later or be on another machine */
	bool draft;
	bool any_fanout;	      /* no option asks for multicast, so job_spec_resolve() may choose unicast */
	char *dev[FPISA_MAX_WORKERS]; /* interface of each worker, in the text of `workers`; NULL: found by the route */
	__u32 ifindex[FPISA_MAX_WORKERS + 1]; /* interface of each worker, and after them that of a leaf's parent */
	__u64 tagged;			      /* ranks whose port is below the VLAN device of their route */
};

/* Further places of a parameter, in addition to job add, the configuration file and job show. */
#define JOB_IN_LIST 1u	/* in job list */
#define JOB_IN_DEMO 2u	/* an option of demo, and in its JSON */
#define JOB_IN_QUERY 4u /* an option of query add */

/* Write entries for getopt_long() for the parameters in `in` (0: all), and an empty entry. Return the empty entry. */
#define OPT_JOB 0x200 /* job_option() handles this value and all larger values */
#define JOB_OPTIONS_MAX 32
struct option *job_options(struct option *to, unsigned int in);

/* Print the help text of the parameters. */
void job_print_help(unsigned int in);

/* Process one of the options above; `arg` must remain valid. Return 0 or BAD_USAGE. */
int job_option(struct job_spec *s, int opt, char *arg);

/* Parse the number of a job, from an operand or from a section of a file. Return 0 or BAD_USAGE. */
int job_parse_number(const char *text, __u32 *job);

/* Parse the number of a job, which is the only operand after the options of a verb. Return 0 or BAD_USAGE. */
int job_operand(const char *verb, int argc, char **argv, __u32 *job);

/*
 * Fill in parameters that were not given, without examining this machine. s->workers must not be NULL. Return 0 or
 * BAD_USAGE.
 */
int job_spec_complete(struct job_spec *s, __u32 job);

/* Call job_spec_complete() for a query whose mode is set. The last member of the list is its master. */
int job_spec_complete_query(struct job_spec *s);

/* Call job_spec_complete() for a job whose ranks are set. */
int job_complete(struct fpisa_job *j, __u32 job);

/*
 * Find the ports and the address by the routes of this machine, and check that the frames of the job fit into the MTUs
 * of the ports. For a draft, ifindex[r] is 0 if the port does not exist.
 */
int job_spec_resolve(struct job_spec *s, __u32 job);

/*
 * Return the VLAN ID that the rank's frames have at port `ifindex`, if the rank's route leads to a VLAN device on this
 * port or on its bridge. Set *vlan to the device. Return 0 if there is no such device, or if the bridge filters VLANs
 * and the port removes the tag.
 */
__u16 job_vlan_above(const struct fpisa_job *j, __u32 rank, __u32 ifindex, struct link *vlan);

/*
 * Find the VLAN of a job whose ports are known. With --vlan the workers may be behind any interfaces. Otherwise either
 * all workers are behind VLAN devices with the same VLAN ID, or none is. Replace a VLAN device by the interface below
 * it, unless that is a bridge without datapaths on its ports.
 */
int job_spec_vlan(struct job_spec *s, __u32 job);

/* Return whether this rank, or a leaf's parent after the ranks, is the first behind its port. */
bool job_first_behind(const struct job_spec *s, __u32 rank);

/*
 * Return the largest number of elements, up to that of the job, whose frame fits into the MTUs of all ports of a
 * resolved job. Return 0 if no number fits.
 */
__u16 job_spec_elements(const struct job_spec *s);

/* Warn if the links of this machine are slower than the links of all workers together (job_links_text()). */
void job_spec_warn_links(const struct job_spec *s, __u32 job);

/*
 * Warn of ports without the program, at which the frames of workers are not received. Also warn of ports behind which
 * workers do not receive results.
 */
void job_spec_warn(const struct job_spec *s, const struct datapath *dp, __u32 job);

/*
 * Decide what to do about interface `ifindex`, which does not have the program of `dp`. Set *other to the interface
 * above or below that has the program.
 */
enum job_port job_port_look(const struct datapath *dp, __u32 ifindex, struct datapath_interface *other,
			    struct job_port_text *t);

/*
 * Return whether a rank is behind lo and another port of the job is in native mode. Set t->why and t->fix. ifindex[]
 * are the ports of the job's fpisa_places(), where 0 stands for an unknown port.
 */
bool job_native_beside_lo(const struct datapath *dp, const struct fpisa_job *j, const __u32 *ifindex,
			  struct job_port_text *t);

/*
 * Return whether the links of this aggregator are slower than the links of its n workers together (links.c). If so, set
 * text to the expected effect and the advice. ifindex[n] are the ports of the workers, where 0 stands for no port.
 * worker_bits is the rate, in bits per second, of a worker's link, and of a port whose rate is unknown. If worker_bits
 * is 0, assume that the links of the workers are as fast as the ports. Return false if a rate is unknown, or if a rank
 * is on this host, because such a job has other aggregators.
 */
bool job_links_text(const __u32 *ifindex, __u32 n, double worker_bits, char *text, size_t size);

/* Return the size, in bytes, of the job's largest frame, which counts for the MTU. In a tree it may be a part. */
unsigned int job_frame_bytes(const struct fpisa_job *j);

/* -- towards.c: the ports below a rank's interface -------------------------- */

/*
 * Write the name of the interface below `ifindex` that has the program of `dp` and leads to `worker`. If several have
 * it and the port is not known, write JOB_PORT_UNKNOWN. Return whether several interfaces have the program.
 */
bool job_port_towards(const struct datapath *dp, __u32 ifindex, const struct fpisa_job *j, __u32 rank,
		      char name[IF_NAMESIZE]);

/*
 * Write the ranks from `rank` on that are behind its interface, each with its port (job_port_towards()), as --workers
 * has them. Return whether several interfaces have the program.
 */
#define JOB_PORTS_LEN (FPISA_MAX_WORKERS * (ENDPOINT_LEN + IF_NAMESIZE))
bool job_ports_text(const struct datapath *dp, const struct fpisa_job *j, const __u32 *ifindex, __u32 rank,
		    char text[JOB_PORTS_LEN]);

/* Return an explanation of JOB_PORT_UNKNOWN if the command contains it, else "". */
const char *job_port_note(const char *command);

/* -- faults.c: faults that the job's workers inject ------------------- */

/* Parse "drop=0.01,seed=7". The string is modified. Return 0 or BAD_USAGE. */
int job_parse_faults(char *s, struct fpisa_job_faults *f);

/*
 * job_print_faults() prints the line of `job show` if the job has faults. job_faults_json() returns the faults as JSON,
 * or NULL.
 */
void job_print_faults(const struct fpisa_job_faults *f);
struct json_object *job_faults_json(const struct fpisa_job_faults *f);

/* Write the argument of the option that gives the faults, or "". */
#define FAULTS_LEN 192
void job_faults_text(const struct fpisa_job_faults *f, char text[FAULTS_LEN]);

/* -- options.c: a job's parameters ------------------------------------------ */

/* Add the parameters in `in` (0: all) as members of an object. */
void job_parameters_json(struct json_object *o, const struct fpisa_job *j, unsigned int in);

/* Print the parameters as columns of job list, with a blank before each column. If `j` is NULL, print the headings. */
void job_print_columns(const struct fpisa_job *j);

/*
 * Write the options of job add that would create the job again, except --workers and --foreign-address, with a blank
 * before each option.
 */
void job_options_text(const struct fpisa_job *j, char *out, size_t size);

/* Write the address of the job, or both addresses of a job with ranks of both families, as --address has them. */
#define ADDRESSES_LEN (2 * ADDRESS_LEN)
void job_addresses_text(const struct fpisa_job *j, char text[ADDRESSES_LEN]);

/* Write the parent of a leaf as the option has it, ADDR:PORT/RANK[/JOB], or "". */
#define PARENT_LEN (ENDPOINT_LEN + 24)
void job_parent_text(const struct fpisa_job *j, char text[PARENT_LEN]);

/* Write the arithmetic of a job, as "fpisa, rounding down, format fp32, 5 guard bits, histogram". */
#define ARITHMETIC_LEN 160
void job_arithmetic_text(const struct fpisa_job *j, char text[ARITHMETIC_LEN]);

/* -- show.c, histogram.c: a job as text and as JSON ------------------------- */

/* Print an active job's parameters and members, as `job show` does. */
int job_print_text(const struct datapath *dp, __u32 job);
int job_print_json(const struct datapath *dp, __u32 job);

/*
 * job_print_histogram() prints a line for each bucket that is not empty. job_histogram_json() returns the same data as
 * an array of {exponent, adds}.
 */
void job_print_histogram(const struct fpisa_histogram *h, const struct fpisa_job *j);
struct json_object *job_histogram_json(const struct fpisa_histogram *h, const struct fpisa_job *j);

/* -- status.c: the state of a job --------------------------------------------- */

/* Return the ranks that are in the job's current generation. */
__u64 job_joined(const struct fpisa_job *j, const struct fpisa_session *s);

/* Return whether the entry is an incomplete round of generation `generation`. */
static inline bool job_round_open(const struct fpisa_slot *s, __u32 generation)
{
	return generation && s->generation == generation && s->bitmap && !s->done;
}

/*
 * Find the live ranks that have not contributed to the oldest open round, and the chunk of the round. Set *missing to 0
 * if no round is open. `slots` shows these ranks for the lowest chunk, and a worker names them when its deadline
 * passes.
 */
int job_missing(const struct datapath *dp, __u32 job, __u64 *missing, __u64 *chunk);

/*
 * Find the time, in seconds, since the datapath last received a frame of the rank. The time is HUGE_VAL if there has
 * been no frame since the job was created.
 */
int job_silence(const struct datapath *dp, __u32 job, __u32 rank, double *seconds);

/* Write an age as "0.3 s", "12 s", "5 min" or "3 h". */
#define AGE_LEN 16
void job_age_text(double seconds, char text[AGE_LEN]);

/*
 * Write which rank of `ranks` has been silent for the longest time, as "; rank 2 silent for 12 s" or "; rank 2 never
 * heard from". Write "" if `ranks` is empty.
 */
#define SILENCE_LEN 48
int job_silence_text(const struct datapath *dp, __u32 job, __u64 ranks, char text[SILENCE_LEN]);

#endif

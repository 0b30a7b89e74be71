/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interfaces between the files of the MPI adapter (doc/mpi.md):
 *
 * 	calls.c      the functions that replace MPI functions
 * 	fortran.c    functions that Fortran programs call directly
 * 	comm.c       a record of each communicator
 * 	agreement.c  the ranks' agreement whether the datapath serves a communicator
 * 	levels.c     reductions in two levels
 * 	service.c    a group or static jobs
 * 	settings.c   settings from environment variables
 * 	scatter.c    the arrays of reduce-scatters
 * 	request.c    nonblocking calls
 * 	wait.c       waits during which MPI makes progress
 * 	report.c     the line at MPI_Finalize() that counts the calls
 * 	mismatch.c   refusal of programs that use another MPI library
 */
#ifndef FPISA_MPI_SHIM_H
#define FPISA_MPI_SHIM_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "fpisa.h"

#define ENTRY __attribute__((visibility("default")))
#define MODE_EXACT 4 /* same value as in struct fpisa_group_options and struct fpisa_info */
#define TYPES (FPISA_FLOAT64 + 1)
#define TEXT 512

/* -- settings.c: the settings of rank 0, which all ranks of a communicator use, sent as bytes */

#define MAX_JOBS 4 /* maximum number of static jobs of a communicator; each job has a different type */

struct offer {
	char host[256];	    /* host of the manager, or of the aggregator for static jobs */
	char name[64];	    /* name of the group */
	uint64_t min_bytes; /* MPI makes calls with fewer bytes */
	uint64_t token;	    /* token of static jobs; timeout_ms is the deadline of static jobs */
	uint32_t timeout_ms;
	struct {
		uint16_t job, port; /* `port` is the UDP port of a host's first rank */
	} job[MAX_JOBS];
	uint8_t jobs; /* number of static jobs; 0 means a group */
	uint8_t mode;
	uint8_t fanout; /* same values as options.fanout of a group */
	uint8_t two_levels;
	char why_not[TEXT]; /* why the offer is empty; "" if the offer is not empty */
};

/* Make an offer to the communicator of that name from this process's environment, with a unique group name. */
void offer_make(struct offer *o, const char *name);

/* -- service.c: a group, or static jobs ---------------------------------------------------- */

struct service;

/*
 * Join as rank `rank` of `size`, and as the rank with index `local` on its host. Return 0 or -errno, and set the text
 * of service_error(). All functions of a service except service_start() block.
 */
int service_join(struct service **s, const struct offer *o, uint32_t rank, uint32_t size, uint32_t local);
/* sums zeros; the first sum of a type creates the job of the type */
int service_probe(struct service *s, enum fpisa_dtype type);
int service_start(struct service *s, const struct fpisa_call *call, struct fpisa_request **r);
/* starts a reduce-scatter of a group, whose rank r keeps counts[r] elements */
int service_start_scatter(struct service *s, const struct fpisa_call *call, const size_t *counts,
			  struct fpisa_request **r);
int service_is_exact(const struct service *s, enum fpisa_dtype type);
/* whether ranks of the group are dead; calls then fail with an error that names them */
int service_lost(const struct service *s);
void service_leave(struct service *s); /* s may be NULL */
const char *service_error(void);       /* the last error of this thread */

/* -- levels.c: the ranks of a host by shared memory first ----------------------------------- */

struct comm;
struct levels {
	MPI_Comm host; /* ranks of this host; rank 0 uses the datapath */
	int rank, hosts, number;
};

int levels_make(struct levels *l, MPI_Comm c); /* collective; returns MPI_SUCCESS or an MPI error */
void levels_free(struct levels *l);	       /* collective */

/* Make the call over all ranks. Return 0 or an MPI error. Set `error` to the error of the datapath, or to "". */
int levels_allreduce(struct comm *m, const struct fpisa_call *call, int count, MPI_Datatype t, MPI_Op op,
		     char error[TEXT]);

/* -- comm.c: a communicator, while it or its requests exist ---------------------------- */

/* OFFERED means that all ranks have rank 0's offer, but have not joined. */
enum service_state { SERVICE_UNKNOWN, SERVICE_OFFERED, SERVICE_MPI, SERVICE_FPISA };

struct comm {
	LIST_ENTRY(comm) link;
	int users; /* references by the communicator and by each request */
	struct service *service;
	enum service_state state, type[TYPES];
	uint64_t wanted[TYPES]; /* bytes of the largest request that MPI served because the ranks had not agreed yet */
	int said[TYPES];	/* whether rank 0 has reported that MPI serves such requests for now */
	struct offer offer;
	struct levels levels; /* used if offer.two_levels */
	MPI_Request mover;
	int vote[2]; /* used by agreement.c, and by MPI while a vote is in progress */
	/* number of served calls, including calls that this rank could not make; a call's number is part of its tag */
	uint64_t calls;
	int rank, size;
	char name[MPI_MAX_OBJECT_NAME + 1];
};

/*
 * Return the communicator's record, or NULL if the communicator cannot have a record. In the first call that waits, all
 * ranks agree whether the datapath serves the communicator.
 */
struct comm *comm_of(MPI_Comm c, int waits);

/* Return the communicator's record, or NULL if the record does not exist. */
struct comm *comm_find(MPI_Comm c);

/* Prepare for records and for the end of MPI. Return 0 or -errno. */
int comm_prepare(void);

int comm_has_agreed(const struct comm *m); /* whether the ranks have agreed if the datapath serves the communicator */

/* Agree on the types whose requests MPI has served until now. Call this in a function that waits for all ranks of c. */
void comm_agree_on_requests(MPI_Comm c);

void comm_get(struct comm *m);
void comm_put(struct comm *m);

void comm_say(const struct comm *m, const char *error); /* prints the error with the communicator's name on stderr */

/* Return an MPI error code for which MPI_Error_string() returns this text. */
int comm_error_code(const char *text);

/* Report to c's error handler that only this rank has no memory for a call, and return the error code. */
int comm_no_memory(const struct comm *m, MPI_Comm c);

/* Report to c's error handler that MPI refused a request for the call with error `rc`, and return the error code. */
int comm_no_request(const struct comm *m, MPI_Comm c, int rc);

/* Make the call. Return 0, or the MPI error code that was reported to c's error handler. */
int comm_allreduce(struct comm *m, MPI_Comm c, const struct fpisa_call *call);
int comm_reduce_scatter(struct comm *m, MPI_Comm c, const struct fpisa_call *call, const size_t *counts);

/* Make the call in two levels. The call has `count` elements of the datatype, and `op` is its operation. */
int comm_allreduce_levels(struct comm *m, MPI_Comm c, const struct fpisa_call *call, int count, MPI_Datatype t,
			  MPI_Op op);

/* -- agreement.c: by MPI's own collectives on c, while all its ranks are in the same call ------- */

enum service_state agree(struct comm *m, MPI_Comm c);
/* Agree on the offer without joining. Return 0 if MPI serves all calls. */
int agree_on_offer(struct comm *m, MPI_Comm c);

/*
 * Return whether the datapath serves calls of this type and size. All ranks of c call this function with the same
 * arguments and get the same answer. The first call for a type creates its job, and the ranks agree on whether that
 * succeeded. If `waits` is not set, do not wait for other ranks, and let MPI serve types that the ranks have not agreed
 * on.
 */
int agree_serves(struct comm *m, MPI_Comm c, enum fpisa_dtype type, uint64_t bytes, int waits);

/*
 * Agree on the types that requests have asked for. All ranks of c have made the same
 * requests, so they agree on the same types.
 */
void agree_on_requests(struct comm *m, MPI_Comm c);

/* -- scatter.c: the arrays of a reduce-scatter --------------------------------------------------- */

/* The parts of a reduce-scatter, in elements of the call */
struct parts {
	const int *counts; /* part of each rank; NULL: each rank has `each` elements */
	int each;
	int own; /* this rank's part */
	int all; /* their sum; 0: MPI serves the call, because an argument is invalid or the sum is too large */
};

/* A reduce-scatter of the datapath */
struct scatter {
	size_t *counts; /* values of each rank */
	void *own;	/* this rank's result if the call cannot write it to its place */
	void *to;	/* its place; NULL: the result is discarded */
	size_t bytes;	/* bytes of the result */
};

struct parts parts_of(const int counts[], int each, MPI_Comm c);

/*
 * Prepare a call of values of `size` bytes. In place the input begins where the result does, so the result gets an array
 * of its own, and so does a result that the rank `discards`. Return 0 if there is not enough memory.
 */
int scatter_prepare(struct scatter *s, const struct comm *m, struct fpisa_call *call, const struct parts *p,
		    size_t size, int discards);

/* Store the result unless the call has failed with `rc`, and free the memory. */
void scatter_end(struct scatter *s, int rc);

/* -- request.c: an MPI request for a call of the datapath -------------------------------------- */

#define REQUEST_NOT_HERE (-1) /* the request cannot be served here, so MPI has to make the call */

/*
 * Start a call, which is a reduce-scatter if `scatter` is not NULL. Return 0, REQUEST_NOT_HERE or an MPI error. After 0
 * the request ends the reduce-scatter.
 */
int request_start(struct comm *m, MPI_Comm c, const struct fpisa_call *call, const struct scatter *scatter,
		  MPI_Request *r);
int request_complete_ended(void); /* reports completed requests to MPI; returns their number */
/* waits for the datapath's requests in the array; MPI completes the others */
void request_await(int count, const MPI_Request r[]);
void request_forget(const struct comm *m); /* call when the communicator is freed */
void request_end(void);			   /* call when MPI ends */

/* -- report.c: which calls the datapath made, and which MPI made ------------------------------------- */

/* A call that MPI has made. `call` and `why` are string constants. */
struct kept {
	const char *call, *why;
	MPI_Datatype type;
	MPI_Op op;
	int size;	/* ranks of the communicator */
	uint64_t bytes; /* size of the call's array */
};

void report_served(int exact);		/* counts a call that the datapath made */
void report_kept(const struct kept *k); /* counts a call that MPI made */
void report_print(void);		/* call when MPI ends */

/* -- wait.c ------------------------------------------------------------------------------------- */

/*
 * MPI transfers its messages only inside its functions. A thread that waits for something else must call MPI meanwhile.
 * Otherwise other ranks would wait forever for messages of this rank. A mover is a request that never completes, and
 * testing the mover makes MPI transfer its messages. Only one thread at a time may use a mover.
 */
int wait_mover(MPI_Request *mover); /* returns MPI_SUCCESS, or an MPI error */
void wait_mover_free(MPI_Request *mover);
void wait_move(MPI_Request *mover);

int wait_request(MPI_Request *mover, struct fpisa_request **r); /* like fpisa_wait() */

/*
 * Wait until an MPI request is complete and return 1, even if MPI reports an error. Return 0 if given_up() returns
 * true.
 */
int wait_mpi(MPI_Request *r, int (*given_up)(void *arg), void *arg);

/* Run the blocking function `work` in a separate thread, and return when it has ended. */
void wait_aside(MPI_Request *mover, void (*work)(void *arg), void *arg);

#endif

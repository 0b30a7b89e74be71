/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interfaces between the files of the MPI adapter (doc/mpi.md):
 *
 *	calls.c      the entries
 *	fortran.c    entries that Fortran programs reach directly
 *	comm.c       a record of each communicator
 *	agreement.c  agreement of the ranks whether a communicator is served
 *	levels.c     sums within hosts first
 *	service.c    a group or static jobs
 *	settings.c   the settings of the environment
 *	request.c    MPI_Iallreduce()
 *	wait.c       waiting
 *	report.c     the line at MPI_Finalize() about who made the calls
 *	mismatch.c   refusal of programs of the other MPI
 */
#ifndef FPISA_MPI_SHIM_H
#define FPISA_MPI_SHIM_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "fpisa.h"

#define ENTRY __attribute__((visibility("default")))
#define MODE_EXACT 4 /* in struct fpisa_group_options and struct fpisa_info */
#define TYPES (FPISA_FLOAT64 + 1)
#define TEXT 512

/* -- settings.c: the settings of rank 0, which all ranks of a communicator use, sent as bytes */

#define MAX_JOBS 4 /* static jobs of a communicator, each of another type */

struct offer {
	char host[256];	    /* host of the manager, or for static jobs of the aggregator */
	char name[64];	    /* name of the group */
	uint64_t min_bytes; /* MPI keeps calls with fewer bytes */
	uint64_t token;	    /* token of static jobs; timeout_ms is their deadline */
	uint32_t timeout_ms;
	struct {
		uint16_t job, port; /* the UDP port of a host's first rank */
	} job[MAX_JOBS];
	uint8_t jobs; /* number of static jobs; 0: a group */
	uint8_t mode;
	uint8_t fanout; /* as options.fanout of a group */
	uint8_t two_levels;
	char why_not[TEXT]; /* why nothing is offered; "" if something is */
};

/* Make an offer from this process's environment to the communicator of that name, with a unique group name. */
void offer_make(struct offer *o, const char *name);

/* -- service.c: a group, or static jobs ---------------------------------------------------- */

struct service;

/*
 * Join as `rank` of `size`, the `local`th of its host. Return 0 or -errno; service_error() says why. All of these functions
 * block, except service_start().
 */
int service_join(struct service **s, const struct offer *o, uint32_t rank, uint32_t size, uint32_t local);
int service_probe(struct service *s, enum fpisa_dtype type); /* a sum of zeros: the first of a type makes its job */
int service_start(struct service *s, const struct fpisa_call *call, struct fpisa_request **r);
int service_is_exact(const struct service *s, enum fpisa_dtype type);
int service_lost(const struct service *s); /* whether ranks of the group are dead: calls fail, and say which */
void service_leave(struct service *s);	   /* s may be NULL */
const char *service_error(void);	   /* the last error of this thread */

/* -- levels.c: the ranks of a host by shared memory first ----------------------------------- */

struct comm;
struct levels {
	MPI_Comm host; /* ranks of this host; rank 0 uses the datapath */
	int rank, hosts, number;
};

int levels_make(struct levels *l, MPI_Comm c); /* collective; returns MPI_SUCCESS, or an MPI error */
void levels_free(struct levels *l);	       /* collective */

/* Make the call over all ranks. Return 0 or an MPI error. Set `error` to the datapath's error, or "". */
int levels_allreduce(struct comm *m, const struct fpisa_call *call, int count, MPI_Datatype t, MPI_Op op,
		     char error[TEXT]);

/* -- comm.c: a communicator, while it or its requests exist ---------------------------- */

/* OFFERED: all ranks have rank 0's offer, but have not joined. */
enum service_state { SERVICE_UNKNOWN, SERVICE_OFFERED, SERVICE_MPI, SERVICE_FPISA };

struct comm {
	LIST_ENTRY(comm) link;
	int users; /* the communicator, and each request */
	struct service *service;
	enum service_state state, type[TYPES];
	uint64_t wanted[TYPES]; /* bytes of the largest request that MPI served because the ranks have yet to agree */
	int said[TYPES];	/* rank 0 has said that MPI serves such requests for now */
	struct offer offer;
	struct levels levels; /* used if offer.two_levels */
	MPI_Request mover;
	int vote[2];	/* agreement.c's, with MPI */
	uint64_t calls; /* served, those among them that this rank could not make; each has its number as its tag */
	int rank, size;
	char name[MPI_MAX_OBJECT_NAME + 1];
};

/*
 * Return the communicator's record, or NULL if it cannot have one. All ranks make the first call that waits, and agree then
 * whether the communicator is served.
 */
struct comm *comm_of(MPI_Comm c, int waits);

/* Return the record, or NULL if it does not exist. */
struct comm *comm_find(MPI_Comm c);

/* Prepare records and the end of MPI. Return 0 or -errno. */
int comm_prepare(void);

int comm_has_agreed(const struct comm *m); /* whether the ranks have agreed if it is served */

/* Agree, in a call that waits for all ranks of c, on the types whose requests MPI has served until now. */
void comm_agree_on_requests(MPI_Comm c);

void comm_get(struct comm *m);
void comm_put(struct comm *m);

void comm_say(const struct comm *m, const char *error); /* print on stderr, with the communicator's name */

/* Return MPI's error code for which MPI_Error_string() returns this text. */
int comm_error_code(const char *text);

/* Report to c's error handler a call for which this rank alone has no memory, and return its error code. */
int comm_no_memory(const struct comm *m, MPI_Comm c);

/* Report to c's error handler that MPI refused the call's request with error `rc`, and return its error code. */
int comm_no_request(const struct comm *m, MPI_Comm c, int rc);

/* Make the call. Return 0, or an error code of MPI that c's error handler has had. */
int comm_allreduce(struct comm *m, MPI_Comm c, const struct fpisa_call *call);

/* Make the call by two levels. `count` of the datatype are the call's values, and `op` is the call's operation. */
int comm_allreduce_levels(struct comm *m, MPI_Comm c, const struct fpisa_call *call, int count, MPI_Datatype t,
			  MPI_Op op);

/* -- agreement.c: by MPI's own collectives on c, while all its ranks are in the same call ------- */

enum service_state agree(struct comm *m, MPI_Comm c);
/* The part of agree() that does not join; returns 0 if MPI serves everything. */
int agree_on_offer(struct comm *m, MPI_Comm c);

/*
 * Return whether the datapath takes calls of this type and size. All ranks of c ask alike and get the same answer. The first
 * call for a type creates its job, and the ranks agree on whether that succeeded. Without `waits` do not wait for other ranks:
 * MPI serves types without an agreement.
 */
int agree_serves(struct comm *m, MPI_Comm c, enum fpisa_dtype type, uint64_t bytes, int waits);

/*
 * Agree on the types that requests have wanted. All ranks of c have made the same
 * requests, so they agree on the same types.
 */
void agree_on_requests(struct comm *m, MPI_Comm c);

/* -- request.c: an MPI request for a call of the datapath -------------------------------------- */

#define REQUEST_NOT_HERE (-1) /* this MPI does not support it: MPI has to make the call */

/* May return an MPI error. */
int request_start(struct comm *m, MPI_Comm c, const struct fpisa_call *call, MPI_Request *r);
int request_complete_ended(void);		      /* tells MPI of completed requests; returns their number */
void request_await(int count, const MPI_Request r[]); /* waits for our requests in the array; MPI completes the rest */
void request_forget(const struct comm *m);	      /* call when the communicator is freed */
void request_end(void);				      /* call when MPI ends */

/* -- report.c: which calls the datapath made, and which MPI made ------------------------------------- */

/* A call that MPI has made. `call` and `why` are constants. */
struct kept {
	const char *call, *why;
	MPI_Datatype type;
	MPI_Op op;
	int size;	/* ranks of the communicator */
	uint64_t bytes; /* of its array */
};

void report_served(int exact);		/* count a call of the datapath */
void report_kept(const struct kept *k); /* count an MPI call */
void report_print(void);		/* call when MPI ends */

/* -- wait.c ------------------------------------------------------------------------------------- */

/*
 * MPI moves its messages only inside its calls. A thread that waits for something else must call MPI meanwhile, or other ranks
 * wait for ever for messages of this rank. A mover is a request that never completes, for these calls. Only one thread at a time
 * may use it.
 */
int wait_mover(MPI_Request *mover); /* returns MPI_SUCCESS, or an MPI error */
void wait_mover_free(MPI_Request *mover);
void wait_move(MPI_Request *mover);

int wait_request(MPI_Request *mover, struct fpisa_request **r); /* like fpisa_wait() */

/* Wait until an MPI request is complete and return 1, also on error. Return 0 when given_up() returns true. */
int wait_mpi(MPI_Request *r, int (*given_up)(void *arg), void *arg);

/* Run `work`, which blocks, in a thread, and return when it has ended. */
void wait_aside(MPI_Request *mover, void (*work)(void *arg), void *arg);

#endif

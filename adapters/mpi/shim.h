/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interfaces between the files of the MPI adapter (doc/mpi.md): calls.c has the entries, fortran.c those that Fortran
 * programs reach past them; comm.c keeps a record of each communicator, agree.c finds out with its ranks whether it is
 * served, levels.c sums within hosts first; service.c is a group or static jobs, offer.c the settings of the environment;
 * request.c is MPI_Iallreduce(), wait.c waits; other.c refuses programs of the other MPI.
 */
#ifndef FPISA_MPI_SHIM_H
#define FPISA_MPI_SHIM_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "fpisa.h"

#define ENTRY __attribute__((visibility("default")))
#define MODE_EXACT 4 /* of struct fpisa_group_options, struct fpisa_info */
#define TYPES (FPISA_FLOAT64 + 1)
#define TEXT 512

/* -- offer.c: what all ranks of a communicator use: its rank 0's, sent as bytes ---------- */

#define MAX_JOBS 4 /* static ones of a communicator, each of another type */

struct offer {
	char host[256];	    /* the manager's; of static jobs the aggregator's */
	char name[64];	    /* of the group */
	uint64_t min_bytes; /* calls of fewer are MPI's */
	uint64_t token;	    /* of static jobs; and their deadline */
	uint32_t timeout_ms;
	struct {
		uint16_t job, port; /* the UDP port of a host's first rank */
	} job[MAX_JOBS];
	uint8_t jobs; /* static ones; 0: a group */
	uint8_t mode;
	uint8_t fanout; /* as options.fanout of a group */
	uint8_t two_levels;
	char why_not[TEXT]; /* no service, and why; else empty */
};

/* Make an offer from this process's environment to the communicator of that name, with a group name that no other has. */
void offer_make(struct offer *o, const char *name);

/* -- service.c: a group, or static jobs ---------------------------------------------------- */

struct service;

/*
 * Join as `rank` of `size`, the `local`th of its host. 0 or -errno, and service_error() says why. All of these block,
 * but for service_start().
 */
int service_join(struct service **s, const struct offer *o, uint32_t rank, uint32_t size, uint32_t local);
int service_probe(struct service *s, enum fpisa_dtype type); /* a sum of zeros: the first of a type makes its job */
int service_start(struct service *s, const struct fpisa_call *call, struct fpisa_request **r);
int service_is_exact(const struct service *s, enum fpisa_dtype type);
int service_lost(const struct service *s); /* ranks of its group are dead: calls fail, and say which */
void service_leave(struct service *s);	   /* NULL is fine */
const char *service_error(void);	   /* the last one of this thread */

/* -- levels.c: the ranks of a host by shared memory first ----------------------------------- */

struct comm;
struct levels {
	MPI_Comm host; /* its ranks; rank 0 of them goes to the datapath */
	int rank, hosts, number;
};

int levels_make(struct levels *l, MPI_Comm c); /* collective; MPI_SUCCESS, or an error of MPI */
void levels_free(struct levels *l);	       /* collective */

/* The call over all ranks. 0, or an error of MPI; or 0, and in `error` what the datapath said, else "". */
int levels_allreduce(struct comm *m, const struct fpisa_call *call, int count, MPI_Datatype t, MPI_Op op,
		     char error[TEXT]);

/* -- comm.c: a communicator, as long as it lives and requests of it are under way ----------- */

/* OFFERED: all ranks have rank 0's offer, and none has joined. */
enum service_state { SERVICE_UNKNOWN, SERVICE_OFFERED, SERVICE_MPI, SERVICE_FPISA };

struct comm {
	LIST_ENTRY(comm) link;
	int users; /* the communicator, and each request */
	struct service *service;
	enum service_state state, type[TYPES];
	uint64_t wanted[TYPES]; /* bytes of the largest request that was MPI's because the ranks have yet to agree */
	int said[TYPES];	/* that such requests are MPI's for now */
	struct offer offer;
	struct levels levels; /* offer.two_levels */
	MPI_Request mover;
	int vote[2];	/* agree.c's, with MPI */
	uint64_t calls; /* served, those among them that this rank could not make; each has its number as its tag */
	int rank, size;
	char name[MPI_MAX_OBJECT_NAME + 1];
};

/*
 * Return the communicator's record, NULL if it cannot have one. All ranks make the first call that waits, and agree whether the communicator is
 * served.
 */
struct comm *comm_of(MPI_Comm c, int waits);

int comm_has_agreed(const struct comm *m); /* whether it is served */

/* Agree, in a call that waits for all ranks of c, on the types whose requests MPI has served until now. */
void comm_agree_on_requests(MPI_Comm c);

void comm_get(struct comm *m);
void comm_put(struct comm *m);

void comm_say(const struct comm *m, const char *error); /* on stderr, with the communicator's name */

/* Return MPI's error code for which MPI_Error_string() returns this text. */
int comm_error_code(const char *text);

/* Report to c's error handler a call for which this rank alone has no memory, and return its error code. */
int comm_no_memory(const struct comm *m, MPI_Comm c);

/* 0, or an error code of MPI that c's error handler has had. */
int comm_allreduce(struct comm *m, MPI_Comm c, const struct fpisa_call *call);

/* The same by two levels; `count` of the datatype are the call's values, the operation is the call's. */
int comm_allreduce_levels(struct comm *m, MPI_Comm c, const struct fpisa_call *call, int count, MPI_Datatype t,
			  MPI_Op op);

/* -- agree.c: by MPI's own collectives on c, all of whose ranks are in the same call of it ------ */

enum service_state agree(struct comm *m, MPI_Comm c);
int agree_on_offer(struct comm *m, MPI_Comm c); /* the part of agree() that nobody joins for. 0: MPI serves everything */

/*
 * Return whether the datapath takes calls of this type and size: the same on all ranks of c, which all ask alike. The first call for
 * a type makes its job, and the ranks agree on whether that succeeded. Without `waits` do not wait for other ranks: MPI serves what is not agreed.
 */
int agree_serves(struct comm *m, MPI_Comm c, enum fpisa_dtype type, uint64_t bytes, int waits);

/* Agree on the types that requests have wanted. All ranks of c have made the same requests, so they agree on the same. */
void agree_on_requests(struct comm *m, MPI_Comm c);

/* -- request.c: a request of MPI's for a call of the datapath ----------------------------------- */

#define REQUEST_NOT_HERE (-1) /* this MPI lacks what it takes: the call is MPI's */

int request_start(struct comm *m, MPI_Comm c, const struct fpisa_call *call, MPI_Request *r); /* or an error of MPI */
int request_complete_ended(void);		      /* tells MPI of completed requests; returns how many */
void request_await(int count, const MPI_Request r[]); /* waits for our requests among them; MPI completes the rest */
void request_forget(const struct comm *m);	      /* its communicator is freed */
void request_end(void);				      /* MPI ends */

/* -- wait.c ------------------------------------------------------------------------------------- */

/*
 * MPI moves its messages only inside its calls: a thread that waits for something else must call MPI meanwhile, or others
 * wait for ever for what this rank has sent. A mover is a request that never completes, for these calls; one thread at a time may
 * use it.
 */
int wait_mover(MPI_Request *mover); /* MPI_SUCCESS, or an error of MPI */
void wait_mover_free(MPI_Request *mover);
void wait_move(MPI_Request *mover);

int wait_request(MPI_Request *mover, struct fpisa_request **r); /* as fpisa_wait() */

/* Wait for one of MPI's own until it is complete: 1, also of an error; or 0, when `given_up` says so. */
int wait_mpi(MPI_Request *r, int (*given_up)(void *arg), void *arg);

/* Run `work`, which blocks, in a thread, and return when it has. */
void wait_aside(MPI_Request *mover, void (*work)(void *arg), void *arg);

#endif

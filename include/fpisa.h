/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libfpisa: a worker's all-reduce through an FPISA aggregator.
 *
 *	struct fpisa *f;
 *
 *	if (fpisa_connect(&f, "10.0.0.1", 7, NULL) ||
 *	    fpisa_allreduce(f, grad, grad, n, FPISA_FLOAT32, NULL))
 *		errx(1, "%s", fpisa_error());
 *	fpisa_close(f);
 *
 * Functions return 0 or a negative errno; fpisa_error() then says in one
 * sentence what went wrong and what to try. A handle belongs to one thread
 * at a time, unless it has a progress thread (options.progress), and to the
 * process that made it: in a child after fork() its
 * functions return -ECHILD, but for fpisa_missing(), which returns 0, and
 * fpisa_close(), which frees memory there and changes nothing for the parent.
 * A pointer that is NULL where something is needed gives -EINVAL. Different
 * handles are independent. All ranks of a job call the same operations with the
 * same lengths in the same order, as in MPI.
 */
#ifndef FPISA_H
#define FPISA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct fpisa;
struct fpisa_request;
struct fpisa_mem;

/* Type of an array's values: the job's format, with the numbers of the wire. */
enum fpisa_dtype {
	FPISA_FLOAT32 = 1,
	FPISA_FLOAT16 = 2,  /* IEEE binary16 */
	FPISA_BFLOAT16 = 3, /* the upper half of a float32 */
	FPISA_FLOAT64 = 4,
	FPISA_E4M3 = 5, /* OCP FP8 */
	FPISA_E5M2 = 6, /* OCP FP8 */
	FPISA_INT32 = 7,
	FPISA_MXINT8 = 8, /* OCP MX: count elements of a byte, then count/32 scales; count a multiple of 32 */
};

/* Operation of an all-reduce, per element over the ranks. fpisa-wire(7) says how each is rounded. */
enum fpisa_operation {
	FPISA_SUM = 1,
	FPISA_MIN = 2,	 /* not MXINT8 */
	FPISA_MAX = 3,	 /* not MXINT8 */
	FPISA_AVG = 4,	 /* not INT32 */
	FPISA_SCALE = 5, /* the sum times a factor; not INT32 */
	FPISA_NORM = 6,	 /* root of the sum of squares; not INT32, MXINT8, mode exact */
};

/* Arithmetic of a job: `mode` of struct fpisa_info, fpisa_group_options and fpisa_mem_options. */
enum fpisa_job_mode {
	FPISA_JOB_MODE_FPISA = 1,   /* the smaller exponent's mantissa is shifted right */
	FPISA_JOB_MODE_FPISA_A = 2, /* the stored mantissa is never shifted */
	FPISA_JOB_MODE_FPISA64 = 3, /* as fpisa, in a register of 64 bits */
	FPISA_JOB_MODE_EXACT = 4,   /* the exact sum, rounded once: the same bits in every order of arrival */
};

/* Flags of a chunk's result. The flags of a call are the union over its chunks. */
#define FPISA_RESULT_OVERFLOW 0x01u  /* a register saturated or an element left the format's range */
#define FPISA_RESULT_INEXACT 0x02u   /* some nonzero bit was lost */
#define FPISA_RESULT_OVERWRITE 0x04u /* a stored mantissa was discarded (mode fpisa-a) */
#define FPISA_RESULT_NAN 0x08u
#define FPISA_RESULT_INF 0x10u
#define FPISA_RESULT_MIXED_RANKS 0x100u /* of a call: a rank was taken out, and some chunks are without it */
#define FPISA_RESULT_FEWER_RANKS 0x200u /* of a call: some chunks, or all, are without a rank of the job */

/* What the library does with a result that has the flag OVERFLOW. */
enum fpisa_overflow {
	FPISA_OVERFLOW_DEFAULT = 0, /* an error; in mode fpisa-a, which overflows on ordinary data, a flag */
	FPISA_OVERFLOW_ERROR = 1,   /* the call ends with -ERANGE, its results are delivered all the same */
	FPISA_OVERFLOW_FLAG = 2,    /* it is a flag as the others are */
};

/* Transport of the frames. The protocol is the same for each, so the ranks of a job may differ. */
enum fpisa_transport_name {
	FPISA_TRANSPORT_UDP = 0, /* a UDP socket; no privilege */
	/*
	 * AF_XDP on the interface that leads to the aggregator, zero-copy where its driver can. Needs root
	 * (or CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF) to connect, libxdp.so.1, and an interface whose first queue
	 * nobody else has; the rest of its traffic goes on. One handle an interface.
	 */
	FPISA_TRANSPORT_XSK = 1,
};

/* Result of one chunk, as it arrived. */
struct fpisa_chunk {
	uint64_t offset;	       /* of its first element in the call's vector */
	uint32_t count;		       /* elements, without padding */
	uint32_t flags;		       /* FPISA_RESULT_* */
	uint64_t ranks;		       /* bitmap of the contributors */
	uint64_t order;		       /* 4 bits a rank: its position in the order of arrival; 0 above 16 workers */
	struct fpisa_request *request; /* of its call, as fpisa_allreduce_start() gave it */
	uint32_t call;		       /* its number since the handle joined, from 0, as errors have it */
};

struct fpisa_options {
	size_t size;	     /* sizeof(struct fpisa_options), so that it may grow */
	uint16_t local_port; /* UDP source port that the job lists; 0: 18000. With several aggregators, the first one's */
	uint64_t token;	     /* the job's secret, from which its frames have tags; 0 if it has none */
	/*
	 * Deadline of connect and of each operation; 0: 10000. Only time in which the library could
	 * work counts: of a longer gap between two looks at the network, in which the caller computed
	 * or the process was stopped, a 64th of this (62.5 ms at most). Before -ETIMEDOUT what has
	 * arrived is taken in. FPISA_FOREVER: there is none.
	 */
	uint32_t timeout_ms;
	double loss;   /* fault injection, for tests: share of frames dropped, each way; 0..0.9 */
	uint64_t seed; /* of all fault injection */
	/*
	 * Called for each chunk as its result arrives, from within the waiting call or by the progress
	 * thread. It may use other handles; of its own it may only ask fpisa_get_info() and
	 * fpisa_missing(). All else is refused with -EBUSY, and fpisa_close() does nothing. It must not wait
	 * for a thread that uses the handle: that one waits for it.
	 */
	void (*on_chunk)(void *arg, const struct fpisa_chunk *c);
	void *arg;
	uint32_t overflow; /* enum fpisa_overflow */
	/*
	 * Fault injection as `loss`: shares of frames, each way, 0..0.9, that come twice, after up to
	 * 1 ms of later ones, after 1 to 256 ms, or with 1 to 8 bits flipped.
	 */
	double duplicate, reorder, delay, corrupt;
	uint32_t transport; /* enum fpisa_transport_name */
	/*
	 * Nonzero: if the handle has failed, has joined again or is closed before a call in place (recv is send) has all of its results, the
	 * array is as it was before the call. on_chunk may have reported some chunks. Costs as much memory again as the array while the
	 * call is in progress, and one more copy of each chunk when its result arrives. Calls with separate arrays cost nothing.
	 */
	uint64_t restore;
	/*
	 * Nonzero: the handle has a progress thread, which moves its requests while no caller does, and any
	 * thread may use the handle at any time. It sleeps while there is nothing to do, and while a
	 * caller waits for one of the requests, who then moves them all himself. Signals are blocked in it,
	 * but SIGSEGV and others that a fault raises. Calls are numbered in the order in which their starts
	 * got the handle, which is chance where threads start them: give those tags (struct fpisa_call), in
	 * one order on all ranks. A request is one thread's at a time. The time of a request counts from
	 * its start, or from the end of the one before it if that is later. fpisa_rejoin() and fpisa_close() end
	 * what other threads wait for with -ECANCELED. During the one a start is refused with -EBUSY; once the other
	 * has begun nothing else may.
	 */
	uint64_t progress;
	/*
	 * Nonzero: every sum has all ranks of the job. A result without a rank, which `fpisa job shrink` has taken
	 * out, is not delivered: the call fails with -ECONNRESET, and the error and fpisa_missing() name the rank. A
	 * group does this always. 0: such a result is delivered with FPISA_RESULT_FEWER_RANKS.
	 */
	uint64_t all_ranks;
};

#define FPISA_FOREVER UINT32_MAX /* options.timeout_ms */

/*
 * Parameters and counts of a handle. The job's parameters have the numbers of fpisa-wire(7):
 *
 * mode		1 fpisa, 2 fpisa-a, 3 fpisa64, 4 exact
 * rounding	1 down (toward minus infinity), 2 nearest (ties to even)
 * format	an enum fpisa_dtype
 * pipeline	1 staged, 2 fused
 * clz		1 lpm, 2 bits
 * fanout	1 multicast, 2 unicast
 */
struct fpisa_info {
	size_t size; /* sizeof(struct fpisa_info), set by the caller */
	uint32_t job, rank, workers, elements, window,
		generation; /* of several aggregators window and generation of the first */
	uint8_t mode, rounding, format, pipeline, clz, fanout;
	uint8_t big_endian;	 /* nonzero: the job's arrays are */
	uint64_t sent, received; /* frames */
	uint64_t retransmits;	 /* contributions sent again */
	uint64_t duplicates;	 /* results that were not awaited */
	uint64_t bad;		 /* frames dropped: wrong source, checksum or header */
	uint64_t rtt_ns;	 /* smoothed, of a chunk; of several aggregators the longest */
};

/*
 * Join job `job` of the aggregator at `address` ("10.0.0.1" or
 * "10.0.0.1:18000", IPv4) over UDP. Returns when every rank of the job has
 * joined. options may be NULL.
 *
 * `address` may name up to 16 aggregators, "10.0.0.1*2,10.0.0.2": the chunks of each call are spread over them by their weights
 * (1 to 100; without one 1). All ranks give the same list. Each aggregator has the job under the same number, made alike, with the
 * same token and the workers, with the same UDP ports, in the same order. An error of one aggregator is the handle's and names it. The result has the same bits as with one
 * aggregator in mode exact; in others each chunk's follow from its order of arrival, as always.
 *
 * -EINVAL	bad address (it must be a host's), job number (they are 0..63) or options; or the job is not alike at all aggregators
 * -ETIMEDOUT	no answer: aggregator, route, or the aggregator knows no such job, address and port or token;
 *		or some ranks have not joined: the error names them
 * -EADDRINUSE	another socket of this host has the UDP port options.local_port
 * -EACCES	this rank was taken out of the job; or that port is below 1024, which takes privilege
 * -EPERM, -EBUSY, -ENOENT, -EOPNOTSUPP, -ENOBUFS	transport xsk cannot be had, and why; it serves one aggregator
 */
int fpisa_connect(struct fpisa **f, const char *address, uint32_t job, const struct fpisa_options *options);

/*
 * recv[i] = sum over ranks of send[i], i = 0..count-1, in the job's mode. Both
 * are arrays of `type`, which must be the job's format, little-endian unless
 * the job is big-endian; they may be the same array, else must not overlap. count may be anything
 * from 0 to 2^40; a call of 0 elements waits for no other rank, and all ranks make it. *flags, if not NULL, is the union of FPISA_RESULT_*.
 *
 * -EINVAL	another type than the job's, or bad arguments; nothing was sent
 * -ERANGE	the sum is in recv, and some of it overflowed (options.overflow); the handle goes on
 * -ETIMEDOUT	the deadline passed; the error and fpisa_missing() name the ranks that are missing
 * -EPROTO	the ranks made different calls: another kind, length, type, operation, factor or tag, or in another order,
 *		or have different lists of aggregators; every rank gets it, with its next frame, and none a sum of them
 * -ESTALE	the job was made anew, its ranks joined again, another process joined as this rank, or this rank was
 *		taken out of the job
 * -EUCLEAN	the array has sums of a call in place that failed, not input; nothing was sent
 * -ENOMEM	no memory; or calls in place of the process, under way or failed, would be of more than 2^26 chunks together, which
 *		are 64 GiB of 256 floats each: of more it could not say what -EUCLEAN says. Those of a group before it has a job of
 *		the type count chunks of group options.elements, or of 32 if that is 0. Nothing was sent
 * -ECONNRESET	another rank was taken out of the job (options.all_ranks)
 * After -ETIMEDOUT, -EPROTO, -ESTALE or -ECONNRESET the handle returns it again until fpisa_rejoin().
 *
 * Results go into recv as they arrive. So after a failure other than -ERANGE
 * recv has sums in some places, and in the others what it had before; send is
 * not written unless it is the same array. A call in place cannot be made
 * again from what is left of its array: set options.restore, or keep send
 * apart. Without either a later call that sends the array, or whole chunks of
 * it, by whatever handle or group of the process, is refused with -EUCLEAN until
 * the program has written those chunks again. Only other bytes show that: input that happens to
 * have the very bytes of such a sum is refused too, and goes in from another array. Minima and maxima
 * can be taken twice, and are not refused. Arrays of requests under way at the same time must not overlap.
 */
int fpisa_allreduce(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type, uint32_t *flags);

/*
 * The same for another operation; `factor` is that of FPISA_SCALE, finite and
 * not zero, a float's value unless type is FPISA_FLOAT64; else it is ignored.
 * -EINVAL also: the operation is not offered for the type and the job's mode.
 */
int fpisa_allreduce_op(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
		       enum fpisa_operation op, double factor, uint32_t *flags);
int fpisa_allreduce_op_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			     enum fpisa_operation op, double factor, struct fpisa_request **request);

/*
 * The same with a handle. Requests of one handle complete in the order in
 * which they were started; the arrays must stay until the request is
 * released, or given up by fpisa_rejoin() or fpisa_close().
 * Progress is made inside fpisa_test() and fpisa_wait(), or at any time with
 * options.progress. fpisa_test() sets
 * *done; fpisa_wait() blocks until the deadline. Both release the request
 * once it is done or has failed, and set the caller's pointer to NULL. Without
 * a progress thread the time of a request counts from the first of these calls
 * for it, not from its start. -ECANCELED: fpisa_rejoin() gave it up. A request that has all of
 * its results ends well whatever became of the handle since.
 */
int fpisa_allreduce_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  struct fpisa_request **request);

/* An all-reduce with all that can be said of it. */
struct fpisa_call {
	size_t size; /* sizeof(struct fpisa_call), so that it may grow */
	const void *send;
	void *recv;
	size_t count;
	uint32_t type; /* enum fpisa_dtype */
	uint32_t op;   /* enum fpisa_operation */
	double factor; /* of FPISA_SCALE */
	/*
	 * Distinguishes calls that are otherwise equal; the same on all ranks. If ranks start calls in different orders,
	 * all of them get -EPROTO and no sum. Without tags, calls with the same length, type and operation are not
	 * distinguished.
	 */
	uint64_t tag;
	/*
	 * Not NULL (options.progress only, else -EINVAL): the progress thread calls it once, with what
	 * fpisa_wait() would have returned and fpisa_error() set alike, when the request is done or has failed,
	 * fpisa_close() among the causes. The request is the library's: fpisa_start() sets *request to
	 * NULL, and `request` may be NULL. It may use any handle, start requests and test them;
	 * what waits (fpisa_wait(), fpisa_allreduce(), fpisa_rejoin()) is refused with -EBUSY on its own, and
	 * fpisa_close() does nothing. The handle makes no progress until it returns, unless a caller waits.
	 * A child that it forks must end or exec within it.
	 */
	void (*on_done)(void *arg, int rc, uint32_t flags);
	void *arg;
	uint64_t *ranks; /* where the ranks that are in every value of the result go, a bitmap, before the call ends well; or NULL */
};

int fpisa_start(struct fpisa *f, const struct fpisa_call *call, struct fpisa_request **request);
int fpisa_test(struct fpisa_request **request, int *done, uint32_t *flags);
int fpisa_wait(struct fpisa_request **request, uint32_t *flags);

/*
 * A descriptor to poll() for the end of requests, of a handle with options.progress (else -EINVAL): an
 * eventfd(2), non-blocking and closed on exec. Each request that is done or has failed adds 1, when that
 * happens; those that were before the first call of this function and are not released have added theirs.
 * Not those with on_done, nor fpisa_allreduce() and fpisa_allreduce_op(). read() of 8 bytes returns the
 * number since the last one as a uint64_t and clears it; nothing else does, fpisa_test() and fpisa_wait()
 * neither. It is the same at each call, and the handle's: fpisa_close() closes it. -EMFILE, -ENFILE, -ENOMEM
 */
int fpisa_eventfd(struct fpisa *f);

/*
 * After an error: forget what is under way and join the job's next generation,
 * with all other ranks. The call that failed here may have ended well at
 * others, which are one call ahead then (as many as were under way, of
 * requests). So ranks that make more than one call agree on which they repeat,
 * as by FPISA_MIN of the numbers of their steps, and keep the input of the
 * step before. Errors are those of fpisa_connect() but for what it is given; the
 * handle then returns the same until another try.
 */
int fpisa_rejoin(struct fpisa *f);

/*
 * Ranks, as a bitmap, that the last -ETIMEDOUT or -ECONNRESET of this handle names; of NULL, that this thread's last
 * fpisa_connect(), fpisa_mem_connect() or fpisa_group_join() was, if it failed.
 */
uint64_t fpisa_missing(const struct fpisa *f);

int fpisa_get_info(const struct fpisa *f, struct fpisa_info *info);

/* Leaves without a word to the others; NULL is fine. Unfinished requests are released. */
void fpisa_close(struct fpisa *f);

/*
 * A group: ranks that have found each other by its name at the aggregator's
 * manager (`fpisa serve`), which gives it a job for each type that its calls
 * use. Ranks need no privilege, no job number, no port. A rank may compute as
 * long as it likes: calls of the others end when it dies, not when it is slow.
 * A group belongs to the process that joined it, as handles do, and any thread
 * may use it, as a handle with options.progress. It has two threads of its own:
 * one keeps the connection to the manager, one moves requests while the caller
 * computes. All ranks make the same calls in the same order, whatever their
 * types; among threads that is the caller's to see to.
 */
struct fpisa_group;

struct fpisa_group_options {
	size_t size;	      /* sizeof(struct fpisa_group_options), so that it may grow */
	const char *key_file; /* the file whose last key is used; NULL: what FPISA_KEY names, if it is set; "": none */
	uint32_t join_timeout_ms; /* until all ranks have joined; 0: 10000 */
	uint32_t timeout_ms;	  /* deadline of each call, as options.timeout_ms of a handle; 0: none */
	uint32_t window;   /* of its jobs, at most: a power of two up to 1024; 0: 64. The manager may give less */
	uint16_t elements; /* of a frame: a multiple of 32 up to 832, for FPISA_FLOAT64 416 of them at most; 0: the default, or what the way to the ranks carries */
	uint8_t mode;	   /* enum fpisa_job_mode; 0: the default of `fpisa job add` */
	uint8_t pipeline;  /* of its jobs, as in struct fpisa_info; 0 as mode */
	uint32_t overflow; /* enum fpisa_overflow */
	uint32_t transport; /* enum fpisa_transport_name; XSK is for the group's first type, others go by UDP beside it */
	uint64_t restore;   /* as options.restore of a handle */
	uint8_t rounding;   /* as mode; 0: down, but nearest for modes fpisa64 and exact */
	uint8_t fanout; /* of its jobs' results: 1 multicast where that is possible, 2 unicast; 0: as the manager has it */
};

/*
 * Joins the group `name` of `size` ranks as `rank`. `host` is the aggregator's,
 * a name or an IPv4 address, with the manager's TCP port if that is not 18000;
 * NULL: what FPISA_MANAGER says. Returns when all ranks have joined.
 *
 * -EINVAL	no such host; a name that is none; another size than other ranks said; options that there are not
 * -EAGAIN	the host's name cannot be looked up for now
 * -EACCES	the manager does not take this key, or none, or this host; others can read the file of the key
 * -EEXIST	a group of that name lives, or another process has the rank
 * -EDQUOT, -ENOSPC	the manager gives no more, and says which limit
 * -ETIMEDOUT	the manager did not answer, or some ranks have not joined: the error names them
 * -ECONNRESET	all had joined, and some are dead by now: the error names them
 * -ECONNREFUSED	no manager there
 * -ENOENT	no such file of a key; or no GnuTLS (libgnutls.so.30), which a key takes
 */
int fpisa_group_join(struct fpisa_group **g, const char *host, const char *name, uint32_t rank, uint32_t size,
		     const struct fpisa_group_options *options);

/*
 * As fpisa_start() and fpisa_allreduce_op() of a handle; fpisa_test() and
 * fpisa_wait() take the request. A start waits for nobody. The first call of a
 * type gets its job when all ranks have made it; until then its request, and those
 * started after it, wait, and options.timeout_ms holds for them. call.on_done needs
 * no option: a group has its thread; then `request` may be NULL, and within it
 * any call may be started. Errors beside theirs and those of fpisa_group_join():
 *
 * -ECONNRESET	ranks are dead, or have left before they completed this call: the error and fpisa_group_missing() name
 *		them. So it is for every call then; leave, and join again. Or a result lacks a rank, as by options.all_ranks
 *		of a handle: a group's sums have all of its ranks
 * -EPROTO	ranks have made different calls, or the same ones in another order, whatever their types; also where each waits
 *		in a call of another type. The group is of no more use
 * -EREMOTEIO	another rank cannot go on with calls of this type: its deadline has passed, it has no descriptor, its interface
 *		is gone. The error names the rank and its reason. Calls of this type fail from then on, those of other types go on
 * -EBUSY	within on_done: a call that waits
 * -ETIMEDOUT	also: neither the manager nor the aggregator has answered for 6 s; or the aggregator alone for 30 s, while a call
 *		waited for it; or the manager alone, while the first call of a type waits for its job: for 6 s, but 30 s where the
 *		group has a job and the aggregator does answer; or the manager alone for 30 s, and a call has waited as long for
 *		a result: nobody would say that a rank has died
 * A type whose job was refused, or that a rank cannot go on with, stays so in this group.
 */
int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request);
int fpisa_group_allreduce(struct fpisa_group *g, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  enum fpisa_operation op, double factor, uint32_t *flags);

/*
 * Return when all ranks have called it; errors are those of a call. A barrier that fails ends the calls of all types: on this rank with its
 * error, and on the others, which may wait for it in the job of another type, with -EREMOTEIO. It runs in a job that the group has. If the
 * first job is still being made, the barrier waits for it for at most options.timeout_ms; its own deadline begins then.
 */
int fpisa_group_barrier(struct fpisa_group *g);

/*
 * Start a barrier and return at once; the request, of fpisa_test() and fpisa_wait(), ends when all ranks have called it.
 *
 * -EAGAIN	the group's first job is still being made; nothing was started: call again
 */
int fpisa_group_barrier_start(struct fpisa_group *g, struct fpisa_request **request);

/*
 * `bytes` of data, 0 to 2^42, come from rank `root` to all, as they are, whatever they are: they travel as FPISA_INT32, of
 * which the group gets a job at its first use. data may be NULL if bytes is 0. Rank root's is only read; the others' has, after
 * a failure, what came in some places and in the rest what it had. Errors are those of fpisa_group_start(), and so is
 * what becomes of a request.
 *
 * -EINVAL	root is no rank of the group, or bad arguments; nothing was sent
 * -EUCLEAN	root's data has sums of a call in place that failed; nothing was sent
 * -EPROTO	ranks named another root or another number of bytes; every rank gets it, and none has data of another's call
 */
int fpisa_group_broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root);
int fpisa_group_broadcast_start(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
				struct fpisa_request **request);

/*
 * As fpisa_eventfd() of a handle, for all requests of the group: of fpisa_group_start() without on_done, of
 * fpisa_group_broadcast_start() and of fpisa_group_barrier_start(). fpisa_group_leave() closes it.
 */
int fpisa_group_eventfd(struct fpisa_group *g);

/* Ranks, as a bitmap, that the group's last error names; of NULL, that of this thread's last fpisa_group_join(). */
uint64_t fpisa_group_missing(struct fpisa_group *g);

/* Return 0 while the group goes on, else the -errno with which it ended for this rank: -ECONNRESET if ranks are dead or have left. */
int fpisa_group_ended(struct fpisa_group *g);

/*
 * The group is gone; requests of it are released. Others go on with calls that this rank has completed. NULL is fine. Not while
 * another thread is in a function of the group; within on_done it does nothing.
 */
void fpisa_group_leave(struct fpisa_group *g);

/* The last error of this thread, one line, never NULL. */
const char *fpisa_error(void);

/*
 * Transport `mem`: an aggregator inside this process, the same arithmetic and
 * the same protocol without a network and without privilege. Workers are
 * threads, each with a handle of its own. Mode, rounding, pipeline and format
 * are as in struct fpisa_info; 0 takes the default of `fpisa job add`. Float64
 * in mode exact has up to 128 elements a chunk. Flags are a sum of
 *
 * 0x01	values are big-endian
 * 0x02	an average is multiplied by 1/n, not divided by n
 * 0x08	nothing is counted of the adds, as by `fpisa job add --no-statistics`
 *
 * fpisa_mem_create() returns -EINVAL for any other.
 */
struct fpisa_mem_options {
	size_t size; /* sizeof(struct fpisa_mem_options) */
	uint32_t workers, elements, window;
	uint8_t mode, rounding, pipeline, format;
	uint8_t flags;
};

int fpisa_mem_create(struct fpisa_mem **m, const struct fpisa_mem_options *options);
int fpisa_mem_connect(struct fpisa **f, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options);
void fpisa_mem_destroy(struct fpisa_mem *m); /* after its handles are closed */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif

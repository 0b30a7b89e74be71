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

/* What the values of an array are: the job's format, whose numbers these are. */
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

/* What an all-reduce computes, per element over the ranks; fpisa-wire(7) says how it is rounded. */
enum fpisa_operation {
	FPISA_SUM = 1,
	FPISA_MIN = 2,	 /* not MXINT8 */
	FPISA_MAX = 3,	 /* not MXINT8 */
	FPISA_AVG = 4,	 /* not INT32 */
	FPISA_SCALE = 5, /* the sum times a factor; not INT32 */
	FPISA_NORM = 6,	 /* root of the sum of squares; not INT32, MXINT8, mode exact */
};

/* What a result can say of itself: a chunk's, and the union over all chunks of a call. */
#define FPISA_RESULT_OVERFLOW 0x01u  /* a register saturated or an element left the format's range */
#define FPISA_RESULT_INEXACT 0x02u   /* some nonzero bit was lost */
#define FPISA_RESULT_OVERWRITE 0x04u /* a stored mantissa was discarded (mode fpisa-a) */
#define FPISA_RESULT_NAN 0x08u
#define FPISA_RESULT_INF 0x10u
#define FPISA_RESULT_MIXED_RANKS 0x100u /* of a call: a rank was taken out, and some chunks are without it */
#define FPISA_RESULT_FEWER_RANKS 0x200u /* of a call: some chunks, or all, are without a rank of the job */

/* What to do with a result that says OVERFLOW. */
enum fpisa_overflow {
	FPISA_OVERFLOW_DEFAULT = 0, /* an error; in mode fpisa-a, which overflows on ordinary data, a flag */
	FPISA_OVERFLOW_ERROR = 1,   /* the call ends with -ERANGE, its results are delivered all the same */
	FPISA_OVERFLOW_FLAG = 2,    /* it is a flag as the others are */
};

/* How frames travel. The protocol, and so the other side, is the same. */
enum fpisa_transport_name {
	FPISA_TRANSPORT_UDP = 0, /* a UDP socket; no privilege */
	/*
	 * AF_XDP on the interface that leads to the aggregator, zero-copy where its driver can. Needs root
	 * (or CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF) to connect, libxdp.so.1, and an interface whose first queue
	 * nobody else has; the rest of its traffic goes on. One handle an interface.
	 */
	FPISA_TRANSPORT_XSK = 1,
};

/* One chunk's result, as it arrived. */
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
	uint16_t local_port; /* UDP source port that the job lists; 0: 18000. Of several aggregators the first one's */
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
	 * Nonzero: the array of a call in place (recv is send) is as it was before the call when the handle
	 * has failed, has joined again or is closed, and the call had not all of its results. on_chunk may
	 * have heard of some. Costs as much memory again as the array while the call is under way, and one
	 * more copy of each chunk, when its result arrives. Of separate arrays nothing is kept.
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
 * Parameters and counts of a handle. Of the job, as fpisa-wire(7) has them:
 *
 * mode		1 fpisa, 2 fpisa-a, 3 fpisa64, 4 exact
 * rounding	1 down (toward minus infinity), 2 nearest (ties to even)
 * format	an enum fpisa_dtype
 * pipeline	1 staged, 2 fused
 * clz		1 lpm, 2 bits, 3 lpm-byte
 * fanout	1 multicast, 2 unicast
 */
struct fpisa_info {
	size_t size; /* sizeof(struct fpisa_info), set by the caller */
	uint32_t job, rank, workers, elements, window, generation; /* of several aggregators window and generation of the first */
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
 * same token and the workers in the same order; the one at place i of the list, from 0, lists them with UDP port
 * options.local_port + i. An error of one aggregator is the handle's and names it. The result has the same bits as with one
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
 * -ECONNRESET	another rank was taken out of the job (options.all_ranks)
 * After -ETIMEDOUT, -EPROTO, -ESTALE or -ECONNRESET the handle returns it again until fpisa_rejoin().
 *
 * Results go into recv as they arrive. So after a failure other than -ERANGE
 * recv has sums in some places, and in the others what it had before; send is
 * not written unless it is the same array. A call in place cannot be made
 * again from what is left of its array: set options.restore, or keep send
 * apart. Without either a later call that sends the array, or whole chunks of
 * it, by whatever handle or group of the process, is refused with -EUCLEAN until
 * the program has written those chunks again. Minima and maxima can be taken twice, and are not refused. Arrays of requests under way at the same time must not overlap.
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
	 * Which call it is among those that are equal otherwise, the same on all ranks: ranks that start calls
	 * in different orders get -EPROTO, all of them, and no sum. Without tags calls of one length, type and
	 * operation are not told apart.
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
	uint32_t window;	  /* of its jobs, at most: a power of two; 0: 64. The manager may give less */
	uint16_t elements;	  /* of a frame; 0: the default, or what the way to the ranks carries */
	uint8_t mode;		  /* of its jobs, as in struct fpisa_info; 0: the default of `fpisa job add` */
	uint8_t pipeline;	  /* the same */
	uint32_t overflow;	  /* enum fpisa_overflow */
	uint32_t transport; /* enum fpisa_transport_name; XSK is for the group's first type, others go by UDP beside it */
	uint64_t restore;   /* as options.restore of a handle */
	uint8_t rounding;   /* as mode; 0: down, but nearest for modes fpisa64 and exact */
};

/*
 * Joins the group `name` of `size` ranks as `rank`. `host` is the aggregator's,
 * a name or an IPv4 address, with the manager's TCP port if that is not 18000;
 * NULL: what FPISA_MANAGER says. Returns when all ranks have joined.
 *
 * -EINVAL	no such host; a name that is none; another size than other ranks said
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
 * -ETIMEDOUT	also: neither the manager nor the aggregator has answered for 6 s; or the manager alone, while the first call of a
 *		type waits for its job: for 6 s, but 30 s where the group has a job and the aggregator does answer; or the manager
 *		alone for 30 s, and a call has waited as long for a result: nobody would say that a rank has died
 * A type whose job was refused, or that a rank cannot go on with, stays so in this group.
 */
int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request);
int fpisa_group_allreduce(struct fpisa_group *g, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  enum fpisa_operation op, double factor, uint32_t *flags);

/* Returns when all ranks have called it; errors as of a call. */
int fpisa_group_barrier(struct fpisa_group *g);

/*
 * `bytes` of data, 0 to 2^42, come from rank `root` to all, as they are, whatever they are: they travel as FPISA_INT32, of
 * which the group gets a job at its first use. data may be NULL if bytes is 0. Rank root's is only read; the others' has, after
 * a failure, what came in some places and in the rest what it had. Errors are those of fpisa_group_start(), and so is
 * what becomes of a request.
 *
 * -EINVAL	root is no rank of the group, or bad arguments; nothing was sent
 * -EPROTO	ranks named another root or another number of bytes; every rank gets it, and none has data of another's call
 */
int fpisa_group_broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root);
int fpisa_group_broadcast_start(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
				struct fpisa_request **request);

/*
 * As fpisa_eventfd() of a handle, for all requests of the group: of fpisa_group_start() without on_done, and of
 * fpisa_group_broadcast_start(). fpisa_group_leave() closes it.
 */
int fpisa_group_eventfd(struct fpisa_group *g);

/* Ranks, as a bitmap, that the group's last error names; of NULL, that of this thread's last fpisa_group_join(). */
uint64_t fpisa_group_missing(struct fpisa_group *g);

/*
 * The group is gone; requests of it are released. Others go on with calls that this rank has completed. NULL is fine. Not while
 * another thread is in a function of the group; within on_done it does nothing.
 */
void fpisa_group_leave(struct fpisa_group *g);

/*
 * A query over a table whose rows lie at workers (`fpisa query worker`): the
 * first N rows by a column, groups by key with count, sum, min, max and average,
 * or all rows. Rows pass an aggregator (`fpisa query add`), which drops
 * those that cannot matter or adds them up, or come straight to here. An answer is exact and whole, or there is an error.
 * A query belongs to one thread at a time, and to the process that opened it.
 *
 * An aggregate of a column is over the values that are not NULL, as in SQL; of
 * none but count it is NULL. A sum is exact and rounded once, to a real; an average
 * to a double. NaN equals NaN and is above all else, -0 equals 0.
 */
struct fpisa_query;

enum fpisa_column_type {
	FPISA_COLUMN_REAL = 1, /* binary32 */
	FPISA_COLUMN_DOUBLE = 2,
	FPISA_COLUMN_INT32 = 3,
	FPISA_COLUMN_INT64 = 4,
	FPISA_COLUMN_TEXT = 5,
	FPISA_COLUMN_DATE = 6, /* 1998-12-31 */
};

/* Who drops rows, or adds them up. */
enum fpisa_pruning {
	FPISA_PRUNING_NETWORK = 0, /* the aggregator */
	FPISA_PRUNING_NONE = 1,	   /* nobody: all rows come straight to here */
	FPISA_PRUNING_WORKERS = 2, /* each worker its own; what is left comes straight to here */
};

/* What is reckoned of a group beside its count. */
enum fpisa_aggregate {
	FPISA_AGGREGATE_SUM = 1,
	FPISA_AGGREGATE_MIN = 2,
	FPISA_AGGREGATE_MAX = 4,
	FPISA_AGGREGATE_AVG = 8,
};

/*
 * Where groups go that options.memory has no room for: a sort of the caller's, in a file for example. Records are of one size. A function
 * may leave by longjmp(); then the query can only be closed.
 */
struct fpisa_query_spill {
	/* Keeps a copy of the record. 0, or -errno, which is the query's error. */
	int (*put)(void *arg, const void *record, size_t size);
	/* The next record, in the order of their bytes as memcmp() has it: 1; 0: none is left; -errno. No put() comes after it. */
	int (*take)(void *arg, void *record, size_t size);
	void (*forget)(void *arg); /* all records: the query begins again */
};

/* Texts that are not given are NULL; an empty one is -EINVAL. */
struct fpisa_query_options {
	size_t size;	      /* sizeof(struct fpisa_query_options), so that it may grow */
	const char *workers;  /* ADDR[:PORT],... of their TCP port, which is 18001 by default */
	const char *key_file; /* the file whose last key is used; NULL: what FPISA_KEY names, if there is no `key` */
	const char *table;
	const char *value; /* a column of type real: of the order, or of the aggregates; NULL: groups are counted alone */
	const char *by;	   /* columns of the key, "a,b"; NULL: no groups */
	const char *columns;  /* of the rows of the answer, "a,b"; NULL: all. Not with `by` */
	uint64_t limit;	      /* the first N rows by `value`, up to 65536; 0: all rows, or groups */
	uint8_t ascending;    /* the least values come first */
	uint8_t nulls_first;  /* rows whose value is NULL come before the others, not behind them */
	uint8_t pruning;      /* enum fpisa_pruning */
	uint8_t preaggregate; /* each worker adds up its rows by key first, and sends exact partial sums */
	uint32_t query; /* its number at the aggregator; this, the next and the token not without pruning in the network */
	const char *aggregator; /* ADDR[:PORT] */
	uint64_t token;
	uint16_t local_port;  /* UDP, as the query lists it of its master; 0: 18000 */
	uint16_t worker_port; /* UDP, as it lists it of its workers; 0: 18000 */
	uint32_t timeout_ms;  /* how long nothing may go on before it is an error; 0: 10000 */
	double loss, duplicate, reorder, delay, corrupt; /* fault injection, for tests: as struct fpisa_options */
	uint64_t seed;
	const char *where; /* which rows: "price>=1.5,day<1999-01-01,name='a, b',shop not null", all of which hold; NULL: all */
	uint32_t aggregates; /* of groups: bits of enum fpisa_aggregate; others may be left NULL, which takes less time. 0: all */
	/*
	 * A join that the answer is for: the aggregator drops rows that are in none with that table's rows. Some others
	 * may come all the same: the answer is not less than the join's rows, or groups, and the join itself is the caller's.
	 * FPISA_PRUNING_NETWORK; no `limit`, no `preaggregate`.
	 */
	const char *join; /* another table at the same workers; NULL: none */
	const char *on; /* "a=b,c=d": a, c of `table`, b, d of `join`; not text, the same types; of groups the first of `by`, not null */
	const char *join_where; /* which rows of `join`, as `where`; NULL: all */
	const char *key;	/* the key itself, in place of key_file: NAME:ID:SECRET, as a line of such a file */
	/* Bytes that groups may take here, about 200 each, or rows that have come and nobody has taken; 0: any number, and 8 MB of rows. */
	uint64_t memory;
	const struct fpisa_query_spill *spill; /* for groups beyond these, and beyond 2^24; NULL: such a query ends with -ENOMEM */
	void *spill_arg;
};

/* A column of the answer. */
struct fpisa_query_column {
	const char *name; /* of an aggregate: count, sum, min, max, avg */
	uint32_t type;	  /* enum fpisa_column_type */
	uint32_t not_null;
};

/* Rows, each once, but where it says otherwise; sent = pruned + absorbed + received. */
struct fpisa_query_counts {
	uint64_t rows;	   /* of the table at all workers */
	uint64_t nulls;	   /* of them whose value is NULL */
	uint64_t sent;	   /* in frames, by all workers */
	uint64_t pruned;   /* that the aggregator dropped */
	uint64_t absorbed; /* that it added to its table */
	uint64_t received; /* that came to here */
	/*
	 * Of groups: values, or rows, that these stand for. Of a join `pruned` are those that were sent and are neither absorbed nor
	 * received, each a row; rows without a value are absorbed or received.
	 */
	uint64_t values_sent, values_absorbed, values_received;
	uint64_t frames, repeated; /* of workers, with rows; of them those that were sent again */
	uint32_t restarts;	   /* because the aggregator's state was lost */
	uint32_t certified;	   /* the aggregator's certificate of the first N was checked */
};

/*
 * Begins a query; *q is NULL if it fails, and errors that take longer are those
 * of fpisa_query_work(). Returns at once.
 *
 * -EINVAL	options that contradict each other
 * -EACCES	others can read the file of the key
 * -ENOENT	no such file; or no GnuTLS (libgnutls.so.30)
 * -EADDRINUSE	another program has the UDP port
 */
int fpisa_query_open(struct fpisa_query **q, const struct fpisa_query_options *options);

/*
 * Goes on for up to timeout_ms, -1: for as long as it takes. 1: rows can be taken, 2: and they are all that
 * there are; 0: not yet. An error is the query's last, and the same at each call. Rows of an answer that is not whole come only of
 * a query for all rows, or for those of a join.
 *
 * -EINVAL	a worker has no such table or column, or the aggregator's query is another one; -ENOENT: no such table
 * -EACCES	a worker does not know the key
 * -ECONNREFUSED, -ECONNRESET	a worker does not run, or has ended
 * -ETIMEDOUT	a worker or the aggregator does not answer
 * -EILSEQ	the counts, or the certificate, do not agree: something is broken, and the answer would be wrong
 * -ENOMEM	no memory; or groups take more than options.memory, or are more than 2^24, and there is no options.spill
 * -EPROTO	a worker has said what it was not asked for: other columns, NULL in a column that is not null, a text that is not a value
 */
int fpisa_query_work(struct fpisa_query *q, int timeout_ms);

/* Can be read when fpisa_query_work() with timeout 0 may go on. It is the query's. */
int fpisa_query_fd(const struct fpisa_query *q);

/* How many columns the answer has, in *columns; 0 before they are known, which they are when rows can be taken. */
uint32_t fpisa_query_columns(const struct fpisa_query *q, const struct fpisa_query_column **columns);

/* The next row: a text of each column, or NULL; valid until the next call on the query. 1, or 0: none is left now. */
int fpisa_query_next(struct fpisa_query *q, const char *const **row);

void fpisa_query_counts(const struct fpisa_query *q, struct fpisa_query_counts *counts);

/*
 * Of a join, when all rows are in: how many keys of the other table workers have sent. *filtered: were all of them in the filter before the
 * first row? If not, or if there is no join, it dropped nothing.
 */
uint64_t fpisa_query_keys(const struct fpisa_query *q, int *filtered);

/* Ends it, also one that is under way: workers stop. NULL is fine. */
void fpisa_query_close(struct fpisa_query *q);

/* The last error of this thread, one line, never NULL. */
const char *fpisa_error(void);

/*
 * Transport `mem`: an aggregator inside this process, the same arithmetic and
 * the same protocol without a network and without privilege. Workers are
 * threads, each with a handle of its own. Mode, rounding, pipeline and format
 * are as in struct fpisa_info; 0 takes the default of `fpisa job add`. Mode
 * exact has no float64. Flags are a sum of
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

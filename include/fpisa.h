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
 * Functions return 0 or a negative errno; fpisa_error() then says in one sentence what went wrong and what to try. A
 * handle belongs to one thread at a time, unless it has a progress thread (options.progress). It also belongs to the
 * process that created it. In a child after fork() its functions return -ECHILD, with two exceptions: fpisa_missing()
 * returns 0, and fpisa_close() frees memory there and changes nothing for the parent. A NULL pointer where a value is
 * needed gives -EINVAL. Different handles are independent. All ranks of a job call the same operations with the same
 * lengths in the same order, as in MPI.
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

/* Type of an array's values, which is the job's format. The numbers are those on the wire. */
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
	FPISA_NORM = 6,	 /* root of the sum of squares; not INT32, MXINT8 or mode exact */
};

/* Arithmetic of a job: `mode` of struct fpisa_info, fpisa_group_options and fpisa_mem_options. */
enum fpisa_job_mode {
	FPISA_JOB_MODE_FPISA = 1,   /* the smaller exponent's mantissa is shifted right */
	FPISA_JOB_MODE_FPISA_A = 2, /* the stored mantissa is never shifted */
	FPISA_JOB_MODE_FPISA64 = 3, /* as fpisa, in a register of 64 bits */
	FPISA_JOB_MODE_EXACT = 4,   /* the exact sum, rounded once, so its bits do not depend on the order of arrival */
};

/* Flags of a chunk's result. The flags of a call are the union over its chunks. */
#define FPISA_RESULT_OVERFLOW 0x01u  /* a register saturated or an element left the format's range */
#define FPISA_RESULT_INEXACT 0x02u   /* some nonzero bit was lost */
#define FPISA_RESULT_OVERWRITE 0x04u /* a stored mantissa was discarded (mode fpisa-a) */
#define FPISA_RESULT_NAN 0x08u
#define FPISA_RESULT_INF 0x10u
#define FPISA_RESULT_MIXED_RANKS 0x100u /* in a call's flags: a rank was removed, and some chunks lack it */
#define FPISA_RESULT_FEWER_RANKS 0x200u /* in a call's flags: some or all chunks lack a rank of the job */

/* Policy of the library for a result that has the flag OVERFLOW. */
enum fpisa_overflow {
	FPISA_OVERFLOW_DEFAULT = 0, /* an error; in mode fpisa-a, which overflows on ordinary data, a flag */
	FPISA_OVERFLOW_ERROR = 1,   /* the call ends with -ERANGE; its results are delivered all the same */
	FPISA_OVERFLOW_FLAG = 2,    /* only set the flag */
};

/* Transport of the frames. The protocol is the same for each, so the ranks of a job may differ. */
enum fpisa_transport_name {
	FPISA_TRANSPORT_UDP = 0, /* a UDP socket; no privilege */
	/*
	 * AF_XDP on the interface that leads to the aggregator, zero-copy if its driver supports that. Connecting
	 * needs root (or CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF), libxdp.so.1, and an interface whose first queue nobody
	 * else uses. Other traffic of the interface is not affected. An interface can have one handle.
	 */
	FPISA_TRANSPORT_XSK = 1,
};

/* Result of one chunk, as it arrived. */
struct fpisa_chunk {
	uint64_t offset;	       /* offset of the chunk's first element in the call's vector */
	uint32_t count;		       /* elements, without padding */
	uint32_t flags;		       /* FPISA_RESULT_* */
	uint64_t ranks;		       /* bitmap of the contributors */
	uint64_t order;		       /* 4 bits a rank: its position in the order of arrival; 0 above 16 workers */
	struct fpisa_request *request; /* the call's request, as fpisa_allreduce_start() returned it */
	uint32_t call;		       /* number of the call since the handle joined, from 0, as in error messages */
};

struct fpisa_options {
	size_t size;	     /* sizeof(struct fpisa_options), so that the struct may grow */
	uint16_t local_port; /* UDP source port that the job lists; 0: 18000. With several aggregators, the first one's */
	uint64_t token;	     /* the job's secret, from which its frames have tags; 0 if the job has none */
	/*
	 * Deadline of connect and of each operation; 0: 10000. Only time in which the library could work counts. A
	 * longer gap between two looks at the network, in which the caller computed or the process was stopped,
	 * counts as a 64th of this value (62.5 ms at most). Frames that have arrived are taken in before -ETIMEDOUT.
	 * FPISA_FOREVER: no deadline.
	 */
	uint32_t timeout_ms;
	double loss;   /* fault injection, for tests: share of frames dropped, each way; 0..0.9 */
	uint64_t seed; /* seed of all fault injection */
	/*
	 * Called for each chunk as its result arrives, from within the waiting call or by the progress thread. The
	 * callback may use other handles. On its own handle it may only call fpisa_get_info() and fpisa_missing().
	 * Other functions are refused with -EBUSY, and fpisa_close() does nothing. The callback must not wait for a
	 * thread that uses the handle, because that thread waits for the callback.
	 */
	void (*on_chunk)(void *arg, const struct fpisa_chunk *c);
	void *arg;
	uint32_t overflow; /* enum fpisa_overflow */
	/*
	 * More fault injection: shares of frames, each way, 0..0.9, that arrive twice, after up to 1 ms of later
	 * frames, after 1 to 256 ms, or with 1 to 8 bits flipped.
	 */
	double duplicate, reorder, delay, corrupt;
	uint32_t transport; /* enum fpisa_transport_name */
	/*
	 * Nonzero: restore the array of a call in place (recv is send) if the handle fails, joins again or is closed
	 * before the call has all of its results. The array then is as it was before the call. on_chunk may have
	 * reported some chunks. This costs as much memory again as the array while the call is in progress, and one
	 * more copy of each chunk when its result arrives. Calls with separate arrays cost nothing.
	 */
	uint64_t restore;
	/*
	 * Nonzero: the handle has a progress thread, which moves its requests while no caller does, and any thread
	 * may use the handle at any time. The progress thread sleeps while it has nothing to do, and while a caller
	 * waits for a request: that caller then moves all requests. Signals are blocked in the progress thread,
	 * except SIGSEGV and others that a fault raises.
	 * Calls are numbered in the order in which their starts got the handle. That order is random if several
	 * threads start calls: give such calls tags (struct fpisa_call), in one order on all ranks. A request belongs
	 * to one thread at a time. The time of a request counts from its start, or from the end of the request before
	 * it if that is later.
	 * fpisa_rejoin() and fpisa_close() end what other threads wait for with -ECANCELED. During fpisa_rejoin() a
	 * start is refused with -EBUSY. Once fpisa_close() has begun, no other function may be called.
	 */
	uint64_t progress;
	/*
	 * Nonzero: every sum has all ranks of the job. If `fpisa job shrink` has removed a rank, a result without it
	 * is not delivered. The call fails with -ECONNRESET, and the error and fpisa_missing() name the rank. A group
	 * always does this. 0: such a result is delivered with FPISA_RESULT_FEWER_RANKS.
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
		generation; /* window and generation of the first of several aggregators */
	uint8_t mode, rounding, format, pipeline, clz, fanout;
	uint8_t big_endian;	 /* nonzero: the job's arrays are big-endian */
	uint64_t sent, received; /* frames */
	uint64_t retransmits;	 /* contributions sent again */
	uint64_t duplicates;	 /* results that were not awaited */
	uint64_t bad;		 /* frames dropped: wrong source, checksum or header */
	uint64_t rtt_ns;	 /* smoothed round trip of a chunk; the longest of several aggregators */
	uint64_t marked;	 /* results that reported congestion (ECN), on their own path or on a contribution's */
};

/*
 * Join job `job` of the aggregator at `address` ("10.0.0.1" or "10.0.0.1:18000", IPv4) over UDP. Return when every
 * rank of the job has joined. options may be NULL.
 *
 * `address` may name up to 16 aggregators, "10.0.0.1*2,10.0.0.2". The chunks of each call are spread over the
 * aggregators by their weights (1 to 100, 1 by default). All ranks give the same list. Each aggregator has the job
 * under the same number, with the same parameters and token, and with the workers, with the same UDP ports, in the
 * same order. An error of one aggregator is the handle's error and names the aggregator. In mode exact the result has
 * the same bits as with one aggregator. In other modes the bits of each chunk follow from its order of arrival, as
 * always.
 *
 * -EINVAL	bad address (it must be a host's), job number (0..63) or options; or the job differs between
 *		aggregators
 * -ETIMEDOUT	no answer: the aggregator or the route is down, or the aggregator does not know the job, this
 *		address and port, or the token; or some ranks have not joined: the error names them
 * -EADDRINUSE	another socket of this host has the UDP port options.local_port
 * -EACCES	this rank was removed from the job; or options.local_port is below 1024, which needs privilege
 * -EPERM, -EBUSY, -ENOENT, -EOPNOTSUPP, -ENOBUFS	transport xsk is not available, as the error says; it serves one aggregator
 */
int fpisa_connect(struct fpisa **f, const char *address, uint32_t job, const struct fpisa_options *options);

/*
 * Set recv[i] to the sum over all ranks of send[i], i = 0..count-1, in the job's mode. send and recv are arrays of
 * `type`, which must be the job's format, little-endian unless the job is big-endian. They may be the same array,
 * else they must not overlap. count is 0 to 2^40. A call of 0 elements sends nothing, and ends when the calls before
 * it have ended; all ranks make it. *flags, if not NULL, is the union of FPISA_RESULT_*.
 *
 * -EINVAL	another type than the job's, or bad arguments; nothing was sent
 * -ERANGE	the sum is in recv, and some of it overflowed (options.overflow); the handle can still be used
 * -ETIMEDOUT	the deadline passed; the error and fpisa_missing() name the ranks that are missing
 * -EPROTO	the ranks made different calls: another kind, length, type, operation, factor or tag, or in another order,
 *		or have different lists of aggregators; every rank gets this error with its next frame, and no rank gets a sum
 * -ESTALE	the job was created again, its ranks joined again, another process joined as this rank, or this rank was
 *		removed from the job
 * -EUCLEAN	the array has sums of a call in place that failed, not input; nothing was sent
 * -ENOMEM	no memory; or calls in place of the process, in progress or failed, would have more than 2^26 chunks together
 *		(64 GiB of 256 floats each): the library could not remember more chunks for -EUCLEAN. Calls of a group that does
 *		not have a job of the type yet count chunks of group options.elements, or of 32 if that is 0. Nothing was sent
 * -ECONNRESET	another rank was removed from the job (options.all_ranks)
 * After -ETIMEDOUT, -EPROTO, -ESTALE or -ECONNRESET the handle returns the same error until fpisa_rejoin().
 *
 * Results go into recv as they arrive. After a failure other than -ERANGE recv has sums in some places, and its
 * former values in the others. send is not written unless it is the same array. A failed call in place cannot be
 * repeated from what is left of its array: set options.restore, or keep send apart. Otherwise later calls that send
 * the array, or whole chunks of it, are refused with -EUCLEAN until the program has written those chunks again. This
 * holds for all handles and groups of the process. The library recognises such chunks by their bytes. Input that
 * happens to have the bytes of such a sum is refused too; send it from another array. Minima and maxima can be taken
 * twice, and are not refused. Arrays of requests in progress at the same time must not overlap.
 */
int fpisa_allreduce(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type, uint32_t *flags);

/*
 * Run fpisa_allreduce() with another operation. `factor` is used by FPISA_SCALE only: finite and not zero, a float's
 * value unless type is FPISA_FLOAT64. -EINVAL also: the operation is not offered for the type and the job's mode.
 */
int fpisa_allreduce_op(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
		       enum fpisa_operation op, double factor, uint32_t *flags);
int fpisa_allreduce_op_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			     enum fpisa_operation op, double factor, struct fpisa_request **request);

/*
 * Start an all-reduce and return a request. Requests of one handle complete in the order in which they were started.
 * The arrays must stay until the request is released, or given up by fpisa_rejoin() or fpisa_close().
 * Progress is made inside fpisa_test() and fpisa_wait(), or at any time with options.progress. fpisa_test() sets
 * *done; fpisa_wait() blocks until the deadline. Each of them releases the request once it is done or has failed, and
 * sets the caller's pointer to NULL. Without a progress thread the time of a request counts from the first of these
 * calls for it, not from its start. -ECANCELED: fpisa_rejoin() gave the request up. A request that has all of its
 * results succeeds even if the handle has failed since.
 */
int fpisa_allreduce_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  struct fpisa_request **request);

/* An all-reduce with all of its parameters. */
struct fpisa_call {
	size_t size; /* sizeof(struct fpisa_call), so that the struct may grow */
	const void *send;
	void *recv;
	size_t count;
	uint32_t type; /* enum fpisa_dtype */
	uint32_t op;   /* enum fpisa_operation */
	double factor; /* factor of FPISA_SCALE */
	/*
	 * Distinguishes calls that are otherwise equal; the same on all ranks. If ranks start calls in different
	 * orders, all of them get -EPROTO and no sum. Without tags, calls with the same length, type and operation
	 * are not distinguished.
	 */
	uint64_t tag;
	/*
	 * Not NULL (options.progress only, else -EINVAL): the progress thread calls it once when the request is done or
	 * has failed, also by fpisa_close(). rc is what fpisa_wait() would have returned, and fpisa_error() returns its
	 * message. The library owns the request: fpisa_start() sets *request to NULL, and `request` may be NULL. The
	 * callback may use any handle, start requests and test them. Functions that wait (fpisa_wait(),
	 * fpisa_allreduce(), fpisa_rejoin()) are refused with -EBUSY on its own handle, and fpisa_close() does nothing.
	 * The handle makes no progress until the callback returns, unless a caller waits. A child that the callback
	 * forks must end or exec within the callback.
	 */
	void (*on_done)(void *arg, int rc, uint32_t flags);
	void *arg;
	uint64_t *ranks; /* NULL, or where to store the bitmap of the ranks in every value of the result, before the call succeeds */
	uint64_t timeout_ms; /* deadline of this call, up to FPISA_FOREVER; 0: options.timeout_ms */
};

int fpisa_start(struct fpisa *f, const struct fpisa_call *call, struct fpisa_request **request);
int fpisa_test(struct fpisa_request **request, int *done, uint32_t *flags);
int fpisa_wait(struct fpisa_request **request, uint32_t *flags);

/*
 * Return a descriptor to poll() for the end of requests of a handle with options.progress (else -EINVAL): an
 * eventfd(2), non-blocking and closed on exec. Each request that is done or has failed adds 1, when that happens.
 * Requests that ended before the first call of this function and are not released have added theirs. Requests with
 * on_done, fpisa_allreduce() and fpisa_allreduce_op() add nothing. read() of 8 bytes returns the number since the
 * last read as a uint64_t and clears it. Only read() clears it: fpisa_test() and fpisa_wait() do not. Each call
 * returns the same descriptor. It belongs to the handle: fpisa_close() closes it. Errors: -EMFILE, -ENFILE, -ENOMEM
 */
int fpisa_eventfd(struct fpisa *f);

/*
 * Recover from an error: forget requests in progress and join the job's next generation, with all other ranks. The
 * call that failed here may have succeeded at other ranks. Those ranks are one call ahead then, or as many requests
 * as were in progress. So ranks that make more than one call agree on the calls to repeat, for example by FPISA_MIN
 * of the numbers of their steps. They also keep the input of the step before. Errors are those of fpisa_connect(),
 * except for bad arguments; the handle then returns the same error until another try.
 */
int fpisa_rejoin(struct fpisa *f);

/*
 * Return the bitmap of ranks that the last -ETIMEDOUT or -ECONNRESET of this handle names. For NULL, return the ranks
 * that this thread's last fpisa_connect(), fpisa_mem_connect() or fpisa_group_join() named, if that call failed.
 */
uint64_t fpisa_missing(const struct fpisa *f);

int fpisa_get_info(const struct fpisa *f, struct fpisa_info *info);

/* Close the handle without telling the other ranks, and release unfinished requests. NULL is allowed. */
void fpisa_close(struct fpisa *f);

/*
 * A group: ranks that have found each other by its name at the aggregator's manager (`fpisa serve`). The manager
 * gives the group a job for each type that its calls use. Ranks need no privilege, job number or port. A rank may
 * compute as long as it likes: calls of the other ranks end when it dies, not when it is slow. A group belongs to the
 * process that joined it, as handles do, and any thread may use it, as a handle with options.progress. It has two
 * threads: one keeps the connection to the manager, the other moves requests while the caller computes. All ranks
 * make the same calls in the same order, whatever their types. If several threads make calls, the caller ensures that
 * order.
 */
struct fpisa_group;

struct fpisa_group_options {
	size_t size; /* sizeof(struct fpisa_group_options), so that the struct may grow */
	const char *key_file; /* the file whose last key is used; NULL: the file that FPISA_KEY names, if it is set; "": no key */
	uint32_t join_timeout_ms; /* limit until all ranks have joined, including the look-up of the host's name; 0: 10000 */
	uint32_t timeout_ms;	  /* deadline of each call, as options.timeout_ms of a handle; 0: none */
	uint32_t window;   /* largest window of its jobs: a power of two up to 1024; 0: 64. The manager may give less */
	uint16_t elements; /* elements of a frame: a multiple of 32 up to 832, or up to 416 for FPISA_FLOAT64; 0: the default, or what the paths from all aggregators to the ranks carry */
	uint8_t mode;	   /* enum fpisa_job_mode; 0: the default of `fpisa job add` */
	uint8_t pipeline;  /* pipeline of its jobs, as in struct fpisa_info; 0: the default */
	uint32_t overflow; /* enum fpisa_overflow */
	uint32_t transport; /* enum fpisa_transport_name; XSK is for the group's first type; the other types use UDP */
	uint64_t restore;   /* as options.restore of a handle */
	uint8_t rounding;   /* as in struct fpisa_info; 0: down, but nearest for modes fpisa64 and exact */
	uint8_t fanout; /* fanout of the jobs' results: 1 multicast where that is possible, 2 unicast; 0: the manager's setting */
};

/*
 * Join the group `name` of `size` ranks as `rank`. Return when all ranks have joined. `host` is the aggregator's name
 * or IPv4 address, with the manager's TCP port if that is not 18000. NULL: the value of FPISA_MANAGER.
 *
 * -EINVAL	no such host; a bad name; other ranks gave another size; unknown options
 * -EAGAIN	the host's name cannot be looked up for now
 * -EACCES	the manager does not accept this key, a client without a key, or this host; or others can read the key's file
 * -EEXIST	a group of that name exists, or another process has the rank
 * -EDQUOT, -ENOSPC	a limit of the manager is reached; the error says which
 * -ETIMEDOUT	the manager did not answer, or some ranks have not joined: the error names them
 * -ECONNRESET	all ranks had joined, and some have died since: the error names them
 * -ECONNREFUSED	no manager listens there
 * -ENOENT	the key's file does not exist; or GnuTLS (libgnutls.so.30), which a key needs, is not installed
 */
int fpisa_group_join(struct fpisa_group **g, const char *host, const char *name, uint32_t rank, uint32_t size,
		     const struct fpisa_group_options *options);

/*
 * Start a call, as fpisa_start() does for a handle, or make one and wait, as fpisa_allreduce_op() does. fpisa_test()
 * and fpisa_wait() take the request. A start does not wait for other ranks. The first call of a type, even of 0
 * elements, gets its job when all ranks have made it. Until then its request, and those started after it, wait, and
 * options.timeout_ms applies to them. call.on_done needs no option, because a group has its thread; then `request` may
 * be NULL, and the callback may start any call. Errors besides those of the handle's functions and of
 * fpisa_group_join():
 *
 * -ECONNRESET	ranks have died, or have left before they completed this call: the error and fpisa_group_missing() name
 *		them. Every later call fails too; leave, and join again. Or a result lacks a rank, as with options.all_ranks
 *		of a handle: a group's sums have all of its ranks
 * -EPROTO	ranks have made different calls, or the same calls in another order, whatever their types; also if each
 *		rank waits in a call of another type. The group cannot be used any more
 * -EREMOTEIO	another rank cannot continue with calls of this type: its deadline has passed, it has no descriptor, its
 *		interface is gone. The error names the rank and its reason. Calls of this type fail from then on, calls of
 *		other types continue
 * -EBUSY	a call that waits, made within on_done
 * -ETIMEDOUT	also: neither the manager nor the aggregator has answered for 6 s;
 *		or the aggregator has not answered for 30 s, while a call waited for it;
 *		or the manager has not answered while the first call of a type waits for its job: for 6 s, but for 30 s if the
 *		group has a job and the aggregator does answer;
 *		or the manager has not answered for 30 s, and a call has waited as long for a result: the manager could
 *		not report a dead rank
 * If a job for a type was refused, or a rank cannot continue with that type, this does not change for the rest of the
 * group's life.
 */
int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request);
int fpisa_group_allreduce(struct fpisa_group *g, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  enum fpisa_operation op, double factor, uint32_t *flags);

/*
 * Reduce, and keep this rank's part of the result: `send` has the parts of all ranks one after the other, `count`
 * elements together, and recv gets counts[rank] of them. counts has an element for each rank of the group, the same on
 * all ranks, 0 to 2^40; their sum is count. NULL: equal parts of count / size elements. If only one rank's count is
 * not 0, this is a reduce to that rank. The bits are those of the all-reduce of `send`. recv may be the place of this
 * rank's part in send, except with FPISA_MXINT8, else they must not overlap; it may be NULL if its count is 0. In place
 * the rest of send is not written. The call takes as many frames as the all-reduce. Errors and the request's life are
 * those of fpisa_group_start() and fpisa_group_allreduce(). Also:
 *
 * -EINVAL	counts do not add up to count; or counts is NULL and count is not a multiple of the group's size; or
 *		a count of FPISA_MXINT8 is not a multiple of 32
 * -EPROTO	ranks gave other counts, or another kind of call
 */
int fpisa_group_reduce_scatter(struct fpisa_group *g, const void *send, void *recv, size_t count, const size_t *counts,
			       enum fpisa_dtype type, enum fpisa_operation op, double factor, uint32_t *flags);
int fpisa_group_reduce_scatter_start(struct fpisa_group *g, const struct fpisa_call *call, const size_t *counts,
				     struct fpisa_request **request);

/*
 * Return when all ranks have called the barrier; errors are those of a call. A barrier that fails ends the calls of
 * all types: on this rank with its error, on the other ranks with -EREMOTEIO. Those ranks may wait for it in the job
 * of another type. The barrier runs in a job that the group has. If the first job is still being created, the barrier
 * waits for it for at most options.timeout_ms; its own deadline begins then.
 */
int fpisa_group_barrier(struct fpisa_group *g);

/*
 * Start a barrier and return at once. fpisa_test() and fpisa_wait() take the request, which ends when all ranks have
 * called the barrier.
 *
 * -EAGAIN	the group's first job is still being created; nothing was started: call again
 */
int fpisa_group_barrier_start(struct fpisa_group *g, struct fpisa_request **request);

/*
 * Send `bytes` of data, 0 to 2^42, from rank `root` to all ranks, unchanged. The data travel as FPISA_INT32. The group
 * gets a job of this type at the first use. data may be NULL if bytes is 0. Rank root's data is only read. After a
 * failure the data of other ranks have the received bytes in some places, and their former contents in the rest. Errors
 * and the request's life are those of fpisa_group_start(). Also:
 *
 * -EINVAL	root is not a rank of the group, or bad arguments; nothing was sent
 * -EUCLEAN	root's data has sums of a call in place that failed; nothing was sent
 * -EPROTO	ranks named another root or another number of bytes; every rank gets this error, and no rank has another
 *		call's data
 */
int fpisa_group_broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root);
int fpisa_group_broadcast_start(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
				struct fpisa_request **request);

/*
 * Return a descriptor as fpisa_eventfd() does, for all requests of the group: those of fpisa_group_start() without
 * on_done, fpisa_group_broadcast_start() and fpisa_group_barrier_start(). fpisa_group_leave() closes it.
 */
int fpisa_group_eventfd(struct fpisa_group *g);

/*
 * Return the bitmap of ranks that the group's last error names. For NULL, return those of this thread's last
 * fpisa_group_join().
 */
uint64_t fpisa_group_missing(struct fpisa_group *g);

/*
 * Return 0 while the group is alive, else the -errno with which it ended for this rank: -ECONNRESET if ranks are dead
 * or have left.
 */
int fpisa_group_ended(struct fpisa_group *g);

/*
 * Leave the group and release its requests. The other ranks continue calls that this rank has completed. NULL is
 * allowed. Do not call it while another thread is in a function of the group. Within on_done it does nothing.
 */
void fpisa_group_leave(struct fpisa_group *g);

/* Return the last error of this thread, one line, never NULL. */
const char *fpisa_error(void);

/*
 * Transport `mem`: an aggregator inside this process, with the same arithmetic and protocol, without a network and
 * without privilege. Workers are threads, each with its own handle. Mode, rounding, pipeline and format are as in
 * struct fpisa_info; 0 takes the default of `fpisa job add`. Float64 in mode exact has up to 128 elements a chunk.
 * Flags are a sum of
 *
 * 0x01	values are big-endian
 * 0x02	an average is multiplied by 1/n, not divided by n
 * 0x08	adds are not counted, as with `fpisa job add --no-statistics`
 * 0x10	the workers are leaves: aggregators for which fpisa_mem_set_parent() names this one
 *
 * fpisa_mem_create() returns -EINVAL for any other flag.
 */
struct fpisa_mem_options {
	size_t size; /* sizeof(struct fpisa_mem_options) */
	uint32_t workers, elements, window;
	uint8_t mode, rounding, pipeline, format;
	uint8_t flags;
};

int fpisa_mem_create(struct fpisa_mem **m, const struct fpisa_mem_options *options);
int fpisa_mem_connect(struct fpisa **f, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options);
void fpisa_mem_destroy(struct fpisa_mem *m); /* after its handles are closed, and its leaves destroyed */

/*
 * Turn an aggregator into a leaf of a tree. It becomes worker `rank` of `parent`, and its sums then contain the workers
 * of all leaves of the parent, up to 64 times 64. The bits are those of one sum over all these workers. Leaf and parent
 * need mode exact and equal options, except workers, and the parent needs flag 0x10. A handle sees the ranks, and the
 * bitmaps of ranks, of its own leaf. An average has up to 64 workers in all. Call this function before handles connect.
 * Return 0, -EINVAL, or -EBUSY if the leaf has a parent or the rank is taken.
 */
int fpisa_mem_set_parent(struct fpisa_mem *leaf, struct fpisa_mem *parent, uint32_t rank);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif

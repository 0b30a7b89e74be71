/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libfpisa performs all-reduce through an FPISA aggregator. This is a worker:
 *
 *	struct fpisa *f;
 *
 *	if (fpisa_connect(&f, "10.0.0.1", 7, NULL) ||
 *	    fpisa_allreduce(f, grad, grad, n, FPISA_FLOAT32, NULL))
 *		errx(1, "%s", fpisa_error());
 *	fpisa_close(f);
 *
 * Functions return 0 or a negative errno. After an error, fpisa_error() says in one sentence what went wrong and what
 * to try. Only one thread at a time may use a handle, unless the handle has a progress thread (options.progress). Only
 * the process that created a handle may use it. In a child after fork(), functions of the handle return -ECHILD, with
 * two exceptions: fpisa_missing() returns 0, and fpisa_close() frees the child's memory and changes nothing for the
 * parent. For a NULL pointer where a value is needed, a function returns -EINVAL. Different handles are independent.
 * All ranks of a job call the same operations with the same lengths in the same order, as in MPI.
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

/* Type of the values of an array, which must be the format of the job. Frames use the same numbers. */
enum fpisa_dtype {
	FPISA_FLOAT32 = 1,
	FPISA_FLOAT16 = 2,  /* IEEE binary16 */
	FPISA_BFLOAT16 = 3, /* the upper half of a float32 */
	FPISA_FLOAT64 = 4,
	FPISA_E4M3 = 5, /* OCP FP8 */
	FPISA_E5M2 = 6, /* OCP FP8 */
	FPISA_INT32 = 7,
	FPISA_MXINT8 = 8, /* OCP MX: count elements of one byte, then count/32 scales; count is a multiple of 32 */
};

/*
 * Operation of an all-reduce, which applies to each element over all ranks. fpisa-wire(7) describes the rounding of
 * each operation.
 */
enum fpisa_operation {
	FPISA_SUM = 1,
	FPISA_MIN = 2,	 /* not MXINT8 */
	FPISA_MAX = 3,	 /* not MXINT8 */
	FPISA_AVG = 4,	 /* not INT32 */
	FPISA_SCALE = 5, /* the sum times a factor; not INT32 */
	FPISA_NORM = 6,	 /* root of the sum of squares; not INT32, MXINT8 or mode exact */
};

/* Arithmetic of a job, for the member `mode` of struct fpisa_info, fpisa_group_options and fpisa_mem_options. */
enum fpisa_job_mode {
	FPISA_JOB_MODE_FPISA = 1,   /* the smaller exponent's mantissa is shifted right */
	FPISA_JOB_MODE_FPISA_A = 2, /* the stored mantissa is never shifted */
	FPISA_JOB_MODE_FPISA64 = 3, /* like mode fpisa, in a register of 64 bits */
	FPISA_JOB_MODE_EXACT = 4,   /* the exact sum, rounded once; the order of arrival does not change its bits */
};

/* Flags of a chunk's result. The flags of a call are the union over its chunks. */
#define FPISA_RESULT_OVERFLOW 0x01u  /* a register saturated or an element left the format's range */
#define FPISA_RESULT_INEXACT 0x02u   /* some nonzero bit was lost */
#define FPISA_RESULT_OVERWRITE 0x04u /* a stored mantissa was discarded (mode fpisa-a) */
#define FPISA_RESULT_NAN 0x08u
#define FPISA_RESULT_INF 0x10u
/* only in the flags of a call: a rank was removed, and some chunks lack this rank */
#define FPISA_RESULT_MIXED_RANKS 0x100u
#define FPISA_RESULT_FEWER_RANKS 0x200u /* only in the flags of a call: some or all chunks lack a rank of the job */

/* Policy of the library for a result that has the flag OVERFLOW. */
enum fpisa_overflow {
	FPISA_OVERFLOW_DEFAULT = 0, /* an error; in mode fpisa-a, which overflows on ordinary data, only a flag */
	FPISA_OVERFLOW_ERROR = 1,   /* the call delivers its results and ends with -ERANGE */
	FPISA_OVERFLOW_FLAG = 2,    /* the call only sets the flag */
};

/* Transport of the frames. All transports use the same protocol, so the ranks of a job may use different transports. */
enum fpisa_transport_name {
	FPISA_TRANSPORT_UDP = 0, /* a UDP socket, which needs no privilege */
	/*
	 * AF_XDP on the interface that leads to the aggregator, with zero-copy if the driver supports it. To connect, a
	 * process needs root (or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF), libxdp.so.1, and an interface whose first
	 * queue no other AF_XDP socket uses. Other traffic of the interface is not affected. An interface can serve
	 * only one handle.
	 */
	FPISA_TRANSPORT_XSK = 1,
};

/* Description of the result of one chunk, for options.on_chunk. */
struct fpisa_chunk {
	uint64_t offset; /* offset of the chunk's first element in the call's vector */
	uint32_t count;	 /* elements, without padding */
	uint32_t flags;	 /* FPISA_RESULT_* */
	uint64_t ranks;	 /* bitmap of the contributors */
	/* 4 bits for each rank: its position in the order of arrival; 0 in jobs of more than 16 workers */
	uint64_t order;
	struct fpisa_request *request; /* the call's request, as fpisa_allreduce_start() returned it */
	/* number of the call, counted from 0 since the handle joined; error messages use the same number */
	uint32_t call;
};

struct fpisa_options {
	size_t size; /* sizeof(struct fpisa_options), so that later versions can add members */
	/* UDP source port, as listed in the job; 0: 18000. With several aggregators, the port for the first */
	uint16_t local_port;
	/* secret of the job, from which the tags of frames are computed; 0 if the job has no token */
	uint64_t token;
	/*
	 * Deadline for connecting and for each operation, in ms; 0: 10000; FPISA_FOREVER: no deadline. Only time in
	 * which the library could work counts. A gap in which the caller computed or the process was stopped counts as
	 * at most a 64th of this value (62.5 ms at most). The library processes frames that have arrived before it
	 * returns -ETIMEDOUT.
	 */
	uint32_t timeout_ms;
	double loss;   /* fault injection for tests: share of frames to drop in each direction, 0..0.9 */
	uint64_t seed; /* random seed of the fault injection */
	/*
	 * Callback for each chunk when its result arrives. The waiting call or the progress thread runs the callback.
	 * The callback may use other handles. With its own handle it may only call fpisa_get_info() and
	 * fpisa_missing(). Other functions return -EBUSY, and fpisa_close() does nothing. The callback must not wait
	 * for a thread that uses the handle, because that thread waits for the callback.
	 */
	void (*on_chunk)(void *arg, const struct fpisa_chunk *c);
	void *arg;
	uint32_t overflow; /* enum fpisa_overflow */
	/*
	 * More fault injection: shares of frames in each direction, 0..0.9. `duplicate` frames arrive twice, `reorder`
	 * frames arrive after up to 1 ms of later frames, `delay` frames arrive after 1 to 256 ms, and `corrupt` frames
	 * have 1 to 8 bits flipped.
	 */
	double duplicate, reorder, delay, corrupt;
	uint32_t transport; /* enum fpisa_transport_name */
	/*
	 * Nonzero: restore the array of an in-place call (recv is send) if the handle fails, joins again or is closed
	 * before the call has all of its results. The array then has its contents from before the call, even if
	 * on_chunk has reported some chunks. During the call this needs a second copy of the array in memory, and
	 * copies each chunk once more when its result arrives. Calls with separate arrays are not affected.
	 */
	uint64_t restore;
	/*
	 * Nonzero: the handle has a progress thread, which advances the requests while no caller does, and any thread
	 * may use the handle at any time. The progress thread sleeps while it has nothing to do, and while a caller
	 * waits for a request, because the caller then advances all requests. Signals are blocked in the progress
	 * thread, except SIGSEGV and other signals of a fault. Calls are numbered in the order in which their starts
	 * got the handle. This order is random if several threads start calls. Give such calls tags (struct
	 * fpisa_call), and start them in the same order on all ranks. Only one thread at a time may use a request. The
	 * time of a request counts from its start or from the end of the request before it, whichever is later.
	 * fpisa_rejoin() and fpisa_close() end the requests of other threads with -ECANCELED. During fpisa_rejoin() a
	 * start returns -EBUSY. Once fpisa_close() has begun, no other function may be called.
	 */
	uint64_t progress;
	/*
	 * Nonzero: require all ranks of the job in every sum. If `fpisa job shrink` has removed a rank, a result
	 * without this rank is not delivered. The call fails with -ECONNRESET, and the error and fpisa_missing() name
	 * the rank. A group always requires all ranks. 0: a result without the rank is delivered with
	 * FPISA_RESULT_FEWER_RANKS.
	 */
	uint64_t all_ranks;
};

#define FPISA_FOREVER UINT32_MAX /* value of options.timeout_ms for no deadline */

/*
 * Parameters and counters of a handle. The parameters of the job have the numbers that fpisa-wire(7) lists:
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
		generation; /* with several aggregators, `window` and `generation` are those of the first */
	uint8_t mode, rounding, format, pipeline, clz, fanout;
	uint8_t big_endian;	 /* nonzero: the job's arrays are big-endian */
	uint64_t sent, received; /* frames */
	uint64_t retransmits;	 /* contributions sent again */
	uint64_t duplicates;	 /* results for which no chunk waited */
	uint64_t bad;		 /* frames dropped: wrong source, checksum or header */
	uint64_t rtt_ns;	 /* smoothed round trip of a chunk; with several aggregators, the longest */
	/* results that reported congestion (ECN), on the path of the result or of a contribution */
	uint64_t marked;
};

/*
 * Join job `job` of the aggregator at `address` ("10.0.0.1:18000" or "[2001:db8::1]:18000"; the port may be left out).
 * Return when every rank of the job has joined. options may be NULL.
 *
 * `address` may name up to 16 aggregators, "10.0.0.1*2,10.0.0.2". The chunks of each call are spread over the
 * aggregators by their weights (1 to 100, 1 by default). All ranks must give the same list. The job must have the same
 * parameters, token, and order of workers with the same UDP ports on each aggregator. Its number is `job`, or the number
 * after "/", as in "10.0.0.1,10.0.0.2/8". An aggregator may have several jobs of the list, "10.0.0.1,10.0.0.1/8", for
 * example a leaf with several parents. The ranks of another leaf then give that leaf's address. If one aggregator reports
 * an error, the handle fails with this error, which names the aggregator. In mode exact the result has the same bits as
 * with one aggregator. In other modes the bits of each chunk depend on its order of arrival, as with one aggregator.
 *
 * -EINVAL	the address (of a host), the job number (0..63) or an option is invalid; or the job differs between
 *		aggregators
 * -ETIMEDOUT	no answer: the aggregator or the route is down, or the aggregator does not know the job, this
 *		address and port, or the token; or some ranks have not joined, and the error names them
 * -EADDRINUSE	another socket of this host has the UDP port options.local_port
 * -EACCES	this rank was removed from the job; or options.local_port is below 1024, which needs privilege
 * -EPERM, -EBUSY, -ENOENT, -EOPNOTSUPP, -ENOBUFS	transport xsk is not available; the error has the reason, for
 *		example several aggregators
 */
int fpisa_connect(struct fpisa **f, const char *address, uint32_t job, const struct fpisa_options *options);

/*
 * Set recv[i] to the sum over all ranks of send[i], i = 0..count-1, in the job's mode. send and recv are arrays of
 * `type`, which must be the format of the job. The values are little-endian unless the job is big-endian. send and recv
 * may be the same array, otherwise they must not overlap. count is 0 to 2^40. A call of 0 elements, which all ranks
 * must make, sends nothing and ends when the previous calls have ended. *flags, if not NULL, becomes the union of
 * FPISA_RESULT_*.
 *
 * -EINVAL	the type is not the job's, or an argument is invalid; nothing was sent
 * -ERANGE	the sum is in recv, and some of it overflowed (options.overflow); the handle can still be used
 * -ETIMEDOUT	the deadline passed; the error and fpisa_missing() name the ranks that are missing
 * -EPROTO	the ranks made different calls: another kind, length, type, operation, factor or tag, or in another
 *		order, or have different lists of aggregators; every rank gets this error with its next frame, and no
 *		rank gets a sum
 * -ESTALE	the job was created again, its ranks joined again, another process joined as this rank, or this rank was
 *		removed from the job
 * -EUCLEAN	the array contains sums of a failed in-place call instead of input; nothing was sent
 * -ENOMEM	no memory; or the process's in-place calls, in progress or failed, would have more than 2^26 chunks
 *		together (64 GiB of 256 floats each), and the library cannot remember more for -EUCLEAN. Calls of a
 *		group that does not have a job of the type yet count chunks of group options.elements, or of 32 if this
 *		option is 0. Nothing was sent
 * -ECONNRESET	another rank was removed from the job (options.all_ranks)
 * After -ETIMEDOUT, -EPROTO, -ESTALE or -ECONNRESET the handle returns the same error until fpisa_rejoin().
 *
 * Results are written into recv as they arrive. After a failure other than -ERANGE, some elements of recv are sums, and
 * the others have their former values. send is not written unless it is the same array. A failed in-place call cannot
 * be repeated, because part of its input is overwritten; set options.restore, or use separate arrays. Without
 * options.restore, all later calls of the process that send the array, or whole chunks of it, return -EUCLEAN until the
 * program has written these chunks again. The library recognises such chunks by their bytes. Input that happens to have
 * the same bytes as such a sum is refused too; send this input from another array. Calls for minima and maxima can be
 * repeated, and are not refused. Arrays of requests in progress at the same time must not overlap.
 */
int fpisa_allreduce(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type, uint32_t *flags);

/*
 * Run fpisa_allreduce() with another operation. Only FPISA_SCALE uses `factor`, which must be finite, nonzero and,
 * unless type is FPISA_FLOAT64, exact as a float. Also return -EINVAL if the operation is not supported for the type
 * and the mode of the job.
 */
int fpisa_allreduce_op(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
		       enum fpisa_operation op, double factor, uint32_t *flags);
int fpisa_allreduce_op_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			     enum fpisa_operation op, double factor, struct fpisa_request **request);

/*
 * Start an all-reduce and return a request. Requests of one handle complete in the order in which they were started.
 * The arrays must exist until the request is released, or until fpisa_rejoin() or fpisa_close() cancels it. The request
 * advances inside fpisa_test() and fpisa_wait(), or at any time with options.progress. fpisa_test() sets *done;
 * fpisa_wait() blocks until the deadline. Both functions release the request once it has succeeded or failed, and set
 * the caller's pointer to NULL. Without a progress thread the time of a request counts from the first such call, not
 * from its start. Both functions return -ECANCELED if fpisa_rejoin() cancelled the request. A request that has all of
 * its results succeeds even if the handle has failed since.
 */
int fpisa_allreduce_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  struct fpisa_request **request);

/* An all-reduce with all of its parameters. */
struct fpisa_call {
	size_t size; /* sizeof(struct fpisa_call), so that later versions can add members */
	const void *send;
	void *recv;
	size_t count;
	uint32_t type; /* enum fpisa_dtype */
	uint32_t op;   /* enum fpisa_operation */
	double factor; /* factor of FPISA_SCALE */
	/*
	 * Number that distinguishes calls that are otherwise equal. All ranks give the same number. If ranks start
	 * calls in different orders, all of them get -EPROTO and no sum. Without tags, calls with the same length, type
	 * and operation are not distinguished.
	 */
	uint64_t tag;
	/*
	 * Callback for the end of the request, or NULL. Without options.progress a callback is refused with -EINVAL.
	 * The progress thread calls it once when the request has succeeded or failed, which includes failure by
	 * fpisa_close(). rc is the value that fpisa_wait() would have returned, and fpisa_error() returns its message.
	 * The library owns the request, so fpisa_start() sets *request to NULL, and `request` may be NULL. The callback
	 * may use any handle, start requests and test them. With its own handle, functions that wait (fpisa_wait(),
	 * fpisa_allreduce(), fpisa_rejoin()) return -EBUSY, and fpisa_close() does nothing. The handle makes no
	 * progress until the callback returns, unless a caller waits. A child that the callback forks must end or exec
	 * within the callback.
	 */
	void (*on_done)(void *arg, int rc, uint32_t flags);
	void *arg;
	/*
	 * NULL, or the place for the bitmap of the ranks that contributed to every value of the result; set before the call
	 * succeeds. A group of more than 64 ranks needs an array with a bit for each rank, in (size + 63) / 64 words
	 */
	uint64_t *ranks;
	uint64_t timeout_ms; /* deadline of this call, up to FPISA_FOREVER; 0: options.timeout_ms */
};

int fpisa_start(struct fpisa *f, const struct fpisa_call *call, struct fpisa_request **request);
int fpisa_test(struct fpisa_request **request, int *done, uint32_t *flags);
int fpisa_wait(struct fpisa_request **request, uint32_t *flags);

/*
 * Reduce, and store this rank's part of the result in recv, as fpisa_group_reduce_scatter() below does for a group. Errors
 * are those of fpisa_allreduce_op() and fpisa_start(). Also:
 *
 * -EINVAL	as for fpisa_group_reduce_scatter(); or the aggregator is a leaf of a tree
 */
int fpisa_reduce_scatter(struct fpisa *f, const void *send, void *recv, size_t count, const size_t *counts,
			 enum fpisa_dtype type, enum fpisa_operation op, double factor, uint32_t *flags);
int fpisa_reduce_scatter_start(struct fpisa *f, const struct fpisa_call *call, const size_t *counts,
			       struct fpisa_request **request);

/*
 * Return a descriptor to poll() for the end of requests of a handle with options.progress (otherwise return -EINVAL).
 * The descriptor is an eventfd(2), non-blocking and close-on-exec. Each request adds 1 when it succeeds or fails.
 * Requests that ended before the first call of this function and are not yet released also count. Requests with
 * on_done, fpisa_allreduce() and fpisa_allreduce_op() add nothing. read() of 8 bytes returns the count since the last
 * read as a uint64_t and clears it. fpisa_test() and fpisa_wait() do not clear the count. Each call returns the same
 * descriptor. The handle owns the descriptor, and fpisa_close() closes it. Errors: -EMFILE, -ENFILE, -ENOMEM
 */
int fpisa_eventfd(struct fpisa *f);

/*
 * Recover from an error: cancel the requests in progress and join the next generation of the job together with all
 * other ranks. A call that failed at this rank may have succeeded at other ranks. These ranks are then ahead by up to
 * as many calls as were in progress. So ranks that make more than one call must agree on the calls to repeat, for
 * example by FPISA_MIN of their step numbers. Such ranks must also keep the input of the previous step. Errors are
 * those of fpisa_connect(), except for bad arguments. After an error, the handle returns the same error until
 * fpisa_rejoin() succeeds.
 */
int fpisa_rejoin(struct fpisa *f);

/*
 * Return the bitmap of ranks that the last -ETIMEDOUT or -ECONNRESET of this handle names. If f is NULL, return the
 * ranks that the error of this thread's last fpisa_connect(), fpisa_mem_connect() or fpisa_group_join() names.
 */
uint64_t fpisa_missing(const struct fpisa *f);

int fpisa_get_info(const struct fpisa *f, struct fpisa_info *info);

/* Close the handle without telling the other ranks, and release unfinished requests. f may be NULL. */
void fpisa_close(struct fpisa *f);

/*
 * A group is a set of ranks that joined under one name at the manager of an aggregator (`fpisa serve`). The manager
 * gives the group a job for each type that its calls use. Ranks need no privilege, job number or port. A rank may
 * compute for any length of time, because calls of the other ranks fail only when a rank dies, not when it is slow.
 * Only the process that joined a group may use it, but any of its threads may. A group has two threads: one keeps the
 * connection to the manager, and the other advances requests while the caller computes. All ranks make the same calls
 * in the same order, whatever their types. If several threads make calls, the caller ensures that order.
 *
 * A group has up to 64 ranks, or up to 4096 if the manager gives it a tree: `leaves = yes` in [manager], and an aggregator
 * with up to 64 ranks on each host or in each rack of ranks. A group of more than 64 ranks needs mode exact, except for
 * FPISA_INT32, and the fused pipeline.
 */
struct fpisa_group;

struct fpisa_group_options {
	size_t size; /* sizeof(struct fpisa_group_options), so that later versions can add members */
	/* key file, whose last key is used; NULL: the file named by FPISA_KEY, if set; "": no key */
	const char *key_file;
	/* time limit in ms for all ranks to join, including the lookup of the host's name; 0: 10000 */
	uint32_t join_timeout_ms;
	uint32_t timeout_ms; /* deadline of each call in ms, as options.timeout_ms of a handle; 0: no deadline */
	/*
	 * largest window of the group's jobs, a power of two up to 1024; 0: 64. The manager may give a smaller window
	 */
	uint32_t window;
	/*
	 * elements of a frame: a multiple of 32 up to 832, or up to 416 for FPISA_FLOAT64 (128 in mode
	 * exact); 0: the default, or fewer if a path from an aggregator to a rank requires this
	 */
	uint16_t elements;
	uint8_t mode;	   /* enum fpisa_job_mode; 0: the default of `fpisa job add` */
	uint8_t pipeline;  /* pipeline of the group's jobs, as in struct fpisa_info; 0: the default */
	uint32_t overflow; /* enum fpisa_overflow */
	/* enum fpisa_transport_name; with XSK, only the group's first type uses XSK, and the other types use UDP */
	uint32_t transport;
	uint64_t restore; /* as options.restore of a handle */
	uint8_t rounding; /* rounding, as in struct fpisa_info; 0: down, or nearest in modes fpisa64 and exact */
	/* fan-out of the results: 1 multicast where possible, 2 unicast; 0: the setting of the manager */
	uint8_t fanout;
	/*
	 * 1: share the connection to the manager, and its thread, with all groups of this process that set this and have the
	 * same `host`, `key_file` and key. Such a group joins sooner. Groups can be left in any order. 0: an own connection,
	 * which a thread in another network namespace needs
	 */
	uint8_t share;
};

/*
 * Join the group `name` of `size` ranks as `rank`. Return when all ranks have joined. `host` is the manager's name or
 * address, "HOST:PORT" or "[IPV6]:PORT" if its port is not 18000. If host is NULL, use the value of FPISA_MANAGER.
 *
 * -EINVAL	the host does not exist; the name is invalid; other ranks gave another size; an option is unknown; or a
 *		group of more than 64 ranks cannot have a tree, and the error says what it lacks
 * -EAGAIN	the host's name cannot be looked up for now
 * -EACCES	the manager does not accept this key, a client without a key, or this host; or others can read the key's
 *		file
 * -EEXIST	a group of this name exists, or another process has the rank
 * -EDQUOT, -ENOSPC	a limit of the manager is reached; the error says which
 * -ETIMEDOUT	the manager did not answer, or some ranks have not joined, and the error names them
 * -ECONNRESET	all ranks had joined, and some have died since; the error names them
 * -ECONNREFUSED	no manager listens at the address
 * -ENOENT	the key's file does not exist; or GnuTLS (libgnutls.so.30), which a key needs, is not installed
 */
int fpisa_group_join(struct fpisa_group **g, const char *host, const char *name, uint32_t rank, uint32_t size,
		     const struct fpisa_group_options *options);

/*
 * fpisa_group_start() starts a call, as fpisa_start() does for a handle. fpisa_group_allreduce() makes a call and
 * waits, as fpisa_allreduce_op() does. fpisa_test() and fpisa_wait() accept the request. A start does not wait for
 * other ranks. The first call of a type, even of 0 elements, gets a job when all ranks have made the call. Until then,
 * its request and all later requests wait, and options.timeout_ms applies to them. call.on_done needs no option,
 * because a group always has a progress thread. With call.on_done, `request` may be NULL, and the callback may start
 * any call. Errors besides those of the handle's functions and of fpisa_group_join():
 *
 * -ECONNRESET	ranks have died, or have left before they completed this call; the error and fpisa_group_missing() name
 *		them. Every later call fails too, so leave and join again. Or a result lacks a rank, as with
 *		options.all_ranks of a handle, because the sums of a group must have all ranks
 * -EPROTO	ranks have made different calls, or the same calls in different orders, whatever their types; or each
 *		rank waits in a call of a different type. The group can no longer be used
 * -EREMOTEIO	another rank cannot continue with calls of this type: its deadline has passed, it has no descriptor, or
 *		its interface is gone. The error names the rank and its reason. Calls of this type fail from then on,
 *		and calls of other types continue
 * -EBUSY	on_done has made a call that waits
 * -ETIMEDOUT	in addition, one of these: neither the manager nor the aggregator has answered for 6 s; or the
 *		aggregator has not answered for 30 s, while a call waited for it; or the manager has not answered while
 *		the first call of a type waits for its job, for 6 s, or for 30 s if the group has a job and the
 *		aggregator does answer; or the manager has not answered for 30 s, and a call has waited as long for a
 *		result, because the manager could then not report a dead rank
 * If a job for a type was refused, or a rank cannot continue with a type, calls of this type fail for the rest of the
 * group's life.
 */
int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request);
int fpisa_group_allreduce(struct fpisa_group *g, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  enum fpisa_operation op, double factor, uint32_t *flags);

/*
 * Reduce, and store this rank's part of the result in recv. `send` has `count` elements, which are the parts of all
 * ranks one after the other. recv gets the counts[rank] elements of this rank. counts has an element for each rank of
 * the group, 0 to 2^40, and is the same on all ranks. The sum of counts must be count. If counts is NULL, all parts
 * have count / size elements. If only one rank's count is not 0, this is a reduce to that rank. The bits are those of
 * the all-reduce of `send`. Except with FPISA_MXINT8, recv may be the place of this rank's part in send; otherwise send
 * and recv must not overlap. recv may be NULL if counts[rank] is 0. An in-place call does not write the other parts of
 * send. The call sends as many frames as the all-reduce, but a rank receives only the headers of results outside of its
 * part (fpisa-wire(7), section 6.4). If each rank's host has an aggregator of the group, the results of a rank's part
 * come from its own host. Errors and the lifetime of the request are those of
 * fpisa_group_start() and fpisa_group_allreduce(). Also:
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
 * Return when all ranks have called the barrier. Errors are those of a call. If a barrier fails, the calls of all types
 * fail, because other ranks may wait for the barrier in the job of another type. These calls fail with the error of the
 * barrier on this rank, and with -EREMOTEIO on the other ranks, or with -EPROTO on all ranks if the ranks made different
 * calls. The barrier runs in a job that the group has. If the first job is still being created, the barrier waits at
 * most options.timeout_ms for it. The deadline of the barrier begins after this wait.
 */
int fpisa_group_barrier(struct fpisa_group *g);

/*
 * Start a barrier and return at once. fpisa_test() and fpisa_wait() take the request, which ends when all ranks have
 * called the barrier.
 *
 * -EAGAIN	the group's first job is still being created, and nothing was started; call again
 */
int fpisa_group_barrier_start(struct fpisa_group *g, struct fpisa_request **request);

/*
 * Send `bytes` bytes of data, 0 to 2^42, from rank `root` to all ranks, unchanged. Frames carry the data as
 * FPISA_INT32, and the first broadcast gives the group a job of this type. data may be NULL if bytes is 0. At rank
 * root, data is only read. After a failure, data of the other ranks has the received bytes in some places, and its
 * former contents in the rest. Errors and the lifetime of the request are those of fpisa_group_start(). Also:
 *
 * -EINVAL	root is not a rank of the group, or an argument is invalid; nothing was sent
 * -EUCLEAN	root's data contains sums of a failed in-place call; nothing was sent
 * -EPROTO	ranks named different roots or numbers of bytes; every rank gets this error, and no rank has the data of
 *		another call
 */
int fpisa_group_broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root);
int fpisa_group_broadcast_start(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
				struct fpisa_request **request);

/*
 * Start a broadcast with the size, tag, on_done, arg, ranks and timeout_ms of `call`, as in fpisa_group_start(). Its
 * other members are not read.
 */
int fpisa_group_broadcast_call(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
			       const struct fpisa_call *call, struct fpisa_request **request);

/*
 * Return a descriptor as fpisa_eventfd() does, for all requests of the group: those of fpisa_group_start() and
 * fpisa_group_broadcast_call() without on_done, fpisa_group_broadcast_start() and fpisa_group_barrier_start().
 * fpisa_group_leave() closes it.
 */
int fpisa_group_eventfd(struct fpisa_group *g);

/*
 * fpisa_group_missing_ranks() stores the ranks that the group's last error names, at most `room`, in ascending order, and
 * returns their number, which may be larger than `room`. ranks may be NULL if room is 0. If g is NULL, it stores the
 * ranks that the error of this thread's last fpisa_group_join() names. fpisa_group_missing() returns the same ranks as a
 * bitmap, without ranks from 64 on.
 */
uint32_t fpisa_group_missing_ranks(struct fpisa_group *g, uint32_t *ranks, uint32_t room);
uint64_t fpisa_group_missing(struct fpisa_group *g);

/*
 * Return 0 while the group is alive. Otherwise return the negative errno with which the group ended for this rank, for
 * example -ECONNRESET if ranks have died or left.
 */
int fpisa_group_ended(struct fpisa_group *g);

/*
 * Leave the group and release its requests. The other ranks can complete calls that this rank has completed. g may be
 * NULL. Do not call this function while another thread is in a function of the group. Within on_done this function does
 * nothing.
 */
void fpisa_group_leave(struct fpisa_group *g);

/* Return the message of this thread's last error as one line. The result is never NULL. */
const char *fpisa_error(void);

/*
 * Transport `mem` is an aggregator inside this process, with the same arithmetic and protocol, which needs no network
 * and no privilege. The workers are threads, each with its own handle. Mode, rounding, pipeline and format are as in
 * struct fpisa_info; 0 takes the default of `fpisa job add`. Float64 in mode exact has up to 128 elements a chunk.
 * `flags` is a sum of:
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
void fpisa_mem_destroy(struct fpisa_mem *m); /* call this after closing its handles and destroying its leaves */

/*
 * Turn an aggregator into a leaf of a tree. The leaf becomes worker `rank` of `parent`, and its results are then sums
 * over the workers of all leaves of the parent, up to 64 times 64. The result has the same bits as one sum over all
 * these workers. Leaf and parent need mode exact and equal options, except `workers`, and the parent needs flag 0x10.
 * Ranks, and bitmaps of ranks, at a handle are those of its own leaf. Call this function before handles connect. Return
 * 0, -EINVAL, or -EBUSY if the leaf has a parent or the rank is taken.
 */
int fpisa_mem_set_parent(struct fpisa_mem *leaf, struct fpisa_mem *parent, uint32_t rank);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The verdicts on a frame. The number of a verdict is the return value of a check in the datapath, the index of a
 * counter, and the reason in an ERROR. `fpisa stats` prints a line for each verdict.
 *
 * The columns are name, class and sentence. These are the classes:
 *	PASS	a frame that passes to the kernel: not FPISA, or a HELLO that needs a neighbour or a route
 *	TAKEN	an FPISA frame, consumed without an answer
 *	REPLY	an FPISA frame that is answered
 *	DROP	an FPISA frame that is invalid, or not possible now; the sentence says why
 * The numbers are used on the wire and in counters, so append new verdicts of any class.
 */
#ifndef FPISA_VERDICT_H
#define FPISA_VERDICT_H

#include "base.h"

#define FPISA_VERDICTS(X)                                                                                                   \
	X(not_ours, PASS, "not FPISA traffic, passed to the stack")                                                         \
	X(wrong_destination, PASS, "destination address is not that of the job, or of any job; passed to the stack")        \
	X(accepted, TAKEN, "contribution added, round not complete")                                                        \
	X(duplicate, TAKEN, "contribution was added before, round not complete")                                            \
	X(result, REPLY, "round complete, result fanned out")                                                               \
	X(resent, REPLY, "kept result sent again to one worker")                                                            \
	X(status, REPLY, "probe answered with the ranks that contributed")                                                  \
	X(welcome, REPLY, "HELLO answered")                                                                                 \
	X(truncated, DROP, "frame is shorter than its headers say")                                                         \
	X(fragment, DROP, "IPv4 fragment; send frames that fit the path MTU")                                               \
	X(ip_checksum, DROP, "IPv4 header checksum wrong")                                                                  \
	X(version, DROP, "protocol version not supported; update the sender")                                               \
	X(type, DROP, "frame type that no worker sends")                                                                    \
	X(no_job, DROP, "no such job; see fpisa job list")                                                                  \
	X(length, DROP, "payload length differs from that of the job's chunks")                                             \
	X(token, DROP, "HELLO without a proof of the job's token")                                                          \
	X(unknown_peer, DROP, "source address and port are not in the job")                                                 \
	X(rank, DROP, "source address and port belong to another rank")                                                     \
	X(checksum, DROP, "FPISA checksum wrong")                                                                           \
	X(format, DROP, "number format differs from the job's")                                                             \
	X(op, DROP, "operation, or its factor, not offered by the job")                                                     \
	X(not_live, DROP, "rank was removed from the job; see fpisa job shrink")                                            \
	X(generation, DROP, "generation is not the job's; join again")                                                      \
	X(slot, DROP, "slot and version do not match the chunk number")                                                     \
	X(stale, DROP, "chunk of an earlier round")                                                                         \
	X(ahead, DROP, "chunk ahead of its round")                                                                          \
	X(mismatch, DROP, "ranks made different calls in this generation; all must join again")                             \
	X(busy, DROP, "slot or session held by another CPU beyond the bounded wait, or a trie not filled yet")              \
	X(fanout, DROP, "result complete but no port to send it to; see fpisa job show")                                    \
	X(family, DROP, "the programs of the job's format are not loaded; delete the job and add it again")                 \
	X(internal, DROP, "internal error: a map lookup failed")                                                            \
	X(port, DROP, "UDP port is not the slot's; update a worker that does not support --ports")                          \
	X(secret, DROP, "secret is not that of the rank's present incarnation; the rank must join again")                   \
	X(route, DROP, "no route to the HELLO's rank, or through another interface than the job's; see fpisa doctor")       \
	X(incarnation, DROP, "HELLO with an incarnation of 0, or of 2^63 or more")                                          \
	X(challenge, REPLY, "HELLO answered with the cookie that it lacked")                                                \
	X(unresolved, PASS,                                                                                                 \
	  "HELLO of a rank whose link-layer address the kernel does not know yet; passed to the kernel, which asks for it") \
	X(forwarding, DROP,                                                                                                 \
	  "the route to a HELLO's rank may not be looked up; sysctl -w net.ipv4.conf.lo.forwarding=1, or net.ipv6.conf")    \
	X(pipeline, DROP,                                                                                                   \
	  "a program of the pipeline and its substitute are missing, so the round is lost; fpisa upgrade restores them")    \
	X(rows_taken, REPLY, "rows of a query all pruned or added to its table, acknowledged")                              \
	X(rows_passed, REPLY, "rows of a query passed on to its master")                                                    \
	X(ack_passed, REPLY, "acknowledgement of a query's master passed on to its worker")                                 \
	X(groups, REPLY, "groups of a query's table read by its master")                                                    \
	X(sequence, DROP, "sequence number outside of the query worker's window")                                           \
	X(sealed, DROP, "rows for a query's table that is sealed")                                                          \
	X(unsealed, DROP, "a query's table read before it was sealed")                                                      \
	X(keys_taken, REPLY, "keys for a query's filter taken, acknowledged")                                               \
	X(keys_late, DROP, "keys that are not in a query's filter, which is already in use")                                \
	X(tag, DROP, "tag wrong: not made with the rank's key, or the frame was changed on its way")                        \
	X(uncut, TAKEN, "two HELLOs in one frame, by which a rank learns that its batches are not cut on the way here")     \
	X(vlan, PASS, "VLAN tag is not the job's, or its tag is missing; passed to the stack; see job add --vlan")          \
	X(qinq, PASS, "two VLAN tags, or a service tag; passed to the stack")                                               \
	X(up, REPLY, "round of a leaf complete, partial sum sent to the parent")                                            \
	X(up_again, REPLY, "partial sum of a leaf sent to the parent again")                                                \
	X(down, REPLY, "parent's result fanned out by a leaf")                                                              \
	X(partial, DROP, "contribution to a job of leaves that is not a partial sum")                                       \
	X(torn, DROP, "partial sum of a removed leaf was half added, so the round is lost; all must join again")            \
	X(parent, DROP, "frame from a leaf's parent that does not belong to the present session")                           \
	X(unlike, DROP,                                                                                                     \
	  "parent's job has no leaves, another rank for this leaf, or another format, mode, window or other parameter")     \
	X(up_next, REPLY, "parent's answer to a part of a partial sum: next part sent")                                     \
	X(hello_up, REPLY, "HELLO of a leaf sent to its parent, because all its ranks wait")                                \
	X(no_parent, DROP, "no route to a leaf's parent; see ip route")                                                     \
	X(no_room, DROP, "the driver leaves no room behind a frame for a partial sum or its result; try native mode")       \
	X(extension, PASS, "IPv6 extension header, such as a fragment's; passed to the stack")                              \
	X(unresolved_parent, DROP,                                                                                          \
	  "link-layer address of a leaf's parent, or of the router before it, not known; ping the parent from the leaf")    \
	X(path_mtu, PASS,                                                                                                   \
	  "ICMP message of a router that dropped a frame to a rank as too big; passed on; see fpisa doctor")

enum fpisa_verdict {
#define X(name, class, text) FPISA_V_##name,
	FPISA_VERDICTS(X)
#undef X
		FPISA_VERDICT_COUNT,
	/*
	 * Return value of a check that the frame has passed. This is not a final verdict, so no counter and no reason
	 * has this number.
	 */
	FPISA_V_ok = FPISA_VERDICT_COUNT,
};

enum fpisa_verdict_class {
	FPISA_CLASS_PASS,
	FPISA_CLASS_TAKEN,
	FPISA_CLASS_REPLY,
	FPISA_CLASS_DROP,
};

static __always_inline enum fpisa_verdict_class fpisa_class_of(__u32 verdict)
{
	switch (verdict) {
#define X(name, class, text) \
	case FPISA_V_##name: \
		return FPISA_CLASS_##class;
		FPISA_VERDICTS(X)
#undef X
	}
	return FPISA_CLASS_DROP;
}

static __always_inline int fpisa_is_drop(__u32 verdict)
{
	return fpisa_class_of(verdict) == FPISA_CLASS_DROP;
}

/*
 * Counters of one job, per CPU. `bpftool map dump` prints the names. The key is the job number; the last key has the
 * counters of frames that belong to no job.
 *
 * packets, bytes	whole frames for the job, with any verdict; 0 at the last key
 * elements		added elements, which are those of accepted contributions
 * retransmissions	contributions marked RETRANSMIT that passed all checks, even if the rules then refused them
 * marked		contributions, and results for a leaf, with a congestion mark (ECN CE) that passed all checks
 * told_lost		results that named ranks whose contribution to the previous chunk was lost
 * mau0..mau8		stages that ran, by tail call or in place of a missing one; if MAU0 or MAU5 is missing, `fused` or
 *			`fused_reads` counts instead
 * fused		contributions added in one program, by the fused body or unit by unit
 * fused_reads		results read in one program, including kept results
 * missed_tail_calls	stages that were missing in the program array; another program ran them, or v_pipeline counts
 * unaddressed		unicast copies at a port behind which no live rank is
 * rounded..overflowed	added elements with this event of format.h (paper, section 5.2.1)
 * results_*		results that carried INEXACT, OVERFLOW, OVERWRITE, NAN, INF
 * v_*			frames by verdict; an answered probe counts twice, for its contribution and for the answer
 */
#define FPISA_COUNTERS(X)                                                                           \
	X(packets, "frames of the protocol")                                                        \
	X(bytes, "bytes of those frames, Ethernet header included")                                 \
	X(elements, "element-adds")                                                                 \
	X(retransmissions, "contributions marked as sent again")                                    \
	X(rounded, "element-adds that lost a nonzero bit to alignment")                             \
	X(overwritten, "element-adds that discarded the stored mantissa")                           \
	X(left_shifted, "element-adds that moved the incoming mantissa left")                       \
	X(overflowed, "element-adds that saturated")                                                \
	X(results_inexact, "results with some bit lost")                                            \
	X(results_overflow, "results with some element out of range")                               \
	X(results_overwrite, "results with some stored mantissa discarded")                         \
	X(results_nan, "results with some NaN")                                                     \
	X(results_inf, "results with some infinity")                                                \
	X(mau0, "stage runs: extract")                                                              \
	X(mau1, "stage runs: implied one")                                                          \
	X(mau2, "stage runs: exponent compare and update")                                          \
	X(mau3, "stage runs: align incoming mantissa")                                              \
	X(mau4, "stage runs: align stored mantissa and add")                                        \
	X(mau5, "stage runs: sign and magnitude")                                                   \
	X(mau6, "stage runs: leading zeros")                                                        \
	X(mau7, "stage runs: exponent adjust")                                                      \
	X(mau8, "stage runs: round and assemble")                                                   \
	X(fused, "contributions added in one program")                                              \
	X(fused_reads, "results read in one program")                                               \
	X(missed_tail_calls, "stages whose program was missing: run by another, or see v_pipeline") \
	X(unaddressed, "unicast copies of results without a live rank")                             \
	X(marked, "contributions marked as congested on their way (ECN)")                           \
	X(told_lost, "results that named ranks with a lost contribution")

struct fpisa_counters {
#define X(name, text) __u64 name;
	FPISA_COUNTERS(X)
#undef X
	/* One counter for each verdict, in its order: v_accepted, v_checksum, ... */
#define X(name, class, text) __u64 v_##name;
	FPISA_VERDICTS(X)
#undef X
};

#endif

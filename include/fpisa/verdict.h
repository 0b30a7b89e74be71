/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The fate of a frame. One number is the return value of a check in the datapath, the index of a counter, the reason
 * in an ERROR frame and a line of `fpisa stats`. All come from this one list.
 *
 * Columns: name, class, sentence. Classes:
 *	PASS	passed to the kernel: not ours, or a HELLO that needs the kernel's neighbour or route
 *	TAKEN	ours, consumed as it should be; no answer leaves
 *	REPLY	ours, an answer leaves
 *	DROP	ours but bad, or not now; the sentence says why
 * Numbers are on the wire and in counters: append new ones, whatever their class.
 */
#ifndef FPISA_VERDICT_H
#define FPISA_VERDICT_H

#include "base.h"

#define FPISA_VERDICTS(X)                                                                                                             \
	X(not_ours, PASS, "not FPISA traffic, passed to the stack")                                                                   \
	X(wrong_destination, PASS, "sent to an address that is not the job's, or no job's, passed to the stack")                      \
	X(accepted, TAKEN, "contribution added, round not complete")                                                                  \
	X(duplicate, TAKEN, "contribution was added before, round not complete")                                                      \
	X(result, REPLY, "round complete, result fanned out")                                                                         \
	X(resent, REPLY, "kept result sent again to one worker")                                                                      \
	X(status, REPLY, "probe answered with the ranks that contributed")                                                            \
	X(welcome, REPLY, "HELLO answered")                                                                                           \
	X(truncated, DROP, "frame shorter than its headers say")                                                                      \
	X(fragment, DROP, "IPv4 fragment; send frames that fit the path MTU")                                                         \
	X(ip_checksum, DROP, "IPv4 header checksum wrong")                                                                            \
	X(version, DROP, "protocol version not spoken here; update the sender")                                                       \
	X(type, DROP, "frame type that no worker sends")                                                                              \
	X(no_job, DROP, "no such job; see fpisa job list")                                                                            \
	X(length, DROP, "payload length is not that of the job's chunks")                                                             \
	X(token, DROP, "HELLO without a proof of the job's token")                                                                    \
	X(unknown_peer, DROP, "source address and port are not in the job")                                                           \
	X(rank, DROP, "source address and port belong to another rank")                                                               \
	X(checksum, DROP, "FPISA checksum wrong")                                                                                     \
	X(format, DROP, "number format is not the job's")                                                                             \
	X(op, DROP, "operation, or its factor, not offered by the job")                                                               \
	X(not_live, DROP, "rank was taken out of the job; see fpisa job shrink")                                                      \
	X(generation, DROP, "generation is not the job's; join again")                                                                \
	X(slot, DROP, "slot and version do not follow from the chunk number")                                                         \
	X(stale, DROP, "chunk of an earlier round")                                                                                   \
	X(ahead, DROP, "chunk ahead of its round")                                                                                    \
	X(mismatch, DROP, "ranks made different calls in this generation; all have to join again")                                    \
	X(busy, DROP, "slot or session held by another CPU beyond the bounded wait, or a trie not filled yet")                        \
	X(fanout, DROP, "result complete but no port to send it to; see fpisa job show")                                              \
	X(family, DROP, "the programs of the job's format are not loaded; delete the job and add it again")                           \
	X(internal, DROP, "a map look-up that cannot fail failed")                                                                    \
	X(port, DROP, "UDP port is not the slot's; a worker that does not know of --ports?")                                          \
	X(secret, DROP, "secret is not that of the rank's present incarnation; it has to join again")                                 \
	X(route, DROP, "no route to the HELLO's rank, or by another port than the job has for it; see fpisa doctor")                  \
	X(incarnation, DROP, "HELLO with an incarnation of 0, or of 2^63 or more")                                                    \
	X(challenge, REPLY, "HELLO answered with the cookie that it lacked")                                                          \
	X(unresolved, PASS,                                                                                                           \
	  "HELLO of a rank whose link-layer address the kernel does not know yet; passed to it, that it asks")                        \
	X(forwarding, DROP, "no way to a HELLO's rank may be asked for; sysctl -w net.ipv4.conf.lo.forwarding=1")                     \
	X(pipeline, DROP,                                                                                                             \
	  "a program of the pipeline and the one that stands in for it are missing, the round is lost; fpisa upgrade puts them back") \
	X(rows_taken, REPLY, "rows of a query all pruned or added to its table, acknowledged")                                        \
	X(rows_passed, REPLY, "rows of a query passed on to its master")                                                              \
	X(ack_passed, REPLY, "acknowledgement of a query's master passed on to its worker")                                           \
	X(groups, REPLY, "groups of a query's table read by its master")                                                              \
	X(sequence, DROP, "sequence number outside of the query worker's window")                                                     \
	X(sealed, DROP, "rows for a query's table that is sealed")                                                                    \
	X(unsealed, DROP, "a query's table read before it was sealed")                                                                \
	X(keys_taken, REPLY, "keys for a query's filter taken, acknowledged")                                                         \
	X(keys_late, DROP, "keys that a query's filter, which is in use, does not have")                                              \
	X(tag, DROP, "tag wrong: not made with the rank's key, or changed on its way")

enum fpisa_verdict {
#define X(name, class, text) FPISA_V_##name,
	FPISA_VERDICTS(X)
#undef X
		FPISA_VERDICT_COUNT,
	/*
	 * Return value of a check that the frame has passed. The frame's fate is still open, so no counter and no
	 * reason has this number.
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
 * Counters of one job, per CPU: what `bpftool map dump` prints by name.
 * Key: job number; the last key counts frames that belong to no job.
 *
 * packets, bytes	whole frames for the job, whatever became of them; of no job, none
 * elements		element-adds: elements of accepted contributions
 * retransmissions	contributions marked RETRANSMIT that passed all checks, whatever the rules said then
 * mau0..mau8		stages run, by tail call or in place of a missed one; where MAU0 or MAU5 missed, `fused` and `fused_reads` count
 * fused		contributions added in one program, by the fused body or unit by unit
 * fused_reads		results read in one program, kept ones too
 * missed_tail_calls	stages whose slot of the program array was empty; another program ran them, or v_pipeline counts
 * unaddressed		unicast copies at a port where each live rank had its own already
 * rounded..overflowed	element-adds, format.h (paper, section 5.2.1)
 * results_*		results that carried INEXACT, OVERFLOW, OVERWRITE, NAN, INF
 * v_*			frames by verdict; a probe that is answered by two, for its contribution and for the answer
 */
#define FPISA_COUNTERS(X)                                                                       \
	X(packets, "frames of the protocol")                                                    \
	X(bytes, "bytes of those frames, Ethernet header included")                             \
	X(elements, "element-adds")                                                             \
	X(retransmissions, "contributions marked as sent again")                                \
	X(rounded, "element-adds that lost a nonzero bit to alignment")                         \
	X(overwritten, "element-adds that discarded the stored mantissa")                       \
	X(left_shifted, "element-adds that moved the incoming mantissa left")                   \
	X(overflowed, "element-adds that saturated")                                            \
	X(results_inexact, "results with some bit lost")                                        \
	X(results_overflow, "results with some element out of range")                           \
	X(results_overwrite, "results with some stored mantissa discarded")                     \
	X(results_nan, "results with some NaN")                                                 \
	X(results_inf, "results with some infinity")                                            \
	X(mau0, "stage runs: extract")                                                          \
	X(mau1, "stage runs: implied one")                                                      \
	X(mau2, "stage runs: exponent compare and update")                                      \
	X(mau3, "stage runs: align incoming mantissa")                                          \
	X(mau4, "stage runs: align stored mantissa and add")                                    \
	X(mau5, "stage runs: sign and magnitude")                                               \
	X(mau6, "stage runs: leading zeros")                                                    \
	X(mau7, "stage runs: exponent adjust")                                                  \
	X(mau8, "stage runs: round and assemble")                                               \
	X(fused, "contributions added in one program")                                          \
	X(fused_reads, "results read in one program")                                           \
	X(missed_tail_calls, "stages whose program was missing: run by another, or v_pipeline") \
	X(unaddressed, "unicast copies of results that were for no live rank")

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

/* SPDX-License-Identifier: GPL-2.0-only */
/* The checksum, tags, and a round of payloads through MAU0..8, for tests/model/check_wire.py */
#include "lib/soft/blocks.c"

__u32 wire_checksum(const void *datagram, int payload_words)
{
	struct fpisa_sum sum = {};

	fpisa_sum_words(&sum, datagram, FPISA_SUM_HDR_WORDS);
	fpisa_sum_words(&sum, (const char *)datagram + FPISA_HDR_LEN, payload_words);
	return fpisa_sum_fold(&sum);
}

/* Return the tag of the words under the key derive(token, use, rank, of). The token has two words. */
__u64 wire_tag(__u64 token, __u64 token_high, __u32 use, __u32 rank, __u64 of, __u64 first, const void *data, int words)
{
	struct fpisa_key t = {token, token_high}, key = fpisa_key_of(&t, (enum fpisa_key_use)use, rank, of);
	__u64 k[FPISA_NH_WORDS];
	struct fpisa_nh s;

	fpisa_nh_fill(k, words + 2, &t);
	s = (struct fpisa_nh){.last = k[0] >> 32};
	fpisa_nh_words(&s, data, k + FPISA_NH_START, words);
	return fpisa_tag(&key, first, &s, k + FPISA_NH_START + words);
}

__u64 wire_digest(__u64 before, __u64 op, __u64 format, __u64 operand, __u64 elements, __u64 tag)
{
	return fpisa_digest(before, FPISA_CALL_ALLREDUCE, (__u8)format, (__u8)op, operand, elements, tag);
}

/* Return whether such a job can exist and offers the operation. */
int wire_offered(int format, int mode, int op)
{
	struct fpisa_format f = fpisa_format_of((__u8)format);

	return fpisa_mode_offered(f, (enum fpisa_mode)mode) && fpisa_op_offered(f, (enum fpisa_mode)mode, (__u32)op);
}

/* Return the payload size in bytes of that many blocks of 32 elements. */
int wire_bytes(int format, int blocks)
{
	return (int)fpisa_payload_bytes(fpisa_format_of((__u8)format), (__u32)blocks * FPISA_BLOCK);
}

/* Add n payloads of `blocks` blocks in their order, and write the result to *out. The payloads are overwritten. */
void wire_round(char *payloads, int n, int blocks, int format, int mode, int rounding, __u32 workers, int flags,
		__u32 op, double factor, char *out)
{
	static struct fpisa_exp_block exponents[FPISA_MAX_BLOCKS];
	static struct fpisa_limbs64_block mantissas[FPISA_MAX_BLOCKS];
	const struct fpisa_soft_registers r = {exponents, mantissas};
	const struct fpisa_job j = {
		.workers = workers,
		.format = (__u8)format,
		.mode = (__u8)mode,
		.rounding = (__u8)rounding,
		.pipeline = FPISA_PIPELINE_FUSED,
		.clz = FPISA_CLZ_BITS,
		.guard = fpisa_register((__u8)format, (enum fpisa_mode)mode, workers).guard,
		.flags = (__u8)flags,
	};
	struct fpisa_final fin;
	__u64 operand = 0;

	if (op == FPISA_OP_SCALE)
		memcpy(&operand, &factor, sizeof(operand));
	for (int i = 0; i < n; i++)
		fpisa_soft_add(&j, op, payloads + i * wire_bytes(format, blocks), r, (__u32)blocks, !i);
	fin = fpisa_final_of(fpisa_job_format(&j), op, operand, (__u32)n, flags & FPISA_JOB_RECIPROCAL);
	fpisa_soft_read(&j, &fin, out, r, (__u32)blocks);
}

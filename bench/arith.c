/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a contribution costs in the kernel: the real programs under
 * BPF_PROG_TEST_RUN, whole frames with parsing, checksum and protocol, on
 * fresh random data. Configurations take turns, round by round, so that drift
 * of the machine hits all alike.
 *
 *	arith [ROUNDS]
 *
 * One JSON line a configuration: median and quartiles of ns an element for
 * the first contribution of a round (set), a further one (add) and the one
 * that completes it (add and read-out).
 */
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "vectors.h"

#define WORKERS 8
#define ELEMENTS 256

static const struct config {
	const char *format, *mode, *pipeline, *clz;
	uint8_t format_id, mode_id, pipeline_id, clz_id;
} configs[] = {
#define P_STAGED "staged", "lpm"
#define P_FUSED "fused", "bits"
#define STAGED FPISA_PIPELINE_STAGED, FPISA_CLZ_LPM
#define FUSED FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS
	{ "fp32", "fpisa", P_FUSED, FPISA_FORMAT_FP32, FPISA_MODE_FPISA, FUSED },
	{ "fp32", "fpisa", P_STAGED, FPISA_FORMAT_FP32, FPISA_MODE_FPISA, STAGED },
	{ "fp32", "fpisa-a", P_FUSED, FPISA_FORMAT_FP32, FPISA_MODE_FPISA_A, FUSED },
	{ "fp32", "fpisa-a", P_STAGED, FPISA_FORMAT_FP32, FPISA_MODE_FPISA_A, STAGED },
	{ "fp32", "fpisa64", P_FUSED, FPISA_FORMAT_FP32, FPISA_MODE_FPISA64, FUSED },
	{ "fp32", "exact", P_FUSED, FPISA_FORMAT_FP32, FPISA_MODE_EXACT, FUSED },
	{ "bf16", "fpisa", P_FUSED, FPISA_FORMAT_BF16, FPISA_MODE_FPISA, FUSED },
	{ "fp16", "fpisa", P_FUSED, FPISA_FORMAT_FP16, FPISA_MODE_FPISA, FUSED },
	{ "fp16", "exact", P_FUSED, FPISA_FORMAT_FP16, FPISA_MODE_EXACT, FUSED },
	{ "fp64", "fpisa", P_FUSED, FPISA_FORMAT_FP64, FPISA_MODE_FPISA, FUSED },
	{ "e4m3", "fpisa", P_FUSED, FPISA_FORMAT_E4M3, FPISA_MODE_FPISA, FUSED },
};

#define CONFIGS (sizeof(configs) / sizeof(configs[0]))

struct samples {
	uint32_t *ns;
	size_t n;
};

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void print_samples(const char *name, struct samples *s)
{
	qsort(s->ns, s->n, sizeof(*s->ns), ascending);
	printf(", \"%s_ns\": %.2f, \"%s_quartiles_ns\": [%.2f, %.2f]", name, s->ns[s->n / 2] / (double)ELEMENTS, name,
	       s->ns[s->n / 4] / (double)ELEMENTS, s->ns[s->n * 3 / 4] / (double)ELEMENTS);
}

/* Finite values whose exponents differ by up to 40, as far as the format reaches. */
static void fill(struct vectors_rng *rng, struct fpisa_format f, uint8_t *out)
{
	uint64_t ones = fpisa_exp_ones(f), spread = ones / 2 < 40 ? ones / 2 : 40;

	for (int i = 0; i < ELEMENTS; i++) {
		uint64_t bits = vectors_next(rng);
		uint64_t e = ones / 4 + (bits >> 32) % spread;
		uint64_t w = (bits >> 63) << (f.ebits + f.mbits) | e << f.mbits | (bits & fpisa_frac_ones(f));

		memcpy(out + i * f.bytes, &w, f.bytes);
	}
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 400;
	static struct samples set[CONFIGS], add[CONFIGS], last[CONFIGS];
	struct vectors_rng rng = { vectors_seed() };
	uint32_t generation[CONFIGS];
	struct fpisa_job jobs[CONFIGS];
	struct harness *h;
	const char *why;

	h = harness_open(&why);
	if (!h) {
		fprintf(stderr, "arith: %s\n", why);
		return 1;
	}
	harness_stages(h, HARNESS_PROGRAMS);
	for (size_t k = 0; k < CONFIGS; k++) {
		jobs[k] = (struct fpisa_job){ .workers = WORKERS, .format = configs[k].format_id, .mode = configs[k].mode_id,
					      .pipeline = configs[k].pipeline_id, .clz = configs[k].clz_id,
					      .slot_base = (uint32_t)k * 8 };
		harness_job(h, (uint32_t)k, &jobs[k]);
		generation[k] = h->generation;
		set[k].ns = calloc(rounds, sizeof(uint32_t));
		add[k].ns = calloc(rounds * WORKERS, sizeof(uint32_t));
		last[k].ns = calloc(rounds, sizeof(uint32_t));
	}
	for (uint64_t chunk = 0; chunk < rounds; chunk++) {
		for (size_t k = 0; k < CONFIGS; k++) {
			h->generation = generation[k];
			for (uint32_t r = 0; r < WORKERS; r++) {
				struct samples *s = r == 0 ? &set[k] : r + 1 < WORKERS ? &add[k] : &last[k];
				uint8_t payload[ELEMENTS * 8];
				struct frame f;

				fill(&rng, fpisa_format_of(jobs[k].format), payload);
				harness_add(&f, h, &jobs[k], (uint32_t)k, r, chunk, ELEMENTS, payload);
				s->ns[s->n++] = harness_run(h, &f);
			}
		}
	}
	for (size_t k = 0; k < CONFIGS; k++) {
		printf("{\"format\": \"%s\", \"mode\": \"%s\", \"pipeline\": \"%s\", \"clz\": \"%s\", \"rounds\": %llu",
		       configs[k].format, configs[k].mode, configs[k].pipeline, configs[k].clz,
		       (unsigned long long)rounds);
		print_samples("set", &set[k]);
		print_samples("add", &add[k]);
		print_samples("last", &last[k]);
		printf("}\n");
	}
	harness_close(h);
	return 0;
}

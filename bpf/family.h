/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parameters of a family of programs. FAMILY_BYTES is the width of a lane on the wire (1, 2, 4, 8), FAMILY_RBITS
 * the width of the mantissa register (32, 64). FAMILY_LIMBS is the number of limbs of a register in mode exact (1, 8,
 * 65). If a family has only one format, the format is a constant for speed, except for its guard bits. Otherwise the
 * format is a value at run time. Family 0, FP32 in 32 bits, is the family that plain `ip link` loads. Family 0 also
 * serves int32, whose units (op.h) read the format at run time.
 */
#ifndef FPISA_BPF_FAMILY_H
#define FPISA_BPF_FAMILY_H

#include "phv.h"
#include "fpisa/mx.h"

#ifndef FAMILY_BYTES
#define FAMILY_BYTES 4
#define FAMILY_RBITS 32
#define FORMAT(packed)                 \
	({                             \
		KEEP_ARGUMENT(packed); \
		FPISA_FP32;            \
	})
#else
#define FORMAT(packed) family_format(packed)
#endif

#ifndef FAMILY_LIMBS
#define FAMILY_LIMBS 0
#endif

/* Whether the object has the programs of trees: fpisa_family_has_trees(). */
#define TREES (FAMILY_LIMBS > 0)

/* Largest number of blocks in a frame. */
#define FAMILY_BLOCKS (FAMILY_LIMBS == FPISA_LIMBS64 ? FPISA_MAX_EXACT64_BLOCKS : FPISA_MAX_BLOCKS)

/* The number of the family's only format, or 0 if the family has several. */
#if FAMILY_BYTES == 8
#define FAMILY_FORMAT FPISA_FORMAT_FP64
#elif FAMILY_BYTES == 4
#define FAMILY_FORMAT FPISA_FORMAT_FP32
#elif FAMILY_BYTES == 2 && FAMILY_LIMBS
#define FAMILY_FORMAT (FAMILY_LIMBS == 1 ? FPISA_FORMAT_FP16 : FPISA_FORMAT_BF16)
#else
#define FAMILY_FORMAT 0
#endif

static __always_inline struct fpisa_format unpack_format(__u32 packed)
{
	KEEP_ARGUMENT(packed);
	return (struct fpisa_format){
		.ebits = packed & 31,
		.mbits = packed >> 8 & 63,
		.guard = packed >> 16 & 63,
		.finite = packed >> 24 & 1,
		.integer = packed >> 25 & 1,
		.shared = packed >> 26 & 1,
		.rbits = FAMILY_RBITS,
		.bytes = FAMILY_BYTES,
	};
}

/* Unpack a format. Parameters that are the same for the whole family are constants. */
static __always_inline struct fpisa_format family_format(__u32 packed)
{
	struct fpisa_format f = unpack_format(packed);

	if (FAMILY_FORMAT) {
		__u8 guard = FAMILY_LIMBS ? 0 : f.guard;

		f = fpisa_format_of(FAMILY_FORMAT);
		f.rbits = FAMILY_RBITS;
		f.guard = guard;
	}
	return f;
}

/* One block of packed values in the frame. */
struct words {
	__u8 w[FPISA_BLOCK * FAMILY_BYTES];
} __attribute__((packed, aligned(4)));

#if FAMILY_RBITS == 32
typedef struct fpisa_man_block man_block;
typedef struct fpisa_phv_block phv_block;
#define registers fpisa_mantissas
#else
typedef struct fpisa_phv64_block phv_block;

/* The blocks of the PHV with 64-bit mantissas. All other members of the PHV are in struct fpisa_phv. */
struct fpisa_phv64 {
	struct fpisa_phv64_block b[FPISA_MAX_BLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_phv64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_phv64 SEC(".maps");

#if FAMILY_LIMBS == 8
typedef struct fpisa_limbs_block man_block;
#define registers fpisa_limbs

/* Superaccumulators; same keys as fpisa_mantissas. */
struct fpisa_limbs {
	struct fpisa_limbs_block b[FPISA_MAX_BLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FPISA_DEFAULT_SLOTS / FPISA_EXACT_SHARE);
	__type(key, __u32);
	__type(value, struct fpisa_limbs);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_limbs SEC(".maps");
#elif FAMILY_LIMBS == FPISA_LIMBS64
typedef struct fpisa_limbs64_block man_block;
#define registers fpisa_limbs64

/* Superaccumulators of FP64; same keys as fpisa_mantissas. */
struct fpisa_limbs64 {
	struct fpisa_limbs64_block b[FPISA_MAX_EXACT64_BLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FPISA_DEFAULT_SLOTS / FPISA_EXACT_SHARE);
	__type(key, __u32);
	__type(value, struct fpisa_limbs64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_limbs64 SEC(".maps");
#else
typedef struct fpisa_man64_block man_block;
#define registers fpisa_man64

/* The signed mantissa registers of 64 bits; same keys as fpisa_mantissas. */
struct fpisa_man64 {
	struct fpisa_man64_block b[FPISA_MAX_BLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FPISA_DEFAULT_SLOTS);
	__type(key, __u32);
	__type(value, struct fpisa_man64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_man64 SEC(".maps");
#endif
#endif

#if TREES
/* Parts of partial sums, with the keys of fpisa_limbs. In a leaf, these are the parts of a sealed round that it sends. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FPISA_DEFAULT_SLOTS / FPISA_EXACT_SHARE);
	__type(key, __u32);
	__type(value, struct fpisa_partials);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_partials SEC(".maps");
#endif

/* Return the mantissa registers of the slot version that this packet owns. */
static __always_inline man_block *mantissas_of(struct fpisa_phv *phv)
{
	struct registers *m = phv ? lookup(&registers, phv->key) : NULL;

	return m ? m->b : NULL;
}

static __always_inline phv_block *blocks_of(struct fpisa_phv *phv)
{
#if FAMILY_RBITS == 32
	return phv ? phv->b : NULL;
#else
	__u32 zero = 0;
	struct fpisa_phv64 *wide = phv ? bpf_map_lookup_elem(&fpisa_phv64, &zero) : NULL;

	return wide ? wide->b : NULL;
#endif
}

#endif

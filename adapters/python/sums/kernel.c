/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Compile the kernels of kernel.h for each vector unit. */
#include <math.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernel.h"

#ifdef __FAST_MATH__
#error "exact sums need IEEE arithmetic: compile without -ffast-math"
#endif

#define SIGN (1ull << 63)

/* Return 2^k, which must be a normal number. */
static __always_inline double sums_power(int k)
{
	__u64 bits = (__u64)(k + 1023) << 52;
	double x;

	__builtin_memcpy(&x, &bits, sizeof(x));
	return x;
}

#define NAME(x) x##_baseline
#define LABEL "baseline"
#define TARGET
#define WIDTH 2
#define LOWER 0, 2
#define UPPER 1, 3
#define ANY(v) (((v)[0] | (v)[1]) != 0)
#define FMA(x, y, z) fma(x, y, z)
#include "kernel_body.h"
#undef NAME
#undef LABEL
#undef TARGET
#undef WIDTH
#undef LOWER
#undef UPPER
#undef ANY
#undef FMA

#ifdef __x86_64__
#define FMA(x, y, z) __builtin_fma(x, y, z)

#define NAME(x) x##_avx2
#define LABEL "avx2"
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 4
#define LOWER 0, 4, 1, 5
#define UPPER 2, 6, 3, 7
#define ANY(v) (!_mm256_testz_si256((__m256i)(v), (__m256i)(v)))
#include "kernel_body.h"
#undef NAME
#undef LABEL
#undef TARGET
#undef WIDTH
#undef LOWER
#undef UPPER
#undef ANY

#define NAME(x) x##_avx512
#define LABEL "avx512"
#define TARGET __attribute__((target("avx512f,avx512dq,fma")))
#define WIDTH 8
#define LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER 4, 12, 5, 13, 6, 14, 7, 15
#define ANY(v) (_mm512_test_epi64_mask((__m512i)(v), (__m512i)(v)) != 0)
#include "kernel_body.h"
#endif

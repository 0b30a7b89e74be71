/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The base of all shared headers: fixed-width types, inlining, and idioms that prevent a compiler from turning
 * arithmetic back into branches.
 *
 * All headers in this directory compile for BPF (clang -target bpf) and for user space (gcc, clang) from the same text.
 */
#ifndef FPISA_BASE_H
#define FPISA_BASE_H

#include <linux/types.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is little-endian and is read in place: big-endian hosts are not supported"
#endif

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/*
 * Prevent clang from unrolling a loop. The verifier of old kernels rejects an unrolled body of masks as too large, and
 * the verifier of 6.18.44 crashes.
 */
#ifdef __clang__
#define FPISA_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define FPISA_ROLLED
#endif

/* Unroll a short loop without masks if the compiler is clang. */
#ifdef __bpf__
#define FPISA_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define FPISA_UNROLLED
#endif

#define fpisa_likely(x) __builtin_expect(!!(x), 1)
#define fpisa_unlikely(x) __builtin_expect(!!(x), 0)

/*
 * BPF has no conditional move, so LLVM rebuilds branches from mask arithmetic. On unpredictable exponents the branches
 * cost three times as much as the masks. To keep the masks, hide the value before its sign is spread, and hide the
 * mask. User space has conditional moves and vectors, so nothing is hidden there.
 */
#ifdef __bpf__
#define fpisa_opaque(x) asm volatile("" : "+r"(x))
/* x += y and x |= y without a copy of x. clang would often compute in the register of y and move the result back. */
#define fpisa_add_to(x, y) asm volatile("%0 += %1" : "+r"(x) : "r"(y))
#define fpisa_or_to(x, y) asm volatile("%0 |= %1" : "+r"(x) : "r"(y))
#else
#define fpisa_opaque(x) ((void)(x))
#define fpisa_add_to(x, y) ((x) += (y))
#define fpisa_or_to(x, y) ((x) |= (y))
#endif

/* Read or write a word by a single access, because another CPU or thread may write the word concurrently. */
#ifdef __bpf__
#define fpisa_read_once(p) (*(const volatile __typeof__(*(p)) *)(p))
#define fpisa_write_once(p, v) (*(volatile __typeof__(*(p)) *)(p) = (v))
#else
#define fpisa_read_once(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define fpisa_write_once(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#endif

/* Return the address `offset` bytes after `base`. In BPF the result is in the register that contained the offset. */
static __always_inline const void *fpisa_offset(const void *base, __u64 offset)
{
#ifdef __bpf__
	asm volatile("%0 += %1" : "+r"(offset) : "r"(base));
	return (const void *)(long)offset;
#else
	return (const char *)base + offset;
#endif
}

/* Return the lower 32 bits. In BPF this is one instruction, while clang would emit two shifts. */
static __always_inline __u64 fpisa_low(__u64 x)
{
#ifdef __bpf__
	__u32 low;

	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)x));
	return low;
#else
	return (__u32)x;
#endif
}

/* Return all ones if x is negative, else zero. */
static __always_inline __s64 fpisa_negative(__s64 x)
{
	fpisa_opaque(x);
	x >>= 63;
	fpisa_opaque(x);
	return x;
}

/* Return max(x, 0) without a branch; fpisa_min() returns min(x, limit). */
static __always_inline __s64 fpisa_positive(__s64 x)
{
	return x & ~fpisa_negative(x);
}

static __always_inline __s64 fpisa_min(__s64 x, __s64 limit)
{
	return limit + ((x - limit) & fpisa_negative(x - limit));
}

/* Return 1 if x is not zero, else 0. x is at most 2^63. */
static __always_inline __u64 fpisa_nonzero(__u64 x)
{
	__u64 minus = 0 - x;

	fpisa_opaque(minus);
	return minus >> 63;
}

/*
 * Load or store words of a payload, which is four-byte aligned at best. x86 and arm64 load eight bytes at any address.
 * User space uses memcpy(), which UBSan accepts.
 */
static __always_inline __u32 fpisa_load32(const void *p)
{
#ifdef __bpf__
	return *(const __u32 *)p;
#else
	__u32 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
#endif
}

static __always_inline __u64 fpisa_load64(const void *p)
{
#ifdef __bpf__
	return *(const __u64 *)p;
#else
	__u64 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
#endif
}

static __always_inline void fpisa_store64(void *p, __u64 v)
{
#ifdef __bpf__
	*(__u64 *)p = v;
#else
	__builtin_memcpy(p, &v, sizeof(v));
#endif
}

#endif

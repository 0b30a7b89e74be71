#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check the hash of tags (include/fpisa/tag.h) with halves of two bits in place of 32. Over all keys, two different frames must have equal
A and B for at most one key in 2^4. This corresponds to one key in 2^64 in doc/protocol.md, section 6. The check covers every pair of frames
of two and of four halves. With --self-test, hashes that lack a part must fail the check.
"""

import itertools
import sys

import numpy

W = 2
HALF = 1 << W


def keys_of(n):
    """Return all keys of n halves, one half in each column."""
    return numpy.array(list(itertools.product(range(HALF), repeat=n)), dtype=numpy.uint8)


def sums(frame, k, ends=(True, True), passes=2):
    """Return A and B of a frame under each key, packed into one number."""
    z = (k + numpy.array((0, *frame, 0), dtype=numpy.uint8)) % HALF
    z[:, 0] *= ends[0]
    z[:, -1] *= ends[1]
    products = (z[:, :-1] * z[:, 1:]).astype(numpy.uint16)
    a, b = products[:, 1::2].sum(1), products[:, 0::2].sum(1)
    return a % HALF ** 2 * HALF ** 2 + b % HALF ** 2 * (passes == 2)


def worst(halves, **how):
    """Return the largest share of keys under which two frames collide, times 2^2W."""
    k = keys_of(halves + 2)
    hashed = numpy.array([sums(f, k, **how) for f in itertools.product(range(HALF), repeat=halves)], dtype=numpy.uint16)
    most = max(int((hashed[i + 1:] == hashed[i]).sum(1).max()) for i in range(len(hashed) - 1))
    return most * HALF ** 2 / len(k)


def main():
    for halves in 2, 4:
        share = worst(halves)
        print("tags: frames of %d halves: at most %.3f of 2^-%d" % (halves, share, 2 * W))
        if share > 1:
            sys.exit("tags: two frames collide more often than the page says")
    if "--self-test" in sys.argv[1:]:
        for how in {"ends": (False, True)}, {"ends": (True, False)}, {"passes": 1}:
            share = worst(4, **how)
            print("tags: with %r: %.3f" % (how, share))
            if share <= 1:
                sys.exit("tags: a hash with %r was not caught" % how)


if __name__ == "__main__":
    main()

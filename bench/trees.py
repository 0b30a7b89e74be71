#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Calculate the time and state of sums over trees: bytes on each link, window, memory, time of a sum and of a join.

    trees.py [--ranks 64,512,...] [--rate GBIT] [--megabytes V] [--elements N] [--parts P] [--bytes B] [--trip US] [--children C]

One JSON line for each number of ranks. Nothing is measured; bench/README.md has the table and says which inputs are measured elsewhere.
tests/netns/traffic/test_tree_hosts.py compares `uplink()` with the bytes that a leaf sends and receives over real XDP.

A tree has the fewest levels with at most C children at each aggregator. Two levels are built; `built` is false for more.
"""
import argparse
import json

HEADERS = 14 + 20 + 8 + 76  # Ethernet, IPv4, UDP, FPISA (doc/wire.md)
ON_THE_WIRE = 24  # preamble, frame check sequence, gap between frames
VALUE = 4  # bytes of fp32
BLOCK, WORD = 32, 4  # elements of a packed block, bytes of the word in front of it (include/fpisa/packed.h)
LIMBS = 8 * 8 + 2  # bytes of an element's superaccumulator and exponent register (include/fpisa/exact.h)
SLOT = 64 + 1040  # struct fpisa_slot, struct fpisa_partials
MOST_SLOTS = 1024  # FPISA_MAX_WINDOW
PAUSE_S = 0.05  # longest time between two HELLOs of a rank (user/lib/base/hello.c)
ROUNDS_A_LEVEL = 2  # HELLOs of a rank for each level: one completes the level's set, and one fetches the generation


def frame(payload):
    """Return the bytes of a frame in memory, as an interface counts them."""
    return HEADERS + payload


def uplink(chunks, elements, parts, size):
    """Return the bytes that a leaf sends to its parent and receives from it: parts with packed blocks of `size` bytes per element, and a result
    and a STATUS for each part but the last."""
    blocks = max(elements * size + elements / BLOCK * WORD, elements * VALUE)
    return chunks * (parts * frame(0) + blocks), chunks * (frame(elements * VALUE) + (parts - 1) * frame(0))


def wire(count, size):
    """Return the bytes that `count` frames of `size` bytes together take on a link."""
    return size + count * ON_THE_WIRE


def levels_of(ranks, children):
    levels, reach = 1, children
    while reach < ranks:
        levels, reach = levels + 1, reach * children
    return levels


def window(rate, trip, elements):
    """Return the slots that keep a link of `rate` bit/s busy for `trip` seconds, a power of two."""
    need, slots = rate * trip / 8 / (frame(elements * VALUE) + ON_THE_WIRE), 1
    while slots < need and slots < MOST_SLOTS:
        slots *= 2
    return slots


def calculate(ranks, a):
    levels = levels_of(ranks, a.children)
    chunks = -(-a.megabytes * 2**20 // (a.elements * VALUE))
    up, down = uplink(chunks, a.elements, a.parts, a.bytes)
    rank = chunks * frame(a.elements * VALUE)
    widest = max(wire(chunks * a.parts, up), wire(chunks * a.parts, down)) if levels > 1 else wire(chunks, rank)
    seconds = 8 / (a.rate * 1e9)
    trip = levels * a.trip + (levels - 1) * (a.parts - 1) * a.trip
    slots = window(a.rate * 1e9, trip * 1e-6, a.elements)
    full = slots * (frame(a.elements * VALUE) + ON_THE_WIRE) / (trip * 1e-6)
    at_one_port = a.children * (widest if levels > 1 else wire(chunks, rank))
    return {
        "ranks": ranks, "levels": levels, "built": levels <= 2,
        "rank_bytes": rank, "leaf_up_bytes": up if levels > 1 else 0, "leaf_down_bytes": down if levels > 1 else 0,
        "window": slots, "aggregator_mb": round(2 * slots * (a.elements * LIMBS + SLOT) / 2**20, 2),
        "ms": round(max(widest * seconds, chunks * (frame(a.elements * VALUE) + ON_THE_WIRE) / full) * 1e3 + trip / 1e3, 2),
        "ms_one_port": round(at_one_port * seconds * 1e3 + trip / 1e3, 2),
        "ring_ms": round(2 * (ranks - 1) / ranks * wire(chunks, rank) * seconds * 1e3 + 2 * (ranks - 1) * a.trip / 1e3, 2),
        "small_us": round(trip, 1), "ring_small_us": round(2 * (ranks - 1) * a.trip, 1),
        "join_ms": round(levels * ROUNDS_A_LEVEL * PAUSE_S * 1e3),
    }


def arguments(argv=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--ranks", default="64,512,4096,32768,65536", type=lambda s: [int(n) for n in s.split(",")])
    p.add_argument("--rate", type=float, default=100, help="of every link, in Gbit/s")
    p.add_argument("--megabytes", type=int, default=64, help="of fp32 a rank")
    p.add_argument("--elements", type=int, default=256)
    p.add_argument("--parts", type=int, default=1, help="frames of a partial sum")
    p.add_argument("--bytes", type=float, default=5, help="of an element of a partial sum")
    p.add_argument("--trip", type=float, default=20, help="a frame and its answer over one link, in us")
    p.add_argument("--children", type=int, default=64)
    return p.parse_args(argv)


def main():
    a = arguments()
    for ranks in a.ranks:
        print(json.dumps(calculate(ranks, a)))


if __name__ == "__main__":
    main()

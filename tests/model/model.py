#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Explore the states of the protocol: everything that the network, the workers and the aggregator can do. Check the required properties in
each state.

    model.py                explore every configuration with the rules as they are
    model.py --mutate NAME  explore one broken rule; exit with 0 if a violation is found
    model.py --self-test    explore every broken rule; fail if one is not caught
    model.py --list         print the names

The aggregator's rules are not written again for the model. The transition function is the C code of include/fpisa/frame.h and slot.h. It is
compiled from rules.c with $CC (cc), and each distinct call is made once, through ctypes. Broken rules are wrappers around the transition
function (rules.py). The network, the workers and the required properties are written in Python (chunks.py, generations.py, shards.py).
doc/protocol.md explains the rules. queries.py does the same for queries. Their rules are include/fpisa/query/topn.h and table.h, called
through query.c; doc/query-wire.md explains them.
"""

import argparse
import sys
import time

import calls
import chunks
import generations
import keepers
import queries
import rules
import shards
import treejoins
import trees
from explore import explore


def slots(workers, window, count, cls=rules.Rules, **options):
    return lambda lib: (chunks.Chunks(cls(lib, workers, window), count, **options), chunks.text)


def parts(workers, window, count, cls=rules.Rules, **options):
    return lambda lib: (keepers.Keepers(cls(lib, workers, window), count, **options), chunks.text)


def joins(workers, count, restarts, cls=rules.Rules, **options):
    return lambda lib: (generations.Generations(cls(lib, workers, 1), count, restarts, **options),
                        generations.text)


def breaking(workers, window, count, cls=rules.Rules, **options):
    return lambda lib: (calls.Calls(cls(lib, workers, window), count, **options), calls.text)


def spread(restarts, losses, deadlines, **options):
    return lambda lib: (shards.Shards(rules.Rules(lib, 2, 1), 2, restarts, losses, deadlines, **options), shards.text)


def tree(chunks, leaf=rules.Rules, root=trees.Root, window=1, above=None, leaves=2, ranks=2, **options):
    return lambda lib: (trees.Trees(leaf(lib, ranks, window), root(lib, leaves, above or window, 2), chunks, ranks, **options),
                        trees.text)


def tree_joins(ranks, chunks, *losses, **options):
    return lambda lib: (treejoins.TreeJoins(lib, ranks, chunks, *losses, **options), treejoins.text)


CONFIGURATIONS = {
    "2 workers, window 1, 6 chunks, 1 rank may be removed": slots(2, 1, 6, shrink=1),
    "2 workers, window 2, 6 chunks, 1 rank may be removed": slots(2, 2, 6, shrink=1),
    "3 workers, window 1, 5 chunks": slots(3, 1, 5),
    "3 workers, window 1, 3 chunks, 2 ranks may be removed": slots(3, 1, 3, shrink=2),
    "3 workers, window 1, 5 chunks, 1 rank may be removed": slots(3, 1, 5, shrink=1, ordered=False),
    "3 workers, window 2, 6 chunks": slots(3, 2, 6, ordered=False),
    "3 workers, window 2, 3 chunks, 1 rank may be removed": slots(3, 2, 3, shrink=1, ordered=False),
    "2 workers, window 1, 5 chunks, worker 0 ignores the self clock": slots(2, 1, 5, eager=1),
    "3 workers, window 1, 4 chunks, worker 0 ignores the self clock": slots(3, 1, 4, eager=1, ordered=False),
    "reduce-scatter: 2 workers, window 1, 6 chunks": parts(2, 1, 6),
    "reduce-scatter: 2 workers, window 2, 4 chunks, 1 rank may be removed": parts(2, 2, 4, shrink=1),
    "reduce-scatter: 3 workers, window 1, 4 chunks, 1 rank may be removed": parts(3, 1, 4, shrink=1, ordered=False),
    "reduce-scatter: 3 workers, window 2, 4 chunks": parts(3, 2, 4, ordered=False),
    "reduce-scatter: 2 workers, window 1, 5 chunks, one names no keepers": parts(2, 1, 5, old=1, shrink=1),
    "reduce-scatter: 3 workers, window 1, 4 chunks, one names no keepers": parts(3, 1, 4, old=2, ordered=False),
    "reduce-scatter: 2 workers, window 1, 5 chunks, a keeper never asks": parts(2, 1, 5, silent=1, shrink=1),
    "reduce-scatter: 3 workers, window 1, 3 chunks, a keeper never asks": parts(3, 1, 3, silent=2, shrink=2, ordered=False),
    "join: 2 workers, 3 chunks, 1 restart": joins(2, 3, 1),
    "join: 2 workers, 1 chunk, 2 restarts": joins(2, 1, 2),
    "join: 2 workers, 1 chunk, 1 restart, clock goes back": joins(2, 1, 1, back=True),
    "join: 1 worker, 1 chunk, 2 restarts, clock goes back": joins(1, 1, 2, back=True),
    "join: 2 workers, 1 chunk, 1 restart, 1 rank may be removed": joins(2, 1, 1, shrink=1),
    "join: 3 workers, 1 chunk, 1 restart": joins(3, 1, 1),
    "2 workers, window 2, 4 chunks, calls differ from chunk 1": breaking(2, 2, 4, differ=1),
    "3 workers, window 2, 3 chunks, calls differ from chunk 1": breaking(3, 2, 3, differ=1),
    "3 workers, window 1, 3 chunks, calls differ from chunk 0": breaking(3, 1, 3, differ=0),
    "2 workers, window 2, 4 chunks, programs are missing once": breaking(2, 2, 4, missing=0),
    "3 workers, window 2, 2 chunks, programs are missing once": breaking(3, 2, 2, missing=0),
    "3 workers, window 1, 3 chunks, programs are missing once": breaking(3, 1, 3, missing=0),
    "2 aggregators: 2 workers, 1 restart": spread(1, 0, 3),
    "2 aggregators: 2 workers, an aggregator loses its state": spread(0, 1, 3),
    "2 aggregators: 2 workers join, nobody restarts": spread(0, 0, 1, joined=False),
    "2 aggregators: 2 workers, 1 rank may be removed": spread(0, 0, 2, shrinks=1),
    "2 aggregators: 2 workers, 1 restart, 1 rank may be removed": spread(1, 0, 1, shrinks=1),
    "tree: 2 leaves of 2 ranks, 4 chunks": tree(4),
    "tree: 2 leaves of 1 rank, window 2, 5 chunks": tree(5, window=2, ranks=1),
    "tree: 3 leaves of 1 rank, 3 chunks": tree(3, leaves=3, ranks=1),
    "tree: 2 leaves of 2 ranks, 2 chunks, 1 rank may be removed": tree(2, shrink_rank=1),
    "tree: 2 leaves of 1 rank, 4 chunks, 1 leaf may be removed": tree(4, ranks=1, shrink_leaf=1),
    "tree, join: leaves of 1 and 1, 2 chunks, 1 restart": tree_joins((1, 1), 2, 1),
    "tree, join: leaves of 2 and 1, 1 chunk, 1 restart": tree_joins((2, 1), 1, 1),
    "tree, join: leaves of 2 and 2, 1 chunk": tree_joins((2, 2), 1),
    "tree, join: leaves of 1 and 1, 1 chunk, a leaf loses its state": tree_joins((1, 1), 1, 0, 1),
    "tree, join: leaves of 1 and 1, 1 chunk, the root loses its state": tree_joins((1, 1), 1, 0, 0, 1),
    **queries.CONFIGURATIONS,
}

MUTATIONS = {
    "bitmap-only": slots(2, 1, 4, rules.Bitmap),
    "done-unchecked": slots(2, 1, 4, rules.DoneUnchecked, eager=1),
    "add-after-done": slots(2, 1, 3, rules.AddAfterDone, shrink=1),
    "one-version": slots(2, 1, 4, rules.OneVersion),
    "duplicate-added": slots(3, 1, 3, rules.DuplicateAdded),
    "no-finish": slots(2, 1, 3, rules.NoFinish, shrink=1),
    "no-resend": slots(2, 1, 3, rules.NoResend),
    "lost-of-the-next-chunk": slots(2, 2, 4, rules.LostOfNextChunk),
    "lost-of-ranks-taken-out": slots(3, 2, 3, rules.LostOfTakenOut, shrink=1),
    "self-clock-ignored": slots(2, 1, 4, eager=1, strict=True),
    "result-of-any-chunk": slots(2, 1, 4, accept_any=True),
    "keepers-of-the-first-contribution": parts(2, 1, 3, rules.KeepersOfTheFirst, old=1),
    "keepers-of-the-last-round": parts(2, 1, 4, rules.KeepersOfTheLastRound),
    "kept-result-without-payload": parts(2, 1, 3, resends_bare=True),
    "result-to-keepers-only": parts(2, 1, 3, to_keepers_only=True),
    "keeper-takes-a-header": parts(2, 1, 4, rules.KeepersOfTheLastRound, takes_any=True),
    "generation-ignored": joins(2, 1, 1, rules.GenerationIgnored),
    "generation-before-lock": joins(2, 1, 1, rules.GenerationEarly),
    "join-any-hello": joins(2, 1, 1, rules.JoinAny),
    "join-stale-hello": joins(2, 1, 1, rules.JoinStale),
    "join-counted-once": joins(2, 1, 1, rules.JoinOnce),
    "join-running-generation": joins(2, 1, 1, rules.JoinRunning),
    "digest-ignored": breaking(2, 2, 3, rules.DigestIgnored, differ=1),
    "mismatch-of-its-round-alone": breaking(3, 2, 3, differ=1, broken_ignored=True),
    "lost-round-goes-on": breaking(2, 1, 2, missing=0, broken_ignored=True),
    "welcome-of-any-incarnation": joins(2, 1, 1, welcome_any=True),
    "welcome-of-an-earlier-life": joins(1, 1, 2, back=True, echo_any=True),
    "contributes-before-all-have-joined": spread(1, 0, 1, joined=False, early=True),
    "rejoins-one-aggregator-alone": spread(0, 1, 3, alone=True),
    "taken-out-at-one-aggregator-alone": spread(0, 0, 1, shrinks=1, everywhere=False),
    "contributes-where-it-is-not-taken-out": spread(1, 0, 1, shrinks=1, early=True),
    "leaf-absorbs-copies": tree(3, absorbs=True),
    "leaf-adds-after-sealing": tree(2, leaf=rules.AddAfterDone, shrink_rank=1),
    "leaf-seals-early": tree(2, early=True),
    "leaf-of-one-version": tree(4, leaf=rules.OneVersion),
    "leaf-does-not-finish": tree(2, leaf=rules.NoFinish, shrink_rank=1),
    "root-window-smaller": tree(4, window=2, above=1, ranks=1),
    "part-counts-its-leaf": tree(2, root=trees.PartCounts, ranks=1),
    "part-added-twice": tree(2, root=trees.PartTwice, ranks=1),
    "torn-leaf-goes-on": tree(2, root=trees.TornCounted, ranks=1, shrink_leaf=1),
    "leaf-keeps-its-attempt": tree_joins((2, 1), 1, 1, leaf=treejoins.OneAttempt),
    "leaf-enters-two-generations": tree_joins((1,), 1, 0, 0, 1, leaf=treejoins.SecondGeneration),
    "leaf-joins-running-generation": tree_joins((2, 1), 1, 1, leaf=treejoins.JoinsRunning),
    "leaf-begins-with-the-same-attempt": tree_joins((1,), 2, 0, 1, same_attempt=True),
    "leaf-keeps-its-session-without-slots": tree_joins((2, 1), 2, 0, 1, keeps_session=True),
    **queries.MUTATIONS,
}


def run(lib, name, build, trace):
    """Explore one configuration and print a line. Return whether all properties hold."""
    start = time.monotonic()
    model, text = build(lib)
    v = explore(model)
    took = time.monotonic() - start
    print("%-72s %8d states  %5.1f s  %s" % (name, v.states, took, v.text or "holds"), flush=True)
    if v.text and trace:
        for i, label in enumerate(v.trace, 1):
            print("  %2d. %s" % (i, label if isinstance(label, str) else text(label)))
    return not v.text


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip())
    p.add_argument("--mutate", metavar="NAME", choices=sorted(MUTATIONS))
    p.add_argument("--self-test", action="store_true")
    p.add_argument("--list", action="store_true")
    a = p.parse_args()
    if a.list:
        print("\n".join(MUTATIONS))
        return 0
    lib = rules.load()
    if a.mutate:
        return 1 if run(lib, a.mutate, MUTATIONS[a.mutate], True) else 0
    table = MUTATIONS if a.self_test else CONFIGURATIONS
    held = [run(lib, name, build, not a.self_test) for name, build in table.items()]
    if a.self_test:
        print("model: %d of %d broken rules caught" % (held.count(False), len(held)))
        return 1 if any(held) else 0
    print("model: %d of %d configurations hold" % (held.count(True), len(held)))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

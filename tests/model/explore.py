# SPDX-License-Identifier: GPL-2.0-only
"""Search a model breadth first, and check that completion stays reachable.

A model has initial(), steps(state) -> [(label, state)], finished(state) and fair(state). fair() returns the next state if no more frames
are lost and live workers keep retransmitting, or None when retransmission changes nothing. steps() and fair() raise Violation.
"""


class Violation(Exception):
    def __init__(self, text, label=None):
        super().__init__(text)
        self.text, self.label = text, label


class Verdict:
    def __init__(self, states, complete, text=None, trace=()):
        self.states, self.complete, self.text, self.trace = states, complete, text, trace


def path(model, parent, order, i):
    """Return the labels from the initial state to state i."""
    labels = []
    while parent[i] >= 0:
        before, after = order[parent[i]], order[i]
        try:
            labels.append(next(label for label, s in model.steps(before) if s == after))
        except Violation:
            labels.append("?")
        i = parent[i]
    return labels[::-1]


def explore(model, limit=2_000_000):
    start = model.initial()
    number = {start: 0}
    order, parent, fair = [start], [-1], []
    i = 0
    while i < len(order):
        state = order[i]
        try:
            for _, after in model.steps(state):
                if after not in number:
                    number[after] = len(order)
                    order.append(after)
                    parent.append(i)
            fair.append(state if model.finished(state) else model.fair(state))
        except Violation as v:
            return Verdict(len(order), False, v.text, path(model, parent, order, i) + [v.label])
        i += 1
        if len(order) > limit:
            return Verdict(len(order), False, "more than %d states" % limit)
    return liveness(model, number, order, parent, fair)


def liveness(model, number, order, parent, fair):
    """Follow fair() from each state. Each path must end in a finished state."""
    done = bytearray(len(order))
    for i, state in enumerate(order):
        if model.finished(state):
            done[i] = 1
    for i in range(len(order)):
        run, seen = [], set()
        j = i
        while not done[j]:
            if j in seen or fair[j] is None:
                return Verdict(len(order), True, "stuck: nothing lost any more, and yet it never finishes",
                               path(model, parent, order, j)
                               + ["from here on retransmissions change nothing"])
            seen.add(j)
            run.append(j)
            j = number.get(fair[j], -1)
            if j < 0:
                raise AssertionError("the fair run left the explored states")
        for j in run:
            done[j] = 1
    return Verdict(len(order), True)

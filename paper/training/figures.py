# SPDX-License-Identifier: GPL-2.0-only
"""Compute figures of records, which are 95% intervals by Student's t over seeds, differences of pairs, and shares of elements
and of adds. A pair consists of two runs with different arms and with the same seed, network and format.
"""
import statistics

from plan import EPOCHS, EXPERIMENT, NETWORKS, SEEDS

LAST = 5  # number of last epochs, whose mean is less noisy than a single epoch
T = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # quantile 0.975 by number of values


def index(records):
    """Return the records of this experiment by seed, and by network, format and arm. Raise ValueError if their images differ."""
    found, data = {}, {r["data"] for r in records}
    if len(data) > 1:
        raise ValueError(f"records of {' and '.join(sorted(data))} in one file: keep them apart")
    for r in records:
        if r["experiment"] == EXPERIMENT and r["epochs"] == EPOCHS and r["seed"] in SEEDS:
            found.setdefault((r["model"], r["format"], r["arm"]), {})[r["seed"]] = r
    return found


# -- accuracy --------------------------------------------------------------------

def final(record):
    return record["accuracy"][-1]


def last(record):
    return statistics.fmean(record["accuracy"][-LAST:])


def last_loss(record):
    return statistics.fmean(record["loss"][-LAST:])


def interval(values):
    """Return the mean and half of the interval. For a single value, half of the interval is None."""
    if len(values) < 2:
        return values[0], None
    return statistics.fmean(values), T[len(values)] * statistics.stdev(values) / len(values) ** 0.5


def paired(found, model, format, arm, of, base="default"):
    """Return the figure of this arm minus that of the base, for each seed that has both."""
    ours, others = found.get((model, format, arm), {}), found.get((model, format, base), {})
    return [of(ours[s]) - of(others[s]) for s in sorted(ours) if s in others]


def paired_all(found, format, arm, of, base="default", base_format=None):
    """Return the mean difference over the networks, for each seed that has all networks for both arms. There is one value per
    seed, because the networks of a seed use the same batches.
    """
    ours, others = ([found.get((m, *side), {}) for m in NETWORKS] for side in ((format, arm), (base_format or format, base)))
    seeds = set.intersection(*map(set, ours + others))
    return [statistics.fmean(of(a[s]) - of(b[s]) for a, b in zip(ours, others)) for s in sorted(seeds)]


# -- errors of sums ---------------------------------------------------------------

def samples(found, format, arm, model, epoch=None):
    return [s for r in found.get((model, format, arm), {}).values() for s in r["samples"] if epoch in (None, s["epoch"])]


def share(samples_, of):
    """Return the percentage of the elements or adds in samples."""
    part, whole = map(sum, zip(*map(of, samples_)))
    return 100 * part / whole if whole else 0.0


def within(kind, low, high=None):
    """Return a function for share() that selects errors of elements in decades low..high-1. Without `high` the function also
    selects errors that are not finite.
    """
    def inside(decade):
        if decade == "special":
            return high is None
        return decade != "none" and low <= int(decade) and (high is None or int(decade) < high)

    return lambda s: (sum(n for decade, n in s[kind].items() if inside(decade)), sum(s[kind].values()))


def of_adds(name):
    return lambda s: (s[name], s["adds"])


def steps_with(runs, flag):
    """Return the percentage of steps in which a sum raised the flag."""
    return 100 * sum(r["flags"].get(flag, 0) for r in runs) / sum(r["steps"] for r in runs)

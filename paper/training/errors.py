# SPDX-License-Identifier: GPL-2.0-only
"""What a sum of gradients lost: its errors here, and by `fpisa analyze` what the adds of a mode did."""
import json
import os
import subprocess
import tempfile

import numpy as np

from plan import MODES

COUNTS = "adds", "rounded", "overwritten", "left_shifted", "overflowed"


def decades(errors):
    """How many are 0 ("none"), how many of each power of ten (floor of the logarithm), how many not finite ("special")."""
    counts = {"none": int((errors == 0).sum()), "special": int((~np.isfinite(errors)).sum())}
    sizes = errors[(errors > 0) & np.isfinite(errors)]
    for decade, n in zip(*np.unique(np.floor(np.log10(sizes)).astype(int), return_counts=True)):
        counts[str(decade)] = int(n)
    return {k: n for k, n in counts.items() if n}


def against_truth(gradients, total):
    """Errors of `total` against the sum in binary64: of 8 values exact, unless their magnitudes are 2^26 apart.

    relative is over elements whose true sum is not zero.
    """
    truth = np.sum(np.asarray(gradients, np.float64), axis=0)
    with np.errstate(invalid="ignore"):
        off = np.abs(total.astype(np.float64) - truth)
    there = truth != 0
    return {"elements": len(truth), "absolute": decades(off), "relative": decades(off[there] / np.abs(truth[there]))}


def adds(gradients, mode, format, fpisa):
    """Counts of the adds of a mode, by the program `fpisa`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gradients.npy")
        np.save(path, np.stack(gradients))
        out = subprocess.run([fpisa, "analyze", "--json", "--orders", "0", "--mode", mode, "--format", format, path],
                             check=True, capture_output=True, text=True).stdout
    found, = json.loads(out)["inputs"][0]["modes"]
    return {k: found[k] for k in COUNTS}


def of(gradients, total, arm, format, fpisa):
    """Of one step: both, the second for the modes of an aggregator."""
    found = against_truth(gradients, total)
    if arm in MODES:
        found.update(adds(gradients, arm, format, fpisa))
    return found

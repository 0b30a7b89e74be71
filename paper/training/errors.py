# SPDX-License-Identifier: GPL-2.0-only
"""Losses of a sum of gradients: its errors here, and the events of a mode's adds by `fpisa analyze`."""
import json
import os
import subprocess
import tempfile

import numpy as np

from plan import MODES

COUNTS = "adds", "rounded", "overwritten", "left_shifted", "overflowed"


def decades(errors):
    """Count the errors that are 0 ("none"), by power of ten (floor of the logarithm), and that are not finite ("special")."""
    counts = {"none": int((errors == 0).sum()), "special": int((~np.isfinite(errors)).sum())}
    sizes = errors[(errors > 0) & np.isfinite(errors)]
    for decade, n in zip(*np.unique(np.floor(np.log10(sizes)).astype(int), return_counts=True)):
        counts[str(decade)] = int(n)
    return {k: n for k, n in counts.items() if n}


def against_truth(gradients, total):
    """Return the errors of `total` against the sum in binary64, which is exact for 8 values unless their magnitudes are 2^26 apart.

    relative is over elements whose true sum is not zero.
    """
    truth = np.sum(np.asarray(gradients, np.float64), axis=0)
    with np.errstate(invalid="ignore"):
        off = np.abs(total.astype(np.float64) - truth)
    there = truth != 0
    return {"elements": len(truth), "absolute": decades(off), "relative": decades(off[there] / np.abs(truth[there]))}


def adds(gradients, mode, format, fpisa):
    """Count the events of a mode's adds, by the program `fpisa`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gradients.npy")
        np.save(path, np.stack(gradients))
        out = subprocess.run([fpisa, "analyze", "--json", "--orders", "0", "--mode", mode, "--format", format, path],
                             check=True, capture_output=True, text=True).stdout
    found, = json.loads(out)["inputs"][0]["modes"]
    return {k: found[k] for k in COUNTS}


def of(gradients, total, arm, format, fpisa):
    """Return the figures of one step, from against_truth() and, for the modes of an aggregator, from adds()."""
    found = against_truth(gradients, total)
    if arm in MODES:
        found.update(adds(gradients, arm, format, fpisa))
    return found

# SPDX-License-Identifier: GPL-2.0-only
"""Measure the errors of a sum of gradients, and count the events of a mode's adds with `fpisa analyze`."""
import json
import os
import subprocess
import tempfile

import numpy as np

from plan import MODES

COUNTS = "adds", "rounded", "overwritten", "left_shifted", "overflowed"


def decades(errors):
    """Count errors by power of ten (floor of the logarithm). Errors of 0 count as "none", and errors that are not finite as
    "special".
    """
    counts = {"none": int((errors == 0).sum()), "special": int((~np.isfinite(errors)).sum())}
    sizes = errors[(errors > 0) & np.isfinite(errors)]
    for decade, n in zip(*np.unique(np.floor(np.log10(sizes)).astype(int), return_counts=True)):
        counts[str(decade)] = int(n)
    return {k: n for k, n in counts.items() if n}


def against_truth(gradients, total):
    """Return the errors of `total` relative to the sum in binary64. That sum is exact for 8 values unless their magnitudes
    differ by 2^26. `relative` includes only elements whose true sum is not zero.
    """
    truth = np.sum(np.asarray(gradients, np.float64), axis=0)
    with np.errstate(invalid="ignore"):
        off = np.abs(total.astype(np.float64) - truth)
    there = truth != 0
    return {"elements": len(truth), "absolute": decades(off), "relative": decades(off[there] / np.abs(truth[there]))}


def adds(gradients, mode, format, fpisa):
    """Count the events of a mode's adds with the program `fpisa`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gradients.npy")
        np.save(path, np.stack(gradients))
        out = subprocess.run([fpisa, "analyze", "--json", "--orders", "0", "--mode", mode, "--format", format, path],
                             check=True, capture_output=True, text=True).stdout
    found, = json.loads(out)["inputs"][0]["modes"]
    return {k: found[k] for k in COUNTS}


def of(gradients, total, arm, format, fpisa):
    """Return the figures of one step. The figures come from against_truth(), and for the modes of an aggregator also from
    adds().
    """
    found = against_truth(gradients, total)
    if arm in MODES:
        found.update(adds(gradients, arm, format, fpisa))
    return found

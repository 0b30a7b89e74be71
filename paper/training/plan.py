# SPDX-License-Identifier: GPL-2.0-only
"""The plan of runs, which lists networks, formats, arms and seeds. This module needs neither torch nor the library."""
from typing import NamedTuple

NETWORKS = {"vgg": "VGG", "resnet": "ResNet", "googlenet": "GoogLeNet", "mobilenetv2": "MobileNetV2"}
FORMATS = "fp32", "fp16"
# torch's own addition with rank 0 first, and with rank 0 last; their difference shows the effect of the order alone
PLAIN = "default", "reversed"
MODES = "fpisa-a", "fpisa", "exact"
ARMS = (*PLAIN, *MODES)
WORKERS = 8
EPOCHS = 20
SEEDS = range(1, 11)  # seeds of the long form; the short form uses only the first seed
CLAIM = 0.1  # in points of accuracy; the paper says that all differences are smaller
EXPERIMENT = 1  # increase this number with every change of the computation; records with another number are ignored


class Settings(NamedTuple):
    """The settings of a run. `data` is mnist, cifar10 or noise."""

    data: str
    model: str
    format: str
    arm: str
    seed: int
    epochs: int

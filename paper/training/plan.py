# SPDX-License-Identifier: GPL-2.0-only
"""What is run: networks, formats, arms, seeds. Needs neither torch nor the library."""
from typing import NamedTuple

NETWORKS = {"vgg": "VGG", "resnet": "ResNet", "googlenet": "GoogLeNet", "mobilenetv2": "MobileNetV2"}
FORMATS = "fp32", "fp16"
PLAIN = "default", "reversed"  # torch's own addition, of rank 0 first and of rank 0 last: what no arithmetic did
MODES = "fpisa-a", "fpisa", "exact"
ARMS = (*PLAIN, *MODES)
WORKERS = 8
EPOCHS = 20
SEEDS = range(1, 11)  # of the long form; the short one has the first
CLAIM = 0.1  # points of accuracy, of which the paper says that no difference is as large
EXPERIMENT = 1  # another number for every change of what a run computes: records of the old one are no longer those


class Settings(NamedTuple):
    """Of a run. data: mnist, cifar10 or noise."""

    data: str
    model: str
    format: str
    arm: str
    seed: int
    epochs: int

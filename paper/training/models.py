# SPDX-License-Identifier: GPL-2.0-only
"""Small versions of the paper's four networks. Each has its characteristic parts, but only a few, with few channels."""
import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 10


def unit(inputs, outputs, kernel=3, stride=1, groups=1):
    """Return a convolution followed by a normalisation."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class Residual(nn.Module):
    """Two convolutions. The input is added to the output, either unchanged, or through a 1 x 1 convolution if the shape
    changes.
    """

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.first = unit(inputs, outputs, 3, stride)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.around(x))


class Inception(nn.Module):
    """Four branches in parallel: a 1 x 1 convolution, a 3 x 3 convolution, two 3 x 3 convolutions, and pooling."""

    def __init__(self, inputs, outputs):
        super().__init__()
        q = outputs // 4
        self.branches = nn.ModuleList([
            unit(inputs, q, 1), nn.Sequential(unit(inputs, q, 1), unit(q, q)),
            nn.Sequential(unit(inputs, q, 1), unit(q, q), unit(q, q)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), unit(inputs, q, 1))])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


class Inverted(nn.Module):
    """A wide layer, a convolution of each channel separately, and a narrow layer without ReLU."""

    def __init__(self, inputs, outputs, stride=1, widening=4):
        super().__init__()
        wide = inputs * widening
        self.adds = stride == 1 and inputs == outputs
        self.body = nn.Sequential(unit(inputs, wide, 1), unit(wide, wide, 3, stride, wide),
                                  nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def vgg(channels):
    return [unit(channels, 16), unit(16, 16), nn.MaxPool2d(2), unit(16, 32), unit(32, 32), nn.MaxPool2d(2), unit(32, 64),
            unit(64, 64)]


def resnet(channels):
    return [unit(channels, 16), Residual(16, 16), Residual(16, 32, 2), Residual(32, 64, 2)]


def googlenet(channels):
    return [unit(channels, 16), nn.MaxPool2d(2), Inception(16, 32), Inception(32, 64), nn.MaxPool2d(2), Inception(64, 64)]


def mobilenetv2(channels):
    return [unit(channels, 16), Inverted(16, 24, 2), Inverted(24, 24), Inverted(24, 32, 2), unit(32, 64, 1)]


def mlp(channels):
    """Return a network for cost.py, which is not one of the paper's. The network has a million parameters and needs little
    computation. Images are 14 x 14 pixels.
    """
    return [nn.Flatten(), nn.Linear(channels * 14 * 14, 1024), nn.ReLU(), nn.Linear(1024, 896), nn.ReLU(), nn.Linear(896, 64),
            nn.ReLU(), nn.Unflatten(1, (64, 1, 1))]


MODELS = {"vgg": vgg, "resnet": resnet, "googlenet": googlenet, "mobilenetv2": mobilenetv2, "mlp": mlp}


def make(name, channels):
    """Return a network for images with `channels` channels. The parameters are initialised by torch's generator."""
    return nn.Sequential(*MODELS[name](channels), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))

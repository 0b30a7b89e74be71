# SPDX-License-Identifier: GPL-2.0-only
"""Install the wheels of `make wheels` in a separate environment, as a user does. tests/torch/test_versions.py sets FPISA_TORCH and runs
this test."""
import glob
import os
import re
import subprocess
import sys

import pytest

from lab import BUILD, TOP
from test_torch import digest
from training import Training, outputs

FOLDER = os.environ.get("FPISA_TORCH", "")
EXAMPLE = os.path.join(TOP, "adapters", "torch", "examples", "ddp.py")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not FOLDER, reason="a part of torch-long: FPISA_TORCH is not set")]


class Installed(Training):
    def environment(self, rank):
        env = super().environment(rank)
        del env["PYTHONPATH"], env["FPISA_LIBRARY"]
        return env


@pytest.fixture
def python(tmp_path):
    """Yield the interpreter of an environment with both wheels, and with torch from FPISA_TORCH."""
    version = os.path.basename(FOLDER).split("-")[1]
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    subprocess.run(["make", "-C", TOP, f"B={BUILD}", f"TORCH={version}", "wheels"], check=True, env=env)
    place = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    packages, = glob.glob(f"{place}/lib/python*/site-packages")
    with open(os.path.join(packages, "torch.pth"), "w") as f:
        f.write(glob.glob(f"{FOLDER}/env/lib/python*/site-packages")[0] + "\n")
    wheels = glob.glob(f"{BUILD}/wheel/*.whl")
    assert sorted(re.match(r"\w+?(?=-)", os.path.basename(w))[0] for w in wheels) == ["fpisa", "fpisa_torch"], wheels
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", place / "bin" / "python", "install", "--no-index",
                    "--no-deps", *wheels], check=True)
    requires = subprocess.run([place / "bin" / "python", "-c", "import importlib.metadata as m; print(m.requires('fpisa-torch'))"], check=True,
                              text=True, stdout=subprocess.PIPE).stdout
    assert f"'torch=={version}'" in requires.replace(" ", "") and "'fpisa[network]==" in requires.replace(" ", ""), requires
    return str(place / "bin" / "python")


def test_wheels(lab, tmp_path, python):
    """DDP trains with only the contents of the wheels, including libfpisa."""
    net = lab(workers=2, bridge=True)
    net.load()
    training = Installed(net, str(tmp_path), "", python)
    digest(outputs(training.start_ranks(EXAMPLE, "--steps", 8)))
    training.close()

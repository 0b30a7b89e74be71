#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Create a virtual environment with a version of PyTorch from PyPI, for tests on a CPU: environment.py VERSION FOLDER"""
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Packages that torch needs, except CUDA's libraries, and packages for building an extension
NEEDS = ["filelock", "fsspec", "jinja2", "networkx", "numpy", "setuptools", "sympy", "typing_extensions", "wheel"]


def main():
    version, folder = sys.argv[1:]
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", os.path.join(folder, "bin", "python"), "install"]
    for argv in ["--no-deps", f"torch=={version}"], NEEDS:
        if subprocess.run([*pip, *argv]).returncode:
            sys.exit(f"pip could not install {argv[-1]}")
    library, = glob.glob(f"{folder}/lib/python*/site-packages/torch/lib")
    subprocess.run([sys.executable, "-B", os.path.join(HERE, "without_cuda.py"), library], check=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Build the extension of fpisa.torch for the installed PyTorch.

The header and library of libfpisa come from the package libfpisa-dev, or from a source tree whose build directory
FPISA_BUILD names.
"""
import os

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = os.path.dirname(os.path.abspath(__file__))
build = os.environ.get("FPISA_BUILD")
TORCH = torch.__version__.split("+")[0]

setup(
    install_requires=["fpisa[network] == 0.3.0", f"torch == {TORCH}"],
    options={"egg_info": {"tag_build": f"+torch{TORCH}"}},
    packages=["fpisa.torch"],
    ext_modules=[CppExtension(
        "fpisa.torch._backend", ["backend.cpp"], depends=["group.hpp", "report.hpp", "staging.hpp", "together.hpp", "unclean.hpp", "views.hpp"],
        include_dirs=[os.path.join(HERE, "..", "..", "include")] if build else [],
        library_dirs=[build] if build else [], libraries=["fpisa"],
        # PyTorch 1.13 compiles extensions as C++14 by default, newer versions as C++17 or C++20.
        extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", *(["-std=c++17"] if TORCH.startswith("1.") else [])])],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False, no_python_abi_suffix=False)},
)

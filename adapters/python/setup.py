# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Build the compiled sums as a shared object, which fpisa/_core.py loads with ctypes. So the build needs a C compiler, but not
Python's headers, and one wheel works with every version of Python.
"""
import glob
import os
import re
import shutil

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # for setuptools older than 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
# A source distribution contains copies of the shared headers. In the tree the headers are in a directory above this one.
INCLUDE = "include" if os.path.isdir(os.path.join(HERE, "include")) else os.path.join("..", "..", "include")


def shared_headers():
    """Return the headers that the sources include, directly or through other headers."""
    todo, found = ["partial.h"], set()
    while todo:
        name = todo.pop()
        found.add(name)
        with open(os.path.join(HERE, INCLUDE, "fpisa", name)) as f:
            todo += set(re.findall(r'^#include "(\w+\.h)"', f.read(), re.M)) - found
    return sorted(found)


class Library(build_ext):
    """Build a shared object with a plain name, because it is not an extension module of a particular Python version.
    FPISA_WHEEL_LIBRARY names the folder of libfpisa.so and libfpisa-query.so to include in the wheel.
    """

    def run(self):
        super().run()
        folder = os.environ.get("FPISA_WHEEL_LIBRARY")
        for name in ("libfpisa.so", "libfpisa-query.so") if folder else ():
            shutil.copy(os.path.join(folder, name), os.path.join(self.build_lib, "fpisa", name + ".1"))

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + ".so"

    def get_export_symbols(self, ext):
        return []


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Source(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        folder = os.path.join(base_dir, "include", "fpisa")
        os.makedirs(folder, exist_ok=True)
        for name in shared_headers():
            shutil.copy(os.path.join(HERE, INCLUDE, "fpisa", name), folder)


setup(
    ext_modules=[Extension("fpisa.libsums", sorted(glob.glob("sums/*.c")), include_dirs=[INCLUDE],
                           depends=glob.glob("sums/*.h"), libraries=["m"],
                           extra_compile_args=["-std=gnu11", "-O3", "-g0", "-ffp-contract=off", "-fno-fast-math", "-fvisibility=hidden"])],
    cmdclass={"build_ext": Library, "bdist_wheel": Wheel, "sdist": Source},
)

# SPDX-License-Identifier: GPL-2.0-only
"""The labs of tests/netns, for packages: mounts of our own, a BPF filesystem, networks."""
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
NETNS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "netns")
spec = importlib.util.spec_from_file_location("netns_conftest", os.path.join(NETNS, "conftest.py"))
netns = importlib.util.module_from_spec(spec)
spec.loader.exec_module(netns)

mounts, bpffs, shared, lab = netns.mounts, netns.bpffs, netns.shared, netns.lab

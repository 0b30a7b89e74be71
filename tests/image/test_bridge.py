# SPDX-License-Identifier: GPL-2.0-only
"""Ranks sum in containers without any capability, on a bridge that podman makes with its own address translation, over IPv4 and IPv6. The root
of the containers is a copy of this machine's, so no image is needed. tests/netns/host/test_firewalls.py has the same bridge without podman."""
import json
import os
import shutil
import sys

import pytest

from lab import HERE, LIBRARY, PIN
from test_image import LIMITS, RUNTIME

CHUNKS = 196
STEP = {"count": 256 * CHUNKS, "kind": "integers"}
SUBNET = {"ipv4": ["--subnet=10.77.0.0/24"], "ipv6": ["--ipv6", "--subnet=2001:db8:77::/64"]}


class Bridge:
    """A network of podman in the namespace of a host"""

    def __init__(self, host, folder, family):
        self.host = host
        storage = folder / "storage.conf"
        storage.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n')
        self.env = {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage)}
        self.podman = ["podman", *RUNTIME, f"--network-config-dir={folder}/networks", "--cgroup-manager=cgroupfs"]
        host.run(*self.podman, "network", "create", *SUBNET[family], "ranks", env=self.env)

    def spawn(self, *argv):
        """Start a program in a container, as the user nobody."""
        return self.host.spawn(*self.podman, "run", "--rm", "--cap-drop=all", "--security-opt=no-new-privileges", "--user=65534", *LIMITS,
                               "--network=ranks", "--rootfs", "/:O", *argv, env=self.env)


@pytest.fixture
def bridge(tmp_path, family, lab):
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    net = lab(workers=2)
    net.load()
    made = Bridge(net.worker[1], tmp_path, family)
    made.net = net
    return made


@pytest.mark.parametrize("family", ["ipv4", "ipv6"], indirect=True)
def test_ranks_in_containers(bridge):
    """Two ranks are in containers of one host, and the job lists the address and the ports that the aggregator sees."""
    net = bridge.net
    host = f"[{net.addresses[1]}]" if net.ipv6 else net.addresses[1]
    net.add_job(1, workers=[net.addresses[0], f"{host}:18000", f"{host}:18001"])
    plans = [json.dumps({"options": {"local_port": port, "timeout_ms": 30000}, "steps": [STEP]}) for port in (18000, 18000, 18001)]
    argv = [sys.executable, "-B", os.path.join(HERE, "worker.py"), LIBRARY, net.address, 1]
    ranks = [net.worker[0].spawn(*argv, plans[0]), *(bridge.spawn(*argv, plan) for plan in plans[1:])]
    net.check_answers(ranks, 3, STEP["count"])
    c = net.counters(1, PIN)
    assert c["v_result"] == CHUNKS and c["v_unknown_peer"] == 0

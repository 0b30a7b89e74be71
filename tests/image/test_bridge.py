# SPDX-License-Identifier: GPL-2.0-only
"""Ranks sum in containers without any capability, on a bridge that podman or Docker makes with its own address translation, over IPv4 and IPv6.
The containers have programs and libraries of this machine, so no image is needed. tests/netns/host/test_firewalls.py has the same bridge without
podman and Docker."""
import contextlib
import json
import os
import shutil
import tarfile

import pytest

from lab import BUILD, HERE, LIBRARY, PIN, TOP, end, wait_until
from test_image import LIMITS, RUNTIME

CHUNKS = 196
STEP = {"count": 256 * CHUNKS, "kind": "integers"}
SUBNET = {"ipv4": ["--subnet=10.77.0.0/24"], "ipv6": ["--ipv6", "--subnet=2001:db8:77::/64"]}


class Podman:
    """A network of podman in the namespace of a host"""

    program = "podman"

    def __init__(self, host, folder, family):
        self.host = host
        storage = folder / "storage.conf"
        storage.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n')
        self.env = {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage)}
        self.podman = ["podman", *RUNTIME, f"--network-config-dir={folder}/networks", "--cgroup-manager=cgroupfs"]
        host.run(*self.podman, "network", "create", *SUBNET[family], "ranks", env=self.env)

    def refusal(self):
        return ""

    def close(self):
        pass

    def spawn(self, *argv):
        """Start a program in a container, as the user nobody."""
        return self.host.spawn(*self.podman, "run", "--rm", "--cap-drop=all", "--security-opt=no-new-privileges", "--user=65534", *LIMITS,
                               "--network=ranks", "--rootfs", "/:O", *argv, env=self.env)


class Docker:
    """A daemon of Docker in the namespace of a host, with mounts and files of its own, and a network"""

    program = "dockerd"

    def __init__(self, host, folder, family):
        self.host, self.cgroup, self.creates_etc = host, f"fpisa-{os.getpid()}", not os.path.exists("/etc/docker")
        self.docker = ["docker", "-H", f"unix://{folder}/socket"]
        self.log = open(folder / "log", "w+")
        self.daemon = host.spawn(
            "unshare", "-m", "sh", "-ec", 'mkdir -p /etc/docker; mount -t tmpfs docker /etc/docker; exec "$@"', "sh", "dockerd", "-H", self.docker[-1],
            "--data-root", folder / "data", "--exec-root", folder / "exec", "--pidfile", folder / "pid", "--cgroup-parent", self.cgroup, "--bridge=none",
            "--experimental", "--ip6tables", stdout=self.log, stderr=self.log)
        wait_until("dockerd", lambda: self.daemon.poll() is not None or not host.try_run(*self.docker, "info")[0])
        if self.daemon.poll() is None:
            self.create(folder, family)

    def refusal(self):
        """Return the last line of a daemon that has ended, or an empty text."""
        self.log.seek(0)
        return "" if self.daemon.poll() is None else self.log.read().strip().splitlines()[-1]

    def create(self, folder, family):
        """Create the network, and an image whose only contents are links into /usr."""
        with tarfile.open(folder / "root.tar", "w") as tar:
            for name in ("bin", "lib", "lib64", "sbin"):
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
                tar.addfile(link)
        self.host.run(*self.docker, "import", folder / "root.tar", "root")
        self.host.run(*self.docker, "network", "create", *SUBNET[family], "ranks")

    def spawn(self, *argv):
        """Start a program in a container, as the user nobody."""
        volumes = [f"--volume={tree}:{tree}:ro" for tree in dict.fromkeys(("/usr", TOP, BUILD))]
        return self.host.spawn(*self.docker, "run", "--rm", "--cap-drop=all", "--security-opt=no-new-privileges", "--user=65534", *LIMITS,
                               "--network=ranks", *volumes, "root", *argv)

    def close(self):
        if self.daemon.poll() is None:
            self.daemon.terminate()
            self.daemon.wait(60)
        end(self.daemon)
        self.log.close()
        if self.creates_etc:
            os.rmdir("/etc/docker")
        for controller in ("", *os.listdir("/sys/fs/cgroup")):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join("/sys/fs/cgroup", controller, self.cgroup))


@pytest.fixture(params=[Podman, Docker], ids=["podman", "docker"])
def bridge(request, tmp_path, family, lab):
    if not shutil.which(request.param.program):
        pytest.skip(f"{request.param.program} is not installed")
    net = lab(workers=2)
    net.load()
    made = request.param(net.worker[1], tmp_path, family)
    made.net = net
    try:
        if made.refusal():
            pytest.skip(made.refusal())
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("family", ["ipv4", "ipv6"], indirect=True)
def test_ranks_in_containers(bridge):
    """Two ranks are in containers of one host, and the job lists the address and the ports that the aggregator sees."""
    net = bridge.net
    host = f"[{net.addresses[1]}]" if net.ipv6 else net.addresses[1]
    net.add_job(1, workers=[net.addresses[0], f"{host}:18000", f"{host}:18001"])
    plans = [json.dumps({"options": {"local_port": port, "timeout_ms": 30000}, "steps": [STEP]}) for port in (18000, 18000, 18001)]
    argv = ["/usr/bin/python3", "-B", os.path.join(HERE, "worker.py"), LIBRARY, net.address, 1]
    ranks = [net.worker[0].spawn(*argv, plans[0]), *(bridge.spawn(*argv, plan) for plan in plans[1:])]
    net.check_answers(ranks, 3, STEP["count"])
    c = net.counters(1, PIN)
    assert c["v_result"] == CHUNKS and c["v_unknown_peer"] == 0

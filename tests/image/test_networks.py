# SPDX-License-Identifier: GPL-2.0-only
"""Ranks sum in containers of podman and Docker without any capability, over IPv4 and IPv6: on a bridge with these programs' own address translation,
and with the network of the host. The containers have programs and libraries of this machine, so no image is needed.
tests/netns/host/test_firewalls.py has the same bridge without podman and Docker."""
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
UNPRIVILEGED = ["--rm", "--cap-drop=all", "--security-opt=no-new-privileges", "--user=65534", *LIMITS]
# Run the arguments if not even a program of root could have a capability in this container.
NO_CAPABILITY = ["sh", "-c", "grep -q '^CapBnd:[[:space:]]*0*$' /proc/self/status && exec \"$@\"", "sh"]
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

    def spawn(self, network, *argv):
        return self.host.spawn(*self.podman, "run", *UNPRIVILEGED, f"--network={network}", "--rootfs", "/:O", *NO_CAPABILITY, *argv, env=self.env)


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

    def spawn(self, network, *argv):
        volumes = [f"--volume={tree}:{tree}:ro" for tree in dict.fromkeys(("/usr", TOP, BUILD))]
        return self.host.spawn(*self.docker, "run", *UNPRIVILEGED, f"--network={network}", *volumes, "root", *NO_CAPABILITY, *argv)

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
def site(request, tmp_path, family, lab):
    """Yield a lab, and the program that runs containers on worker 1."""
    if not shutil.which(request.param.program):
        pytest.skip(f"{request.param.program} is not installed")
    net = lab(workers=2)
    net.load()
    containers = request.param(net.worker[1], tmp_path, family)
    try:
        if containers.refusal():
            pytest.skip(containers.refusal())
        yield net, containers
    finally:
        containers.close()


def check_sums(net, containers, network, ports):
    """Let worker 0 sum with a rank for each port, in containers of worker 1. Return the job's counters."""
    plan = {"options": {"timeout_ms": 30000}, "steps": [STEP]}
    argv = ["/usr/bin/python3", "-B", os.path.join(HERE, "worker.py"), LIBRARY, net.address, 1]
    contained = [json.dumps(plan | {"options": plan["options"] | {"local_port": port}}) for port in ports]
    ranks = [net.worker[0].spawn(*argv, json.dumps(plan)), *(containers.spawn(network, *argv, p) for p in contained)]
    net.check_answers(ranks, len(ranks), STEP["count"])
    c = net.counters(1, PIN)
    assert c["v_result"] == CHUNKS and c["v_unknown_peer"] == 0
    return c


@pytest.mark.parametrize("family", ["ipv4", "ipv6"], indirect=True)
def test_bridge(site):
    """Two ranks are in containers of one host, and the job lists the address and the ports that the aggregator sees."""
    net, containers = site
    host = f"[{net.addresses[1]}]" if net.ipv6 else net.addresses[1]
    net.add_job(1, workers=[net.addresses[0], f"{host}:18000", f"{host}:18001"])
    check_sums(net, containers, "ranks", [18000, 18001])


@pytest.mark.parametrize("family", ["ipv4", "ipv6"], indirect=True)
def test_host_network(site):
    """The job is as for ranks outside of containers, and multicast results arrive."""
    net, containers = site
    net.add_job(1)
    assert net.json("job", "show", 1)["fanout"] == "multicast"
    assert check_sums(net, containers, "host", [0])["v_resent"] < CHUNKS / 2

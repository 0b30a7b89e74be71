# SPDX-License-Identifier: GPL-2.0-only
"""Follow the beginning of doc/guide.md as its reader does, on four hosts at a bridge without another machine. Each host has its own
mounts."""
import contextlib
import os
import shutil
import signal

import guide
import lab as labs
import pytest
from lab import end
from test_guide import CONFIG, NOBODY, Site, in_a_home, installed  # noqa: F401

pytestmark = [pytest.mark.together, pytest.mark.early]  # these tests need the installed program

ADDRESSES = "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"


class Host(labs.Netns):
    """A network namespace with its own /sys/fs/bpf"""

    def __init__(self, home):
        self.home, self.mounts = home, None
        super().__init__()
        self.mounts = super().spawn("unshare", "--mount", "sh", "-c", "mount -t bpf bpf /sys/fs/bpf && echo mounted && exec sleep 600")
        assert self.mounts.stdout.readline() == "mounted\n"

    def spawn(self, *argv, uid=0, cwd="/", **options):
        if not self.mounts:
            return super().spawn(*argv, **options)
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        return super().spawn("nsenter", f"--mount=/proc/{self.mounts.pid}/ns/mnt", "sh", "-c", 'cd "$0" && exec "$@"', cwd, *become, *argv, **options)


class Hosts(Site):
    """The page's four hosts and their switch. With `ipv6`, the hosts have IPv6 addresses alone, which the page's commands name."""

    def __init__(self, home, ipv6=False):
        self.ipv6, self.spaces, self.home = ipv6, [], home
        self.switch = self.netns()
        self.switch.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0", "link set br0 up")
        self.worker = [self.host(n, self.named(address)) for n, address in enumerate(ADDRESSES)]
        self.places = {"each host": self.worker, "the first host": self.worker[:1]}

    def host(self, n, address):
        home = os.path.join(self.home, str(n))
        os.mkdir(home)
        os.chown(home, NOBODY, NOBODY)
        host = Host(home)
        self.spaces.append(host)
        self.switch.ip(f"link add port{n} type veth peer name eth0 netns {host.path}", f"link set port{n} master br0 up")
        host.ip(f"addr add {address}/{'64 nodad' if self.ipv6 else 24} dev eth0", "link set eth0 up")
        if shutil.which("nft"):
            self.nft(host)
        return host

    def hand_out(self, keys):
        super().hand_out(keys)
        for host in self.worker:
            shutil.copy(guide.GROUP, host.home)

    def close(self):
        for host in self.worker:
            with contextlib.suppress(OSError, ValueError), open(os.path.join(host.home, "fpisa-manager.pid")) as f:
                os.kill(int(f.read()), signal.SIGKILL)
            end(host.mounts)
        for space in self.spaces:
            space.close()


@pytest.fixture
def hosts(installed, bpffs, request):  # noqa: F811
    with in_a_home(lambda home: Hosts(home, ipv6=request.param)) as made:
        yield made


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
@pytest.mark.parametrize("hosts", [False, pytest.param(True, marks=pytest.mark.long)], ids=["ipv4", "ipv6"], indirect=True)
def test_four_hosts(hosts):
    """The page leads from an empty machine to an all-reduce by four hosts, and back to an empty machine."""
    for block in guide.blocks():
        if block.section or "apt " in block.text:
            continue
        if block.kind == "ini":
            with open(CONFIG, "w") as f:
                f.write(hosts.named(block.text))
            continue
        if block.text.endswith(" exact\n"):
            with open(CONFIG, "a") as f:
                f.write("modes = exact\n")  # the group in mode exact shows that this setting is in force
            hosts.at("the first host", "systemctl reload fpisa-manager")
        for out in hosts.at(block.place, block.text, uid=NOBODY if block.user else 0):
            assert guide.missing(map(hosts.named, block.prints), out) == [], (block.text, out)
            if block.text == "fpisa stats\n":
                assert " ".join(out.split()).count("result 97") == 1, out
        if "fpisa key new" in block.text:
            hosts.hand_out("/etc/fpisa/keys")
    for host in hosts.worker:
        assert "xdp" not in host.run("ip", "link") and "fpisa" not in host.run("ls", "/sys/fs/bpf")

# SPDX-License-Identifier: GPL-2.0-only
"""Root directories with Debian for tests/package and tests/distros"""
import contextlib
import re
import subprocess
import sys

import pytest

from lab import end

LIMIT_S = 900
NO_NETWORK = r"Temporary failure resolving|Could not connect|Could not resolve|Failed to fetch"
# Set up private mounts: the root with the kernel's filesystems, a private BPF filesystem and /run. The root uses this machine's name
# resolution and trusted certificates.
ENTER = r"""set -e; root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t bpf -o mode=0755 bpf "$root/sys/fs/bpf"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
	! [ -e "$file" ] || ! [ -d "$root${file%/*}" ] || cat "$file" > "$root$file"
done
cd "$root"; mkdir -p .old; pivot_root . .old; umount -l /.old; rmdir /.old
exec env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""
# This script needs no root directory. It uses this machine, except for the folder's /srv.
BESIDE = r"""set -e; place=$1; shift
mount --bind "$place/srv" /srv
mount -t proc proc /proc
mount -t bpf -o mode=0755 bpf /sys/fs/bpf
""" + ENTER.splitlines()[-1] + "\n"


def mirror():
    """Return the source from which this machine gets Debian: (address, release)."""
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages",
                              "Origin: Debian", "Label: Debian"], text=True, capture_output=True).stdout.split("\n")
    found = [t.split() for t in targets if re.fullmatch(r"\S+ \w+", t)]
    if not found:
        pytest.skip("apt's sources do not list a Debian archive")
    return found[0]


@contextlib.contextmanager
def making(path, release, variant, include):
    """Run mmdebstrap while the body runs. It fetches packages as this machine's apt does. The root is complete when the body has ended."""
    settings = subprocess.run(["apt-config", "dump", "Acquire"], text=True, capture_output=True, check=True).stdout
    with open(path + ".apt.conf", "w") as f:
        f.writelines(line + "\n" for line in settings.splitlines() if "IndexTargets" not in line)
    with open(path + ".log", "w+") as log:
        p = subprocess.Popen(["mmdebstrap", "--variant=" + variant, "--mode=root", f"--aptopt={path}.apt.conf",
                              "--include=" + ",".join(include), release, path, mirror()[0]], stdout=log, stderr=log)
        try:
            yield
            status = p.wait(timeout=LIMIT_S)
        finally:
            end(p)
        log.seek(0)
        said = log.read()
    if status and re.search(NO_NETWORK, said):
        pytest.skip("no network: mmdebstrap could not fetch Debian")
    assert not status, said[-4000:]


def inside(path, *argv, enter=ENTER):
    """Run a command in the root. Return (status, output). Processes that the command leaves end with it."""
    p = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", enter, "sh",
                        path, *argv], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(p.stdout[-20000:], file=sys.stderr)
    return p.returncode, p.stdout


def beside(path, *argv):
    """Run a command on this machine, with the folder's srv as its /srv."""
    return inside(path, *argv, enter=BESIDE)

# SPDX-License-Identifier: GPL-2.0-only
"""Boot a guest of vm/guest.py with virtme-ng, instead of with a qemu command line and an initramfs with vm/init.

virtme-ng makes the root from this machine's root, which is read-only over 9p with an overlay in memory above each folder.
The init of virtme-ng is PID 1, and runs vm/init with argument "vng". As with qemu, command, output, exit status and console
are files in the share.
"""
import os
import shutil
import subprocess

MODULES = ("virtio_pci", "9pnet_virtio", "fs-9p", "overlay")  # the modules that virtme-ng needs
# Directories without an overlay, because the guest has its own. virtme-ng mounts some of them by itself.
OWN = ("boot", "dev", "lost+found", "proc", "run", "sys")


def installed():
    return shutil.which("vng")


def version():
    p = subprocess.run([installed(), "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return p.stdout.strip() or "virtme-ng"


def image(kernel):
    """Return a path of the kernel near lib/modules, because virtme-ng looks for modules in a folder above the image."""
    path = os.path.join(kernel, "root", "vmlinux")
    try:
        os.symlink("../vmlinux", path)
    except FileExistsError:
        pass
    return path


def argv(kernel, share, accel, cpus, memory, options):
    """Return the command that boots the kernel with these options. All of its processes end when the first process ends."""
    overlays = [d.path for d in sorted(os.scandir("/"), key=lambda d: d.name)
                if d.is_dir(follow_symlinks=False) and d.name not in OWN]
    return ["unshare", *([] if os.geteuid() == 0 else ["--map-current-user"]), "--pid", "--fork", "--kill-child",
            installed(), "--run", image(kernel), "--user", "root", "--cpus", cpus, "--memory", memory, "--force-9p",
            "--disable-microvm", "--disable-monitor", *(["--disable-kvm"] if accel != "kvm" else []), "--verbose",
            *[arg for d in overlays for arg in ("--overlay-rwdir", d)], "--rwdir", f"/run/vm={share}",
            *[arg for option in options for arg in ("--append", option)],
            "--exec", "sh /run/vm/init vng"]

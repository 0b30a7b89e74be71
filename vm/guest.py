# SPDX-License-Identifier: GPL-2.0-only
"""Boot a kernel of vm/kernels under qemu for vm/run and vm/pair.

vm/run may use virtme-ng (vm/vng.py), which calls qemu. The guest uses this machine's root read-only, with an overlay in
memory. A separate folder is shared with the guest for the command, the output and the exit status (vm/init).
"""
import contextlib
import ctypes
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import vng
from archive import STATE, TREE

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
DIED, TIMEOUT, NO_GUEST = 123, 124, 125
KVM_PROBE_S = 15
VNG_PROBE_S = 120  # time limit when the guest is emulated on a busy machine
CPUS = os.environ.get("FPISA_VM_CPUS", "2")
VM_SERVICE = """[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh /run/vm/init command"""
MEMORY = os.environ.get("FPISA_VM_MEMORY", "3G")
SLOW = "5"  # factor for the time limits of the tests


class NoGuest(Exception):
    """The guest could not be set up"""


def modules(kernel, release, names=MODULES):
    """Return the files of the modules that are needed to mount the root, in loading order."""
    order = []
    for module in names:
        p = subprocess.run(["modprobe", "-C", "/dev/null", "-d", os.path.join(kernel, "root"), "-S", release,
                            "--show-depends", module], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if p.returncode:
            raise NoGuest(f"{release}: {p.stderr.strip()}")
        order += [line.split()[1] for line in p.stdout.splitlines() if line.startswith("insmod")]
    return list(dict.fromkeys(order))


def copy_modules(order, folder):
    """Copy modules uncompressed, and write a file `order` with their names."""
    names = [re.sub(r"\.ko.*", ".ko", os.path.basename(source)) for source in order]
    for source, name in zip(order, names):
        with (lzma.open if source.endswith(".xz") else open)(source, "rb") as f, open(f"{folder}/{name}", "wb") as out:
            out.write(f.read())
    with open(folder + "/order", "w") as f:
        f.writelines(name + "\n" for name in names)


def pack(top, path):
    """Make an initramfs of the files below `top`."""
    with open(path, "wb") as f:
        subprocess.run("find . | cpio -o -H newc --quiet -R 0:0", shell=True, cwd=top, stdout=f, check=True)


def initramfs(kernel, release):
    """Return an initramfs with busybox, vm/init and these modules. Make it again only if vm/init is newer."""
    path, init = os.path.join(kernel, "initramfs"), os.path.join(HERE, "init")
    if os.path.exists(path) and os.path.getmtime(path) > os.path.getmtime(init):
        return path
    with tempfile.TemporaryDirectory() as top:
        os.mkdir(top + "/bin")
        os.mkdir(top + "/modules")
        shutil.copy("/bin/busybox", top + "/bin/busybox")
        shutil.copy(init, top + "/init")
        copy_modules(modules(kernel, release), top + "/modules")
        part = f"{path}.{os.getpid()}"  # two boots of the same kernel may make the file at the same time
        pack(top, part)
    os.rename(part, path)
    return path


def tsc_khz():
    """Return the rate of this machine's time stamp counter for an emulated counter. A guest on a busy machine would measure a
    wrong rate.
    """
    with open("/proc/cpuinfo") as f:
        return round(float(re.search(r"bogomips\s*: ([\d.]+)", f.read()).group(1)) * 500)


def options():
    """Return the options of the kernel command line."""
    return ["loglevel=5", "panic=-1", "oops=panic", "mitigations=off", "nokaslr", "tsc=reliable", "no_timer_check",
            f"tsc_early_khz={tsc_khz()}"]


def die_with_parent(how=signal.SIGKILL):
    ctypes.CDLL(None).prctl(1, how)  # PR_SET_PDEATHSIG


class Guest:
    """A boot of a guest.

    Its files are in the folder `share`, which the guest sees as /run/vm. `net` has qemu's options for the network. If
    `units`, {name: text}, is given, systemd is PID 1 and starts vm.target. vm.service runs the command. Both units are added
    if they are not in `units`. The script `before` runs before systemd starts, like an installer in a root that is not
    booted. `boot` is "qemu" or "vng". "vng" supports neither `net` nor `units`.
    """

    def __init__(self, kernel, command, accel, share, net=("-nic", "none"), units=None, before="", boot="qemu"):
        with open(os.path.join(kernel, "release")) as f:
            self.release = f.read().strip()
        self.share, self.console = share, share + "/console"
        shutil.copy(os.path.join(HERE, "init"), share + "/init")
        self.write("modules", os.path.join(kernel, "root/lib/modules"))
        self.write("command", command)
        for name in ("stdout", "stderr", "console"):
            self.write(name, "")
        if units:
            os.mkdir(share + "/units")
            for name, text in {"vm.target": "[Unit]\nWants=vm.service", "vm.service": VM_SERVICE, **units}.items():
                self.write("units/" + name, text)
            self.write("before", before)
        if boot == "vng":
            modules(kernel, self.release, vng.MODULES)  # virtme-ng would not name a missing module
            argv, console = vng.argv(kernel, share, accel, CPUS, MEMORY, options()), self.console
        else:
            argv, console = self.by_qemu(kernel, accel, net), share + "/qemu"
        # the temporary files of virtme-ng are in the share, and are removed with it if virtme-ng is killed
        self.qemu = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=open(console, "w"), env={**os.environ, "TMPDIR": share},
                                     preexec_fn=die_with_parent)

    def by_qemu(self, kernel, accel, net):
        return ["qemu-system-x86_64", "-no-user-config", "-nodefaults", "-no-reboot", "-display", "none", "-M", "q35",
                *(["-accel", "kvm", "-cpu", "host"] if accel == "kvm" else
                  ["-accel", "tcg,thread=multi", "-cpu", "max"]),
                "-smp", CPUS, "-m", MEMORY, "-kernel", os.path.join(kernel, "vmlinux"),
                "-initrd", initramfs(kernel, self.release), "-append", " ".join(["console=ttyS0", *options()]),
                "-serial", "file:" + self.console, *net,
                "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
                "-fsdev", f"local,id=share,path={self.share},security_model=none",
                "-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]

    def write(self, name, text):
        with open(os.path.join(self.share, name), "w") as f:
            f.write(text + ("\n" if text else ""))

    def read(self, name):
        try:
            with open(os.path.join(self.share, name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def kill(self):
        # With unshare, the child ends after all other processes.
        first = self.read(f"/proc/{self.qemu.pid}/task/{self.qemu.pid}/children").split()
        if self.qemu.poll() is None and first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(first[0]), signal.SIGKILL)
        else:
            self.qemu.kill()
        self.qemu.wait()

    def follow(self, limit_s):
        """Copy the output of the command until the guest has ended. Return False if this took too long."""
        end = time.monotonic() + limit_s
        streams = [(open(os.path.join(self.share, "stdout"), "rb"), sys.stdout.buffer),
                   (open(os.path.join(self.share, "stderr"), "rb"), sys.stderr.buffer)]
        while True:
            gone = self.qemu.poll() is not None
            for source, sink in streams:
                shutil.copyfileobj(source, sink)
                sink.flush()
            if gone:
                return True
            if time.monotonic() > end:
                self.kill()
                return False
            time.sleep(0.05)

    def wait(self, limit_s):
        """Wait until the guest has ended. Return False if this took too long."""
        try:
            self.qemu.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def verdict(self, finished):
        """Return the exit status, and a complaint or None."""
        status, console = self.read("status").strip(), self.read("console")
        # the initramfs of virtme-ng prints this line and panics, and vm/init prints the name of the module in the line below
        rootless = re.search(r"Failed to mount real root.*", console)
        if rootless:
            failed = re.search(r"insmod: .*", console)
            return NO_GUEST, (failed or rootless).group(0).strip()
        dead = re.search(r"(Kernel panic.*|BUG: .*|Oops: .*|general protection fault.*)", console)
        if dead and not (finished and status):
            return DIED, dead.group(1).strip()
        if status:
            return int(status), None
        if not finished:
            return TIMEOUT, "time limit passed"
        failed = re.search(r"vm/init: failed: (.*)", console)
        return NO_GUEST, failed.group(1).strip() if failed else "the guest ended without an exit status"


def kvm_works(kernel):
    """Return whether this machine's KVM can run a stock guest. On some machines it cannot although /dev/kvm exists. The answer
    is kept in a file.
    """
    path = os.path.join(STATE, "kvm." + os.uname().release)
    if not os.path.exists(path):
        works = False
        if os.access("/dev/kvm", os.R_OK | os.W_OK):
            with tempfile.TemporaryDirectory() as share:
                guest = Guest(kernel, "exit 42", "kvm", share)
                works = guest.follow(KVM_PROBE_S) and guest.verdict(True)[0] == 42
        with open(path, "w") as f:
            f.write("yes\n" if works else "no\n")
    with open(path) as f:
        return f.read().strip() == "yes"


def vng_works(kernel, accel):
    """Return whether virtme-ng can boot this kernel here, and the reason if it cannot. The answer is kept in a file until
    virtme-ng or the kernel changes.
    """
    path = os.path.join(kernel, "vng")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(vng.installed()):
        with tempfile.TemporaryDirectory(prefix="fpisa-vm-") as share:
            guest = Guest(kernel, "exit 42", accel, share, boot="vng")
            try:
                status, why = guest.verdict(guest.wait(VNG_PROBE_S))
            finally:
                guest.kill()
            last = (guest.read("console").strip().splitlines() or ["no output"])[-1].strip()
        part = f"{path}.{os.getpid()}"
        with open(part, "w") as f:
            f.write("" if status == 42 else f"{why}: {last}\n" if status == NO_GUEST else f"{why}\n")
        os.rename(part, path)
    with open(path) as f:
        why = f.read().strip()
    return not why, why


def boot(name, kernel, accel):
    """Return the program that boots a guest, "vng" or "qemu". If virtme-ng is installed but is not used, print the reason."""
    forced = os.environ.get("FPISA_VM_BOOT", "")
    if forced not in ("", "vng", "qemu"):
        raise NoGuest(f"FPISA_VM_BOOT is {forced}; it must be vng or qemu")
    if forced == "vng" and not vng.installed():
        raise NoGuest("FPISA_VM_BOOT=vng: vng is not installed; run pip install virtme-ng, or set FPISA_VM_BOOT=qemu")
    if forced or not vng.installed():
        return forced or "qemu"
    works, why = vng_works(kernel, accel)
    if not works:
        print(f"{name}: virtme-ng does not boot this kernel here, qemu alone does: {why}", file=sys.stderr)
    return "vng" if works else "qemu"


def tools():
    """Raise NoGuest if a program that guests need is missing."""
    for tool in ("qemu-system-x86_64", "busybox", "cpio", "modprobe"):
        if not shutil.which(tool):
            raise NoGuest(f"{tool} is not installed; run make vm-deps")


def prepare(name):
    """Return the folder of the kernel, and how to run guests. Fetch the kernel if necessary. Raise NoGuest if something is
    missing.
    """
    tools()
    p = subprocess.run([os.path.join(HERE, "fetch"), name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        raise NoGuest((p.stderr.strip() or f"vm/fetch {name}: exit status {p.returncode}").splitlines()[-1])
    kernel = p.stdout.strip()
    return kernel, os.environ.get("FPISA_VM_ACCEL") or ("kvm" if kvm_works(kernel) else "tcg")


def script(argv):
    """Return a shell script that runs this command in the tree in the guest."""
    given = {k: v for k, v in os.environ.items() if k.startswith("FPISA_") and not k.startswith("FPISA_VM_")}
    exports = {"FPISA_SLOW": SLOW, **given}
    return "\n".join([f"export {k}={shlex.quote(v)}" for k, v in exports.items()] +
                     ["export HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                      f"cd {shlex.quote(TREE)}", f"exec {shlex.join(argv)}"])


def end_on_signals():
    """Turn signals into exceptions, so that guests end and their folders are removed."""
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, _: sys.exit(128 + number))

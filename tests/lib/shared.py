# SPDX-License-Identifier: GPL-2.0-only
"""A datapath that is loaded once and shared by the tests of a session, one after the other

Loading takes most of the time of a short test, because the verifier reads 1.3 million instructions. Therefore only the first plain `fpisa
load` of a session is a real load. Its programs and maps are then pinned a second time, in a BPF filesystem of this session. Later tests
find those pins in their own BPF filesystem, with every map in the state after the load, and `fpisa load` attaches the pinned programs. If a
test needs further families, the families stay for later tests. The maps of the ports of each job number stay too, because the kernel
removes a port when its interface disappears.

If a test upgrades a datapath or changes its program array, the datapath is no longer shared, and the next load is a real load again.
"""
import ctypes
import os
import struct

STORE = "/run/fpisa-shared"
JOBS, STAGES = "fpisa_jobs", "fpisa_stages"
MANAGER = {"fpisa_groups", "fpisa_manager", "fpisa_aggs", "fpisa_ranks"}  # created by `fpisa serve`, not by a load
LOOKUP, UPDATE, PIN, GET, INFO = 1, 2, 6, 7, 15  # commands of bpf(2)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
ARRAY, PROG_ARRAY, PERCPU_ARRAY = 2, 3, 6
RESTORED = 1 << 20  # a new job resets its own entries in the larger maps (registers, peers)

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attr):
    """Return the result of the system call. Raise OSError if it failed."""
    attr = ctypes.create_string_buffer(attr, 128)
    rc = libc.syscall(SYS_BPF, command, attr, len(attr))
    if rc < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}: {os.strerror(ctypes.get_errno())}")
    return rc


def address(buffer):
    return ctypes.addressof(buffer)


def pin_get(path):
    text = ctypes.create_string_buffer(path.encode())
    return bpf(GET, struct.pack("=QII", address(text), 0, 0))


def pin_put(fd, path):
    text = ctypes.create_string_buffer(path.encode())
    bpf(PIN, struct.pack("=QII", address(text), fd, 0))


def copy_pin(source, target):
    fd = pin_get(source)
    try:
        pin_put(fd, target)
    finally:
        os.close(fd)


class Map:
    """A pinned map, indexed by the number of the entry"""

    def __init__(self, fd):
        self.fd = fd
        info = ctypes.create_string_buffer(256)
        bpf(INFO, struct.pack("=IIQ", fd, len(info), address(info)))
        self.type, self.id, self.key_bytes, value, self.entries = struct.unpack_from("=5I", info)
        cpus = possible_cpus() if self.type == PERCPU_ARRAY else 1
        self.value_bytes = (value + 7) // 8 * 8 * cpus

    def entry(self, command, key, value):
        key = ctypes.create_string_buffer(struct.pack("=I", key))
        return bpf(command, struct.pack("=IIQQQ", self.fd, 0, address(key), address(value) if value else 0, 0))

    def get(self, key):
        """Return an entry, or None if it is empty. Entries of program arrays may be empty."""
        value = ctypes.create_string_buffer(self.value_bytes)
        try:
            self.entry(LOOKUP, key, value)
        except FileNotFoundError:
            return None
        return value.raw

    def put(self, key, value):
        self.entry(UPDATE, key, ctypes.create_string_buffer(value, len(value)))

    def contents(self):
        return [self.get(key) for key in range(self.entries)]


def possible_cpus():
    with open("/sys/devices/system/cpu/possible") as f:
        return int(f.read().strip().replace(",", "-").split("-")[-1]) + 1


class opened:
    """Open a pinned map: `with opened(path) as m`"""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.map = Map(pin_get(self.path))
        return self.map

    def __exit__(self, *error):
        os.close(self.map.fd)


def is_map(path):
    """Return whether the pin is a map. Nothing is read from the pins of programs."""
    fd = pin_get(path)
    try:
        return "map_type" in open(f"/proc/self/fdinfo/{fd}").read()
    finally:
        os.close(fd)


class Datapath:
    """The results of one load: pins in `store`, and the contents of its maps"""

    def __init__(self, store, pin):
        self.store, self.maps = store, {}
        self.harvest(pin)
        for name in os.listdir(store):
            if is_map(f"{store}/{name}"):
                with opened(f"{store}/{name}") as m:
                    restored = m.type in (ARRAY, PERCPU_ARRAY) and m.entries * m.value_bytes <= RESTORED
                    if restored or name == STAGES:
                        self.maps[name] = m.contents()

    def harvest(self, pin):
        """Add pins that the store lacks, such as the maps of a further family."""
        for name in set(os.listdir(pin)) - set(os.listdir(self.store)) - MANAGER:
            copy_pin(f"{pin}/{name}", f"{self.store}/{name}")

    def here(self, pin):
        """Return whether this datapath is pinned there."""
        if not os.path.exists(f"{pin}/{JOBS}"):
            return False
        with opened(f"{pin}/{JOBS}") as there, opened(f"{self.store}/{JOBS}") as ours:
            return there.id == ours.id

    def intact(self):
        """Return whether the program array still has all programs of the load. Families may have been added."""
        with opened(f"{self.store}/{STAGES}") as m:
            return all(before in (None, now) for before, now in zip(self.maps[STAGES], m.contents()))

    def restore(self):
        for name, values in self.maps.items():
            if name != STAGES:
                with opened(f"{self.store}/{name}") as m:
                    for key, value in enumerate(values):
                        if m.get(key) != value:
                            m.put(key, value)

    def give_up(self):
        for name in os.listdir(self.store):
            os.unlink(f"{self.store}/{name}")

    def put(self, pin):
        os.mkdir(pin, 0o700)
        for name in os.listdir(self.store):
            copy_pin(f"{self.store}/{name}", f"{pin}/{name}")


class Shared:
    """One datapath for each choice of options of load"""

    def __init__(self, mount):
        """mount(directory) mounts a BPF filesystem."""
        os.mkdir(STORE)
        mount(STORE)
        self.made, self.loads = {}, 0

    @staticmethod
    def choice(options):
        """Return the load options that belong to the datapath, or None if it cannot be shared."""
        words = [str(o) for o in options]
        pairs = dict(zip(words[::2], words[1::2]))
        pairs.pop("--mode", None)
        return None if len(words) % 2 or set(pairs) - {"--cpus", "--cpu-queue"} else tuple(sorted(pairs.items()))

    def load(self, pin, options, load):
        """Call load(), which runs `fpisa load`, on the pins of an earlier load if possible."""
        choice = self.choice(options)
        if choice is None or os.path.exists(pin):
            return load()
        made = self.made.get(choice)
        if made and not made.intact():
            self.made.pop(choice).give_up()
        elif made:
            made.restore()
            made.put(pin)
            return load()
        load()
        self.loads += 1
        store = f"{STORE}/{self.loads}"
        os.mkdir(store)
        self.made[choice] = Datapath(store, pin)

    def leave(self, pin):
        """Record that a test is over and that its pins will disappear. Return whether the pins belong to a shared datapath."""
        here = [made for made in self.made.values() if made.here(pin)]
        for made in here:
            made.harvest(pin)
        return bool(here)

# SPDX-License-Identifier: GPL-2.0-only
"""Ranks that speak the messages of doc/manager.md without libfpisa and without a key. Their groups only ask for jobs, as fast as
possible."""
import resource
import socket
import struct
import threading
import time

from lab import ADDRESS, COMMAND_S, PORT

BYTES, MAGIC, VERSION = 256, 0x47504d46, 4
JOIN, ASK, BOUND, LEAVE, PENDING, JOINED, BIND, JOB, REFUSED = 1, 3, 4, 5, 17, 18, 19, 20, 23
MOST = 8  # maximum number of jobs of a group
CROWD = 4096 + 44  # more connections than may wait for a group


def message(kind, body=b"", version=VERSION, number=0):
    return (struct.pack("<IHHQ", MAGIC, version, kind, number) + body).ljust(BYTES, b"\0")


def crowd(connect):
    """Make more connections than may wait for a group, each by connect(i)."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, [max(n, 2 * CROWD) for n in files])
    return [connect(i) for i in range(CROWD)]


class Rank:
    """A connection from worker `host` to the manager at `address` that joins a group as a rank"""

    def __init__(self, host, name, rank, size, address):
        with host.entered():
            self.socket = socket.create_connection((address, PORT), COMMAND_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""
        self.join(name, rank, size)

    def join(self, name, rank, size, number=0):
        """Join as the connection's group of this number."""
        self.say(JOIN, name.encode().ljust(64, b"\0") + struct.pack("<IIQQ", size, rank, 0, 0), number)

    def say(self, kind, body, number=0):
        self.socket.sendall(message(kind, body, number=number))

    def next(self):
        """Return the next message."""
        while len(self.unread) < BYTES:
            more = self.socket.recv(4096)
            assert more, "the manager has closed the connection"
            self.unread += more
        m, self.unread = self.unread[:BYTES], self.unread[BYTES:]
        return m

    def hear(self, kind):
        """Return the body of the next message of that kind. Skip other messages, but raise an exception for a refusal."""
        while True:
            m = self.next()
            heard = struct.unpack_from("<H", m, 6)[0]
            assert heard != REFUSED, m[32:].rstrip(b"\0").decode()
            if heard == kind:
                return m[16:]


class Group:
    """All ranks of a group, one on each of these hosts"""

    def __init__(self, hosts, name, address=ADDRESS):
        self.ranks, self.jobs = [Rank(h, name, r, len(hosts), address) for r, h in enumerate(hosts)], 0
        for rank in self.ranks:
            rank.hear(JOINED)

    def job(self, window, form=0, mode=0):
        """Get the next job, with that format and mode. Return its number, its window and the seconds from the last rank's ASK to the last
        JOB."""
        index, self.jobs = self.jobs, self.jobs + 1
        for rank in self.ranks:
            rank.say(ASK, struct.pack("<IIBB6xI", index, 0, form, mode, window))
        began = time.monotonic()
        for rank in self.ranks:
            rank.say(BOUND, struct.pack("<IH", index, struct.unpack_from("<H", rank.hear(BIND), 4)[0]).ljust(16, b"\0"))
        bodies = [rank.hear(JOB) for rank in self.ranks]
        number, = struct.unpack_from("<I", bodies[0], 4)
        window, = struct.unpack_from("<I", bodies[0], 32)
        return number, window, time.monotonic() - began

    def leave(self):
        for rank in self.ranks:
            rank.say(LEAVE, bytes(16))
            rank.socket.close()


def churn(hosts, groups, seconds, address=ADDRESS, window=8):
    """Run `groups` groups at a time at the manager at `address`, which join, take as many jobs as they may have, and leave. Return the seconds of each job."""
    took, failed, end = [], [], time.monotonic() + seconds

    def run(which):
        n = 0
        try:
            while time.monotonic() < end:
                group, n = Group(hosts, f"churn-{which}-{n}", address), n + 1
                took.extend(group.job(window)[2] for _ in range(MOST))
                group.leave()
        except (OSError, AssertionError) as e:
            failed.append(e)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(groups)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed
    return sorted(took)

# SPDX-License-Identifier: GPL-2.0-only
"""A caller that sends an invalid request, or no request, gets an error with the reason. A group that sums meanwhile is not disturbed."""
import collections
import os
import random
import socket
import struct
import threading
import time

import pytest

from groups import Groups
from job_requests import crowd, message
from lab import PORT, SLOW, draw_seed, wait_until

pytestmark = pytest.mark.families(spread=True)

JOIN, RETURN, ASK, BOUND, LEAVE, PING, FAILED, WAITS, JOB = 1, 2, 3, 4, 5, 6, 7, 8, 20
JOINED = 18
NONE = b"the received data is not a message of this protocol; check the address and port"


def join(name, size=1, rank=0, group=0, secret=0):
    return message(JOIN, struct.pack("<64sIIQQ", name, size, rank, group, secret))


def ask(index=0, format=1, mode=0, rounding=0, elements=0, fanout=0, zero=0, window=0):
    return message(ASK, struct.pack("<IIBBBBHBBI", index, 0, format, mode, rounding, 0, elements, fanout, zero, window))


def bound(index, port, taken=0):
    return message(BOUND, struct.pack("<IHH", index, port, taken))


def failed(index, reason=20, ranks=0, text=b"why"):
    return message(FAILED, struct.pack("<IIQ224s", reason, index, ranks, text))


def waits(call):
    return message(WAITS, struct.pack("<QQ", call, 0))


# Each row has the input and the expected answer at the end.
AT_ONCE = [
    (b"GET / HTTP/1.0\r\n\r\n", NONE), (bytes(10**6), NONE), (b"F" + bytes(10**6), NONE),
    (b"\x16" + bytes(1000), b"the manager has no keys"),
    *((message(JOIN, version=v), b"has another version of the protocol") for v in (2, 9)),
    *((message(kind), NONE) for kind in (0, FAILED, WAITS, 9, JOINED, JOB, 65535)),
    (message(JOIN, join(b"a")[16:], number=2**64 - 1), NONE), (join(b""), NONE), (join(b"a b"), NONE), (join(b"a\0b"), NONE),
    (join(b"x" * 64), NONE), (join(b"a", 0), NONE), (join(b"a", 4097), NONE), (join(b"a", 2, 2), NONE),
    (join(b"a", group=1), NONE), (join(b"a")[:-1] + b"\1", NONE),
    (ask(), b"must come first"), (bound(0, 18100), b"must come first"), (message(LEAVE), b"must come first"),
    (failed(0), b"must come first"), (waits(1), b"must come first"),
    (message(RETURN, struct.pack("<64sIIQQ", b"train", 3, 0, 5, 6)), b"the group no longer exists"),
    (join(b"train", 3), b"a group of this name exists, with 3 ranks"),
    (join(b"a", 2) + join(b"a", 2, 1), b"already belongs to a group"),
    *((join(b"a") + wrong, NONE) for wrong in (ask(8), ask(format=99), ask(mode=9), ask(window=7), ask(elements=33), ask(fanout=9), ask(zero=1),
                                              ask(rounding=9), bound(9, 18100), bound(0, 18100, 2), failed(9), failed(0, 19), failed(0, ranks=1),
                                              failed(0, text=b""), failed(0, text=b"\x1b[m"), waits(0))),
    (join(b"a") + ask() + b"".join(bound(0, 18100 + i, 1) for i in range(40)), b"each UDP port"),
]
LATER = [(b"", b"no request for a group arrived within 5 s"), (message(PING), b"no request for a group arrived within 5 s"),
         (join(b"a")[:100], b"only half a message arrived within 5 s")]


def connect(g, host=0):
    with g.net.worker[host].entered():
        return socket.create_connection((g.net.address, PORT), 10 * SLOW)


def send(s, data):
    try:
        s.sendall(data)
    except OSError:
        pass  # the manager has closed the connection
    return s


def last(s):
    """Return the last refusal before the end of the connection."""
    text = b""
    with s:
        while True:
            m = s.recv(256, socket.MSG_WAITALL)
            if not m:
                return text
            assert len(m) == 256 and m[:4] == b"FMPG"
            if struct.unpack_from("<H", m, 6)[0] == 23:
                text = m[32:].rstrip(b"\0")
            if b"each UDP port" in text:
                return text  # after an error about a job, the caller stays connected


def test_all_of_it(lab, tmp_path):
    net, rng = lab(workers=3), random.Random(draw_seed())
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes", "key-groups = 3")
    try:
        g.serve()
        leave = str(tmp_path / "leave")
        ranks = g.group("train", range(3), {"sum": "float32", "times": int(150 * SLOW), "pause": 0.05}, {"until": leave}, {"leave": True})
        later = [(send(connect(g), said), heard) for said, heard in LATER]
        silent = crowd(lambda _: connect(g, 1))
        for said, heard in rng.sample(AT_ONCE, len(AT_ONCE)):
            found = last(send(connect(g), said))
            assert heard in found, (said[:300], heard, found)
        with send(connect(g), join(b"a")[:100]) as half:
            half.shutdown(socket.SHUT_WR)
            assert last(half) == b"only half a message arrived"
        # Test quotas, ranks and sizes with a group whose ranks are still joining.
        with send(connect(g, 2), join(b"q", 3, 0)), send(connect(g, 2), join(b"r", 2, 0)):
            wait_until("both", lambda: {"q", "r"} <= {group["name"] for group in net.json("group", "list")})
            for said, heard in ((join(b"s"), b"raise key-groups"), (join(b"q", 3, 0), b"another process has joined as rank 0"),
                                (join(b"q", 2, 1), b"rank 1 joined with size 2, but the other ranks with size 3")):
                found = last(send(connect(g), said))
                assert heard in found, (heard, found)
        for s, heard in later:
            assert heard in last(s), heard
        for s in silent:
            s.close()
        open(leave, "w").close()
        for rank in ranks:
            assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
        g.empty()
        assert g.manager.poll() is None
    finally:
        g.close()


MANY, STAY = 600, 256  # the number of connections, and of finished connections that the manager keeps


@pytest.mark.parametrize("said, heard", [(join(b"a", 3), 23), (join(b"a") + message(LEAVE), JOINED)], ids=["refused", "left"])
def test_who_does_not_close(groups, said, heard):
    """A peer that was refused, or has left, and does not close its connection gets an error with the reason. Only a limited number of such
    peers keep a descriptor."""
    g = groups(1, "without-key = yes", "size = 2")
    before, kept = len(os.listdir(f"/proc/{g.manager.pid}/fd")), []
    try:
        for _ in range(MANY):
            kept.append(send(connect(g), said))
            assert struct.unpack_from("<H", kept[-1].recv(256, socket.MSG_WAITALL), 6)[0] == heard
        assert len(os.listdir(f"/proc/{g.manager.pid}/fd")) <= before + STAY + 8
        g.group("right", [0], {"leave": True})
    finally:
        for s in kept:
            s.close()


def test_fewer_descriptors(lab, tmp_path):
    """If the manager may open fewer files than it wants, it closes connections without a key, the oldest first, to make room for others."""
    net = lab(workers=2)
    net.load()
    g, kept = Groups(net, str(tmp_path), "without-key = yes"), []
    try:
        g.serve("setpriv", "--bounding-set", "-sys_resource", "prlimit", "--nofile=170:170")
        kept = [connect(g) for _ in range(200)]
        assert b"too many connections that have not asked for a group" in kept[0].recv(256, socket.MSG_WAITALL)
        g.group("right", [1], {"leave": True})
    finally:
        for s in kept:
            s.close()
        g.close()


def test_refused_with_few_descriptors(lab, tmp_path):
    """Ranks still join while a host makes more connections than there are descriptors. All these connections are refused."""
    net = lab(workers=2)
    net.load()
    g, held, over = Groups(net, str(tmp_path), "without-key = yes"), collections.deque(), threading.Event()

    def flood():
        while not over.is_set():
            if len(held) == 200 and held[0][0] + 2.1 < time.monotonic():
                held.popleft()[1].close()
            if len(held) < 200:
                held.append((time.monotonic(), send(connect(g), b"x")))
            else:
                time.sleep(0.002)

    flooder = threading.Thread(target=flood)
    try:
        g.serve("setpriv", "--bounding-set", "-sys_resource", "prlimit", "--nofile=170:170")
        flooder.start()
        wait_until("as many connections as there may be", lambda: len(held) == 200)
        for i in range(5):
            g.group(f"right{i}", [1], {"leave": True})
    finally:
        over.set()
        flooder.join()
        for _, s in held:
            s.close()
        g.close()

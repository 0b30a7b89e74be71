# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa query worker` serves masters that have a key, whatever other clients do, and reports the limit at which it refuses a client."""
import contextlib
import fcntl
import os
import re
import selectors
import signal
import socket
import subprocess
import threading
import time

import pytest

import foreign
from foreign import Workers
from lab import FPISA, SLOW, children, once_within, wait_until

HELD = 512  # connections without a key
GREETING_S = 5  # time until a connection without a key is closed
ROWS = 200_000  # more than sockets and queues hold, so a scan lasts until its rows are read


@pytest.fixture
def worker():
    """Return a function that starts a worker on the loopback interface: worker(*options, stderr=..., before=...). The worker has a table
    `t` of two rows and a table `long`."""
    with contextlib.ExitStack() as stack:
        def make(*options, **how):
            w = Workers(1, *options, **how)
            stack.callback(w.close)
            w.table("t", ["k int32 not null", "v real"], [(1, 1.0), (2, 2.0)])
            w.table("long", ["k int32 not null", "v real"], [(i, 1.0) for i in range(ROWS)])
            return w
        yield make


def argv(w, table="t"):
    return [FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, "--prune", "none", "--timeout", str(int(20 * SLOW))]


def ask(w):
    """Check that the worker answers."""
    p = subprocess.run(argv(w), capture_output=True, text=True)
    assert (p.returncode, p.stdout) == (0, "k,v\n1,1.0\n2,2.0\n"), p.stderr


def test_one_port_on_one_host(worker):
    """A master refuses a worker on its own host that is to open the master's UDP port, before the worker waits for this port."""
    w, ports = worker(), foreign.free_ports(2)
    for local, there in ((ports[0], ports[0]), (ports[0], ports[1])):
        p = subprocess.run([*argv(w)[:-4], "--by", "k", "--value", "v", "--prune", "network", "--aggregator", "127.0.0.1", "--query", "5",
                            "--timeout", "1", "--local-port", str(local), "--worker-port", str(there)], capture_output=True, text=True)
        assert p.returncode == 1 and p.stderr.count("\n") == 1, p.stderr
        said = f"is on the master's host, so it needs another UDP port than the master's {local}; give --local-port"
        assert (said in p.stderr) == (local == there), p.stderr


def connect(w, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", w.ports[0]), 20 * SLOW, (source, 0))


def ended(s):
    """Return whether the worker has closed the connection."""
    s.settimeout(0)
    try:
        return not s.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def log(w, pattern, stop):
    """Kill the worker. Return its log, which must match the pattern."""
    end = w.processes[0]
    stop.set()
    end.kill()
    said = end.stderr.read()
    assert re.search(pattern, said), said[-2000:]
    return said


def test_silent_connections(worker):
    """Hosts share the places for silent connections, and a new connection replaces the oldest. A master is still served. A silent
    connection starts no process."""
    w = worker(stderr=subprocess.PIPE)
    others = [connect(w, f"127.0.0.{i}") for i in range(2, 12)]
    held = [connect(w) for _ in range(HELD + 40)]
    wait_until("the oldest have given way", lambda: all(map(ended, held[:50])))
    assert not any(map(ended, others)) and not any(map(ended, held[51:]))
    assert not children(w.processes[0].pid)
    ask(w)
    stop = threading.Event()

    def hold():
        """Keep the number of connections constant by opening a new connection for each that ends."""
        with selectors.DefaultSelector() as sel:
            for s in held[51:]:
                sel.register(s, selectors.EVENT_READ)
            while not stop.is_set():
                for key, _ in sel.select(0.1):
                    sel.unregister(key.fileobj)
                    key.fileobj.close()
                    s = connect(w)
                    held.append(s)
                    sel.register(s, selectors.EVENT_READ)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        for _ in range(10):
            ask(w)
            time.sleep(0.2)
    finally:
        stop.set()
        thread.join()
    log(w, r"query worker: 512 connections have not shown a key, which is the limit; the oldest of 127\.0\.0\.1, which has 50\d, is closed",
        stop)
    for s in held + others:
        s.close()


def test_few_descriptors(worker):
    """If the worker may open fewer files than it wants, new connections still replace silent connections, and a master need not wait for a
    timeout."""
    w = worker(before=("setpriv", "--bounding-set", "-sys_resource", "prlimit", "--nofile=150:150"))

    def gives_way():
        """Return the time after which the oldest connections have given way."""
        held = [connect(w, "127.0.0.2") for _ in range(250)]
        began = time.monotonic()
        wait_until("the oldest have given way", lambda: all(map(ended, held[:80])))
        took = time.monotonic() - began
        ask(w)
        there = not ended(held[-1])
        for s in held:
            s.close()
        return took if there else GREETING_S

    once_within(GREETING_S / 2, gives_way)


@pytest.mark.parametrize("said", [b"G", b"\x16\x03\x01\x02\x00", b""])
def test_floods(worker, said):
    """Connections that send garbage, half a handshake or nothing do not stop service to a master on another host, and the log stays
    short."""
    w = worker(stderr=subprocess.PIPE)
    stop, made = threading.Event(), [0]

    def flood():
        kept = []
        while not stop.is_set():
            with contextlib.suppress(OSError):
                s = connect(w, "127.0.0.2")
                kept.append(s)
                s.sendall(said)
                made[0] += 1
            if len(kept) > 700:
                kept.pop(0).close()
        for s in kept:
            s.close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        wait_until("a flood", lambda: made[0] > 1000)
        for _ in range(5):
            ask(w)
        wait_until("more of it", lambda: made[0] > 3000)
    finally:
        stop.set()
        thread.join()
    lines = log(w, "^fpisa: query worker: ", stop).splitlines()
    assert len(lines) < 100, len(lines)


def test_stderr_that_nobody_reads(worker):
    """A stderr that nobody reads stops neither the worker nor a scan, and the log counts the lines that it left out."""
    r, to = os.pipe()
    w = worker(stderr=to)
    fcntl.fcntl(to, fcntl.F_SETFL, os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(to, b"x" * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(to, b"x")
    fcntl.fcntl(to, fcntl.F_SETFL, 0)
    for _ in range(100):
        with connect(w) as s:
            s.sendall(b"G")
            assert s.recv(1000)
    p = subprocess.run(argv(w, "none"), capture_output=True, text=True)
    assert p.returncode == 1 and "table none does not exist on this worker" in p.stderr
    ask(w)
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_NONBLOCK)
    text = b""
    with contextlib.suppress(BlockingIOError):
        while True:
            text += os.read(r, 65536)
    fcntl.fcntl(r, fcntl.F_SETFL, 0)
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(r, 1)
    assert re.match(rb"\d+ lines were dropped\n", line) and int(line.split()[0]) >= 101, line
    # The worker also survives when the reader closes its end.
    os.close(r)
    os.close(to)
    with connect(w) as s:
        s.sendall(b"G")
        assert s.recv(1000)
    ask(w)


def test_scans(worker):
    """A master beyond a limit gets an error that names the limit. A master that only has to wait until a scan ends is served."""
    w = worker("--scans", "2")
    running = [subprocess.Popen(argv(w, "long"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        for p in running:
            assert p.stdout.readline() == b"k,v\n"
        # Every refused master gets an error before its connection closes, whether the worker refuses at once or after a wait.
        many = [subprocess.Popen(argv(w), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(12)]
        assert {p.communicate()[1] for p in many} == {
            f"fpisa: query run: worker 127.0.0.1:{w.ports[0]}: the worker serves 2 scans already; try again, or start the worker with --scans N\n"}
        late = subprocess.Popen(argv(w), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.kill(running[0].pid, signal.SIGKILL)
        out, err = late.communicate()
        assert late.returncode == 0, err
        assert out == "k,v\n1,1.0\n2,2.0\n"
        assert len(children(w.processes[0].pid)) <= 2
    finally:
        for p in running:
            p.kill()
            p.wait()
            p.stdout.close()
    # A new scan may start as soon as another scan has ended, because ended scans do not count towards the limit.
    for _ in range(30):
        ask(w)

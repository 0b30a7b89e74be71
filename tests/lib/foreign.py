# SPDX-License-Identifier: GPL-2.0-only
"""Run workers of queries on the loopback interface of this network namespace, and make foreign tables of PostgreSQL over them."""
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile

from postgres import BUILD, Failed
from queries import last_key, write_table

FPISA = os.path.join(BUILD, "fpisa")


def free_ports(n):
    """Return n different free ports. All ports are held until all are known, so none is returned twice."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


class Workers:
    """`n` worker processes, each with its own directory, started through the command `before`"""

    def __init__(self, n, *options, stderr=subprocess.DEVNULL, before=()):
        self.options, self.stderr, self.before = options, stderr, before
        self.folder = tempfile.mkdtemp(prefix="fpisa-workers-")
        self.key_file = os.path.join(self.folder, "keys")
        self.processes, self.ports = [None] * n, free_ports(n)
        try:
            subprocess.run([FPISA, "key", "new", "queries", self.key_file], check=True, stdout=subprocess.DEVNULL)
            self.key = last_key(self.key_file)
            for rank in range(n):
                os.mkdir(self.directory(rank))
                self.serve(rank)
        except BaseException:
            self.close()
            raise

    def directory(self, rank):
        return os.path.join(self.folder, str(rank))

    def serve(self, rank):
        p = self.processes[rank] = subprocess.Popen(
            [*self.before, FPISA, "query", "worker", self.directory(rank), "--key", self.key_file, "--listen", "127.0.0.1", "--port",
             str(self.ports[rank]), *self.options], stdout=subprocess.PIPE, stderr=self.stderr, stdin=subprocess.DEVNULL, text=True)
        said = p.stdout.readline()
        assert said.startswith("serving "), said

    def kill(self, rank):
        self.processes[rank].kill()
        self.processes[rank].wait()

    @property
    def addresses(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def table(self, name, schema, rows, form="csv"):
        """Deal a table's rows out to the workers in turn."""
        for rank, _ in enumerate(self.processes):
            write_table(self.directory(rank), name, schema, rows[rank::len(self.processes)], form)

    def clear(self):
        """Drop all tables."""
        for rank, _ in enumerate(self.processes):
            for entry in os.scandir(self.directory(rank)):
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)

    def close(self):
        for p in self.processes:
            if p:
                p.kill()
                p.wait()
                p.stdout.close()
                if p.stderr:
                    p.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def server_sql(workers, name="far", options=""):
    """Return the statements that create the server and its user mapping."""
    return f"""CREATE SERVER {name} FOREIGN DATA WRAPPER fpisa OPTIONS (workers '{workers.addresses}'{options});
CREATE USER MAPPING FOR CURRENT_USER SERVER {name} OPTIONS (key '{workers.key}');"""


def fails(server, text, database="postgres"):
    """Run statements that must fail. Return their error."""
    try:
        server.sql(text, database)
    except Failed as e:
        return str(e)
    raise AssertionError(f"the statements did not fail: {text}")

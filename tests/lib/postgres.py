# SPDX-License-Identifier: GPL-2.0-only
"""A private PostgreSQL with the extension, for tests/postgres and bench/sum.py

The server's programs are copied into a directory, where they look for all other files beside them. Its libraries and scripts are links, and
`make install-postgres` puts the extension there. The machine's PostgreSQL is not changed, and no privilege is needed. Root becomes the user
postgres, because the server does not run as root.
"""
import ctypes
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
# The pg_config of the server for which `make postgres` has built the extension
PG_CONFIG = os.environ.get("PG_CONFIG") or os.path.realpath(os.path.join(BUILD, "postgres", "pg_config"))
PROGRAMS = ("postgres", "initdb")
START_S = 120
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None)


class Failed(Exception):
    """The message of a failed statement or program"""


@functools.cache
def where(name):
    """Return a directory of the machine's PostgreSQL."""
    return subprocess.run([PG_CONFIG, f"--{name}"], text=True, capture_output=True, check=True).stdout.strip()


def lacking():
    """Return the reason why no server can run here, or None."""
    if not os.path.exists(PG_CONFIG):
        return "the extension is not built: postgresql-server-dev-N is not installed; run make deps, then make postgres"
    if not all(os.path.exists(os.path.join(where("bindir"), p)) for p in PROGRAMS):
        return f"the server of {PG_CONFIG} is not installed; run apt install postgresql, then make postgres"
    try:
        user()
    except KeyError:
        return "the user postgres does not exist, and the server cannot run as root; run adduser --system postgres"
    return None


def user():
    """Return the arguments of subprocess for a user that may run the server."""
    if os.geteuid():
        return {}
    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def link_all(source, place):
    """Make a directory, with its parents, that has a link to each entry of another directory."""
    os.makedirs(place)
    for name in os.listdir(source):
        os.symlink(os.path.join(source, name), os.path.join(place, name))


class Server:
    """A server that runs until close(). All its files are below `home`. The extension comes from the build, or from a package unpacked in
    `files`."""

    def __init__(self, files=None, **settings):
        self.files = files
        self.home = tempfile.mkdtemp(prefix="fpisa-postgres-")
        self.process = None
        try:
            self.install()
            self.start(settings)
        except BaseException:
            self.close()
            raise

    def place(self, name):
        """Return the private directory that replaces one of the machine's directories."""
        return self.home + "/root" + where(name)

    def install(self):
        os.makedirs(self.place("bindir"))
        for name in PROGRAMS:
            shutil.copy(os.path.join(where("bindir"), name), self.place("bindir"))
        link_all(where("pkglibdir"), self.place("pkglibdir"))
        link_all(where("sharedir"), self.place("sharedir"))
        os.unlink(self.place("sharedir") + "/extension")
        link_all(where("sharedir") + "/extension", self.place("sharedir") + "/extension")
        if self.files:
            self.must(["cp", "-rT", "--remove-destination", self.files, self.home + "/root"])
        else:
            env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
            self.must(["make", "-s", "-C", TOP, "install-postgres", f"B={BUILD}", f"DESTDIR={self.home}/root",
                       f"PG_CONFIG={PG_CONFIG}"], env=env)
        os.makedirs(self.home + "/data", mode=0o700)
        if not os.geteuid():
            for path in (self.home, self.home + "/data"):
                os.chown(path, user()["user"], user()["group"])

    def must(self, argv, **options):
        p = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
        if p.returncode:
            raise Failed(f"{' '.join(argv)}: status {p.returncode}\n{p.stdout[-4000:]}")
        return p.stdout

    def start(self, settings):
        postgres, initdb = (os.path.join(self.place("bindir"), p) for p in PROGRAMS)
        self.must([initdb, "-D", self.home + "/data", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--no-locale"],
                  cwd=self.home, **user())
        argv = [postgres, "-D", self.home + "/data", "-k", self.home]
        for name, value in {"listen_addresses": "", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
                            "autovacuum": "off", "max_wal_size": "8GB", **settings}.items():
            argv += ["-c", f"{name}={value}"]
        with open(self.home + "/log", "w") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, **user(),
                                            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT))
        until = time.monotonic() + START_S
        while True:
            try:
                return self.sql("SELECT 1", "postgres")
            except Failed as e:
                if self.process.poll() is not None or time.monotonic() > until:
                    with open(self.home + "/log") as log:
                        raise Failed(f"the server did not start: {e}\n{log.read()[-4000:]}") from None
            time.sleep(0.1)

    def env(self):
        return {**os.environ, "PGHOST": self.home, "PGUSER": "postgres", "PGDATABASE": "postgres"}

    def psql(self, *options, text=None):
        """Return the output of psql, unaligned. Raise Failed with the first error."""
        p = subprocess.run([os.path.join(where("bindir"), "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", *options], input=text,
                           text=True, capture_output=True, env=self.env())
        if p.returncode:
            raise Failed(p.stderr.strip())
        return p.stdout

    def sql(self, text, database="postgres"):
        """Run statements in one session. Return the rows as tuples of text."""
        return [tuple(row.split("|")) for row in self.psql("-d", database, "-f", "-", text=text).splitlines()]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

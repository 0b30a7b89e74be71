# SPDX-License-Identifier: GPL-2.0-only
"""Test the Debian packages in a clean root: install, use, upgrade while a job runs, remove, purge. Each test continues from the previous
test, in this order, in one root."""
import glob
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

import guide
import install
import interfaces
import mpi as mpis
import postgres
import root as roots
from groups import Groups
from lab import ADDRESS, mount_tree, setting, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "..", ".."))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
PLACE = os.path.join(BUILD, "package")

OLD = interfaces.setting("VERSION")
NEW = OLD + "+upgrade1"
PACKAGES = ("fpisa", "fpisa-query", "fpisa-lab", "libfpisa1", "libfpisa-query1", "libfpisa-dev")
INCLUDED = ["apt", "bpftool", "ethtool", "gcc", "iproute2", "libc6-dev", "pkg-config"]
CONFIG = """[interface p0]
[interface p1]
[job 7]
workers = {}
address = {}
"""


def tree(top, *without):
    """Return every file below `top` with its kind."""
    found = {}
    for d, dirs, files in os.walk(top):
        dirs[:] = [n for n in dirs if os.path.relpath(os.path.join(d, n), top) not in without]
        for n in dirs + files:
            path = os.path.join(d, n)
            st = os.lstat(path)
            found[os.path.relpath(path, top)] = (st.st_mode, st.st_size if n in files else 0)
    return found


def sh(*argv, **options):
    p = subprocess.run([str(a) for a in argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    assert p.returncode == 0, f"{' '.join(map(str, argv))}: status {p.returncode}\n{p.stdout[-4000:]}"
    return p.stdout


class Root:
    """A root directory with Debian, and the two versions of the packages"""

    def __init__(self, path):
        self.path = path

    def run(self, *argv, **options):
        return sh("chroot", self.path, *argv, stdin=subprocess.DEVNULL,
                  env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, **options)

    def install(self, version, commands=("dpkg -i ./*.deb",)):
        """Run `commands` in a directory that has the packages."""
        here = os.path.join(self.path, "tmp", "packages")
        os.mkdir(here)
        try:
            for name in PACKAGES:
                shutil.copy(os.path.join(PLACE, "deb", f"{name}_{version}_amd64.deb"), here)
            for c in commands:
                self.run("sh", "-ec", "cd /tmp/packages; " + c)
        finally:
            shutil.rmtree(here)

    def state(self):
        """Return all files and objects that a package could leave behind."""
        own = ("proc", "sys", "dev", "tmp", "run", "var/lib/apt", "var/lib/dpkg", "var/log", "var/cache", "etc/ld.so.cache")
        return {p: what for p, what in tree(self.path, *own).items() if p not in own}

    def unit(self, *names):
        """Return the command lines of the installed unit."""
        with open(self.path + "/lib/systemd/system/fpisa.service") as f:
            return [shlex.split(c) for name, c in re.findall(r"^(Exec\w+)=(.*)$", f.read(), re.M) if name in names]


def libraries():
    """Return the packages of the program's libraries, by their names in this release."""
    depends = sh("dpkg-query", "-W", "-f", "${Depends}\n", "libbpf-dev", "libjson-c-dev", "libgmp-dev", "libmnl-dev")
    return re.findall(r"\blib(?:bpf|json-c|gmp|mnl)\d+\w*", depends)


def renumber(folder, work):
    """Make packages of version NEW from those of OLD, with other version numbers, a program that prints its own version, and a library with
    another name. So the tree is built only once."""
    program = os.path.join(work, "program")
    objects = os.path.join(BUILD, "obj", "user")
    sh("gcc", "-std=gnu11", "-O2", "-Iinclude", "-Iuser", f"-I{BUILD}", f'-DFPISA_VERSION_STRING="{NEW}"', "user/main.c", "user/cli/verb.c",
       *[os.path.join(objects, n[:-2] + ".o") for n in glob.glob("*/**/*.c", root_dir=os.path.join(TOP, "user"), recursive=True)
         if not n.startswith(("lib/", "query/", "lab/")) and n != "cli/verb.c"],
       os.path.join(BUILD, "libfpisa.a"), *"-lbpf -lmnl -ljson-c -lgmp -lpthread -lm".split(), "-o", program, cwd=TOP)
    for name in PACKAGES:
        top = os.path.join(work, name)
        sh("dpkg-deb", "-R", os.path.join(folder, f"{name}_{OLD}_amd64.deb"), top)
        if name == "fpisa":
            sh("install", "-m", "755", program, top + "/usr/sbin/fpisa")
        if name == "libfpisa1":
            library, = [os.path.join(d, f) for d, _, files in os.walk(top) for f in files if f.endswith(".so." + OLD)]
            os.rename(library, library.removesuffix(OLD) + NEW)
            link = os.path.join(os.path.dirname(library), "libfpisa.so.1")
            os.unlink(link)
            os.symlink("libfpisa.so." + NEW, link)
        with open(top + "/DEBIAN/control", encoding="utf-8") as f:
            control = re.sub(rf"(Version: |\(= ){re.escape(OLD)}\b", rf"\g<1>{NEW}", f.read())
        with open(top + "/DEBIAN/control", "w", encoding="utf-8") as f:
            f.write(control)
        sh("dpkg-deb", "--root-owner-group", "-Znone", "-b", top, os.path.join(folder, f"{name}_{NEW}_amd64.deb"))


@pytest.fixture(scope="session")
def debs(tmp_path_factory):
    """Make the first version with `make deb` and the other version from it, and make the root at the same time."""
    for tool in ("dpkg-buildpackage", "dh", "mmdebstrap", "lintian"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed; make test installs it")
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    before = set(tree(TOP, ".git", os.path.relpath(BUILD, TOP)))
    with roots.making(os.path.join(PLACE, "root"), roots.mirror()[1], "essential", INCLUDED + libraries()):
        sh("make", "deb", f"B={BUILD}", f"VERSION={OLD}", f"DEB={PLACE}/deb", cwd=TOP)
        renumber(os.path.join(PLACE, "deb"), tmp_path_factory.mktemp("new"))
        assert set(tree(TOP, ".git", os.path.relpath(BUILD, TOP))) == before
    yield os.path.join(PLACE, "deb")
    shutil.rmtree(PLACE, ignore_errors=True)


@pytest.fixture(scope="session")
def root(mounts, debs):
    """Return the root. Its mounts end with the mount namespace."""
    r = Root(os.path.join(PLACE, "root"))
    mount_tree("/proc", r.path + "/proc")
    yield r
    sh("umount", "-R", r.path + "/proc")


@pytest.fixture(scope="session")
def fresh(root):
    return root.state()


def test_lintian(debs):
    out = sh("lintian", "--allow-root", "--fail-on", "error", os.path.join(debs, f"fpisa_{OLD}_amd64.changes"))
    assert not re.findall(r"^[EW]: .*", out, re.M), out


def test_postgres(debs, tmp_path):
    """The extension of the package works in a private server."""
    name = f"postgresql-{setting('PG_VERSION')}-fpisa"
    package = os.path.join(debs, f"{name}_{OLD}_amd64.deb")
    why = postgres.lacking() if os.path.exists(package) else "no such package: postgresql-server-dev-N is not installed; make test installs it"
    if why:
        pytest.skip(why)
    assert name.removesuffix("-fpisa") in sh("dpkg-deb", "-f", package, "Depends")
    sh("dpkg-deb", "-x", package, tmp_path)
    assert os.path.exists(os.path.join(tmp_path, "usr", "share", "doc", name, "postgres.md.gz"))
    server = postgres.Server(files=str(tmp_path))
    try:
        assert server.sql("CREATE EXTENSION fpisa; SELECT fpisa_sum(x) FROM (VALUES (1e30::real), (1), (-1e30)) t(x)") == [("1",)]
    finally:
        server.close()


def test_python(debs, tmp_path):
    """The package for Debian's Python works with the library's package."""
    for name in f"libfpisa1_{OLD}_amd64", f"python3-fpisa_{OLD}_amd64":
        sh("dpkg-deb", "-x", os.path.join(debs, name + ".deb"), tmp_path)
    assert "python3-numpy" in sh("dpkg-deb", "-f", os.path.join(debs, name + ".deb"), "Depends")
    for path in "python3-fpisa/python.md.gz", "python3-fpisa/examples/regression.py":
        assert os.path.exists(tmp_path / "usr/share/doc" / path)
    program = ("import fpisa, numpy\nassert fpisa.sum([1e100, 1, -1e100]) == 1\nwith fpisa.Mem(2) as m:\n    assert all((s == 2).all() for s, _ in "
               "m.run(lambda h: h.allreduce(numpy.ones(9, 'float32'))))\nprint(fpisa.__file__)")
    out = sh(sys.executable, "-B", "-c", program, env=places(tmp_path))
    assert out.startswith(str(tmp_path))


def test_torch(debs, tmp_path):
    """The backend of the package loads and registers itself."""
    package = os.path.join(debs, f"python3-fpisa-torch_{OLD}_amd64.deb")
    if not os.path.exists(package):
        pytest.skip("no such package: libtorch-dev is not installed; make test installs it")
    depends = sh("dpkg-deb", "-f", package, "Depends")
    assert all(f"{name} " in depends + " " or f"{name}," in depends for name in ("libfpisa1", "python3-fpisa", "python3-torch"))
    for name in f"libfpisa1_{OLD}_amd64", f"python3-fpisa_{OLD}_amd64", f"python3-fpisa-torch_{OLD}_amd64":
        sh("dpkg-deb", "-x", os.path.join(debs, name + ".deb"), tmp_path)
    program = "import fpisa.torch, torch.distributed as d; print(d.Backend('fpisa').lower(), fpisa.torch._backend.__file__)"
    out = sh(sys.executable, "-B", "-c", program, env=places(tmp_path))
    assert out.splitlines()[-1].startswith(f"fpisa {tmp_path}")


def places(root):
    """Return the environment variables that lead to packages unpacked in `root`."""
    library, = glob.glob(f"{root}/usr/lib/*/libfpisa.so.1")
    return {**os.environ, "PYTHONPATH": f"{root}/usr/lib/python3/dist-packages", "FPISA_LIBRARY": library}


@pytest.mark.parametrize("mpi", mpis.MPIS)
def test_mpi(debs, tmp_path, lab, mpi):
    """The package's example runs with the package's library."""
    package = os.path.join(debs, f"libfpisa-mpi-{mpi}_{OLD}_amd64.deb")
    why = mpis.lacking(mpi) if os.path.exists(package) else "no such package: libopenmpi-dev or libmpich-dev is not installed; make test installs it"
    if why:
        pytest.skip(why)
    assert re.search(rf"\blib{mpi}\d", sh("dpkg-deb", "-f", package, "Depends"))
    sh("dpkg-deb", "-x", package, tmp_path)
    doc = os.path.join(tmp_path, "usr", "share", "doc", f"libfpisa-mpi-{mpi}")
    assert os.path.exists(os.path.join(doc, "mpi.md.gz"))
    library, = glob.glob(os.path.join(tmp_path, "usr", "lib", "*", "fpisa", mpi, "libfpisa-mpi.so"))
    net = lab(workers=1)
    net.load()
    groups = Groups(net, str(tmp_path), "without-key = yes")
    groups.serve()
    try:
        program = mpis.compiled(mpi, os.path.join(doc, "examples", "norm.c"), str(tmp_path))
        out, err = mpis.run(net.worker[0], mpi, 2, str(tmp_path), program, preload=library, FPISA_MANAGER=ADDRESS)
    finally:
        groups.close()
    assert out == "length 84.853, largest 4.0\n" and "fpisa: " not in err


def pages_commands(section, place):
    """Return the guide's commands."""
    return [b.text for b in guide.blocks() if b.section == section and b.place == place]


def test_guide_s_build():
    """The guide's build commands run. The fixture `debs` runs the last command. The first has no effect if no package is missing."""
    assert "".join(pages_commands(1, "the machine that builds")) == "make deps\nmake deb\n"
    if sh("debian/deps", "--missing", *setting("PACKAGES").split(), cwd=TOP).strip():
        pytest.skip("packages are missing here; make test installs it")
    sh("make", "deps", cwd=TOP)


def test_install(root, fresh):
    commands = pages_commands(1, "the aggregator") + pages_commands(1, "each worker")
    assert len(commands) == 2 and all(c.startswith("apt install -y ./") for c in commands)
    root.install(OLD, commands)
    with open(guide.EXAMPLE) as ours, open(root.path + "/usr/share/doc/libfpisa-dev/examples/allreduce.c") as theirs:
        assert theirs.read() == ours.read()
    for package in set(re.findall(r"\./([\w-]+)_", "".join(commands))):
        with gzip.open(f"{root.path}/usr/share/doc/{package}/NEWS.md.gz", "rt") as news:
            assert f"## {OLD}" in news.read()
    assert root.run("dpkg", "--audit") == "" and root.run("apt-get", "check")
    assert root.run("fpisa", "--version") == f"fpisa {OLD}\n"
    out = root.run("fpisa", "config", "check")
    assert out == "/etc/fpisa/fpisa.conf: no errors; interfaces: 0, jobs: 0\n"
    enabled = [os.path.basename(p) for p in glob.glob(root.path + "/etc/systemd/system/*/fpisa*.service")]
    assert enabled == ["fpisa.service"]
    for command in root.unit("ExecStart", "ExecReload"):
        assert "no errors" in root.run(command[0], "config", "check")
    for path in ("usr/share/man/man8/fpisa.8.gz", "usr/share/man/man7/fpisa-wire.7.gz", "usr/share/man/man3/libfpisa.3.gz",
                 "usr/share/man/man3/fpisa_connect.3.gz", "usr/lib/x86_64-linux-gnu/fpisa/fpisa.o"):
        assert os.path.getsize(os.path.join(root.path, path)) > 1000, path
    assert root.run("bash", "-c", "COMP_WORDS=(fpisa jo); COMP_CWORD=1; . /usr/share/bash-completion/completions/fpisa; "
                                  "_fpisa; echo ${COMPREPLY[@]}") == "job\n"


def test_scripts_of_the_manager_s_unit(debs, tmp_path):
    """An upgrade restarts the manager's unit without a stop before. A removal stops the unit before it removes the datapath."""
    sh("dpkg-deb", "-e", os.path.join(debs, f"fpisa_{OLD}_amd64.deb"), tmp_path)
    script = {p.name: p.read_text() for p in tmp_path.iterdir()}
    restart = r"_dh_action=restart\n.*\n.*_dh_action=start\n\s*fi\n\s*deb-systemd-invoke \$_dh_action '?fpisa-manager.service"
    assert re.search(restart, script["postinst"])
    assert re.search(r"= remove \].*\n\s*deb-systemd-invoke stop '?fpisa-manager.service(.*\n)*\tfpisa unload", script["prerm"])
    assert "manager" not in script.get("preinst", "")


@pytest.mark.parametrize("unit", ["fpisa", "fpisa-manager"])
def test_unit_verifies(root, tmp_path, unit):
    """This machine's systemd accepts the unit with the commands of the root. Messages about targets do not count, because the root lacks
    the targets."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    with open(f"{root.path}/lib/systemd/system/{unit}.service") as f:
        (tmp_path / f"{unit}.service").write_text(f.read().replace("=/usr/", f"={root.path}/usr/"))
    p = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / f"{unit}.service"], text=True,
                       capture_output=True)
    said = [line for line in p.stderr.splitlines() if "fpisa" in line]
    assert p.returncode == 0 and not said, said


@pytest.mark.parametrize("how", ["shared", "static"])
def test_program_against_the_library(root, how):
    """A user's program compiles with pkg-config alone."""
    source = install.PROGRAM
    with open(root.path + "/tmp/p.c", "w") as f:
        f.write(source)
    flags = root.run("pkg-config", "--cflags", "--libs", "libfpisa").split()
    if how == "static":
        flags = ["-static", *root.run("pkg-config", "--static", "--cflags", "--libs", "libfpisa").split()]
    root.run("gcc", "-Wall", "-Werror", "/tmp/p.c", "-o", "/tmp/p", *flags)
    assert root.run("/tmp/p").strip() == "1 2.5 -3 0 1e-30"
    assert root.run("pkg-config", "--modversion", "libfpisa").strip() == OLD


def test_restart_and_upgrade_under_traffic(root, lab):
    """Run the unit's commands twice, then install a new version of the packages. No sum is wrong, and the job continues."""
    net = lab()
    mount_tree("/sys", root.path + "/sys")
    try:
        run = lambda *argv: net.agg.run("chroot", root.path, *argv)	 # noqa: E731
        shutil.copy(os.path.join(HERE, "worker.c"), root.path + "/tmp/worker.c")
        flags = root.run("pkg-config", "--cflags", "--libs", "libfpisa").split()
        root.run("gcc", "-O2", "-Wall", "-Werror", "/tmp/worker.c", "-o", "/tmp/worker", *flags)
        with open(root.path + "/etc/fpisa/fpisa.conf", "w") as f:
            f.write(CONFIG.format(",".join(net.addresses), ADDRESS))
        start, = root.unit("ExecStart")
        reload_, = root.unit("ExecReload")
        assert run(*start).splitlines() == ["p0: loaded", "p1: loaded", "job 7: created"]
        procs = [w.spawn("chroot", root.path, "/tmp/worker", ADDRESS, "7", "/tmp/stop") for w in net.worker]
        results = lambda: int(re.search(r'"v_result": (\d+)', run("fpisa", "stats", "7", "--json"))[1])	# noqa: E731
        generation = lambda: re.search(r'"generation": (\d+)', run("fpisa", "job", "list", "--json"))[1]  # noqa: E731
        wait_until("sums", lambda: results() > 100)
        before = generation()
        goes_on = ["p0: already loaded", "p1: already loaded", "job 7: already running, with ranks 0,1"]

        def traffic_goes_on():
            now = results()
            wait_until("sums after this", lambda: results() > now)

        for command in (start, reload_):
            assert run(*command).splitlines() == goes_on
            traffic_goes_on()
        root.install(NEW)
        assert run("fpisa", "--version") == f"fpisa {NEW}\n"
        for command in (start, ["fpisa", "upgrade"], start):
            out = run(*command).splitlines()
            assert out == (goes_on if command is start else [])
            traffic_goes_on()
        assert generation() == before
        open(root.path + "/tmp/stop", "w").close()
        for p in procs:
            out, err = p.communicate(timeout=60)
            assert p.returncode == 0, (out, err)
            assert re.fullmatch(r"\d+ calls, 0 mismatches\n", out), out
        run("fpisa", "unload")
        with open(root.path + "/etc/fpisa/fpisa.conf") as f:
            assert "[job 7]" in f.read()
    finally:
        sh("umount", "-R", root.path + "/sys")


def test_remove_and_purge(root, fresh):
    assert pages_commands(10, "the aggregator")[-1] == "apt remove -y fpisa\n"
    root.run("sh", "-ec", pages_commands(10, "the aggregator")[-1])
    root.run("dpkg", "--remove", *PACKAGES)
    left = {p for p in root.state() if p not in fresh}
    assert {p for p in left if not p.startswith(("etc/systemd", "var/lib/systemd"))} == {"etc/fpisa", "etc/fpisa/fpisa.conf"}
    root.run("dpkg", "--purge", *PACKAGES)
    after = root.state()
    assert {p for p in after if after[p] != fresh.get(p)} == set() and set(after) == set(fresh)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Use the installed library as a user would. `make install` installs into a separate root. A program is compiled and linked with pkg-config
alone against the shared library, and its result is checked. Also check the versions of the exported symbols, and that nothing is left after
`make uninstall`.

    tests/package/install.py BUILD
"""

import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = r"""
#include <fpisa.h>
#include <stdio.h>
int main(void)
{
	struct fpisa_mem_options o = { .size = sizeof(o), .workers = 1 };
	float v[5] = { 1, 2.5f, -3, 0, 1e-30f };
	struct fpisa_mem *m;
	struct fpisa *f;

	if (fpisa_mem_create(&m, &o) || fpisa_mem_connect(&f, m, 0, NULL) ||
	    fpisa_allreduce(f, v, v, 5, FPISA_FLOAT32, NULL)) {
		fprintf(stderr, "%s\n", fpisa_error());
		return 1;
	}
	printf("%g %g %g %g %g\n", v[0], v[1], v[2], v[3], v[4]);
	fpisa_close(f);
	fpisa_mem_destroy(m);
	return 0;
}
"""


QUERY = r"""
#include <fpisa-query.h>
#include <stdio.h>
int main(void)
{
	struct fpisa_query_options o = { .size = sizeof(o), .table = "t" };
	struct fpisa_query *q;

	if (!fpisa_query_open(&q, &o))
		return 1;
	puts(fpisa_query_error());
	return 0;
}
"""


def run(*argv, **kw):
    p = subprocess.run(argv, cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)
    if p.returncode:
        sys.exit(f"{' '.join(argv)}: status {p.returncode}\n{p.stdout}")
    return p.stdout


def main():
    build = sys.argv[1]
    if not shutil.which("pkg-config"):
        print("skip: pkg-config is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as root:
        install = [f"DESTDIR={root}", "PREFIX=/usr", f"B={build}"]
        run("make", "install", *install)
        env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": root, "PKG_CONFIG_PATH": f"{root}/usr/lib/pkgconfig",
               "LD_LIBRARY_PATH": f"{root}/usr/lib"}
        with open(f"{root}/p.c", "w") as f:
            f.write(PROGRAM)
        flags = run("pkg-config", "--cflags", "--libs", "libfpisa", env=env).split()
        run("cc", "-Wall", "-Werror", f"{root}/p.c", "-o", f"{root}/p", *flags)
        out = run(f"{root}/p", env=env).strip()
        if out != "1 2.5 -3 0 1e-30":
            sys.exit(f"wrong sum: {out}")
        with open(f"{root}/q.c", "w") as f:
            f.write(QUERY)
        flags = run("pkg-config", "--cflags", "--libs", "libfpisa-query", env=env).split()
        run("cc", "-Wall", "-Werror", f"{root}/q.c", "-o", f"{root}/q", *flags)
        out_of_query = run(f"{root}/q", env=env).strip()
        if "workers" not in out_of_query or "libfpisa.so" in run("readelf", "-d", f"{root}/q"):
            sys.exit(f"the error of a query without workers does not name the workers, or the program links libfpisa.so: {out_of_query}")
        needed = run("readelf", "-d", f"{root}/p")
        if "libfpisa.so.1" not in needed:
            sys.exit("the program does not name libfpisa.so.1")
        exported = [line.split()[-1] for name in ("libfpisa", "libfpisa-query") for line in
                    run("nm", "-D", "--defined-only", f"{root}/usr/lib/{name}.so").splitlines() if " T " in line]
        wrong = [s for s in exported if not s.startswith("fpisa_") or "@@LIBFPISA_" not in s]
        if wrong or not exported:
            sys.exit(f"the libraries export unversioned or foreign symbols: {wrong}")
        fpisa = f"{root}/usr/sbin/fpisa"
        run(fpisa, "--version")
        # The installed program finds the other programs from its own directory. Every verb that it lists works without the source tree.
        listed = run(fpisa, "help")
        if not all(f"\n  {verb} " in listed for verb in ("query run", "query worker", "demo", "bench arith")) or "query demo" in listed:
            sys.exit(f"fpisa help does not list the installed verbs: {listed}")
        run(fpisa, "tables", "--samples", "1000")
        if os.path.exists(f"{root}/usr/sbin/fpisa-lab"):
            sys.exit("fpisa-lab is in the path")
        with open(f"{root}/etc/fpisa/fpisa.conf") as f:
            assert "[job 7]" in f.read()
        run(f"{root}/usr/sbin/fpisa", "config", "check", f"{root}/etc/fpisa/fpisa.conf")
        with open(f"{root}/usr/share/man/man8/fpisa.8") as f:
            if "\n.It Pa /usr/lib/fpisa/fpisa.o\n" not in f.read():
                sys.exit("fpisa.8 does not name the installed object")
        pages = sorted(os.listdir(f"{root}/usr/share/man/man3"))
        if [p for p in pages if p[:3] != "lib"] != sorted(s.split("@")[0] + ".3" for s in exported):
            sys.exit(f"the manual pages are not those of the exported functions: {pages}")
        for unit, command in ("fpisa", "config apply"), ("fpisa-manager", "serve"):
            with open(f"{root}/usr/lib/systemd/system/{unit}.service") as f:
                if f"ExecStart=/usr/sbin/fpisa {command}\n" not in f.read():
                    sys.exit(f"the unit {unit} does not run the installed program")
        run("make", "uninstall", *install)
        left = [os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs if f not in ("p", "p.c", "q", "q.c")]
        if left:
            sys.exit(f"make uninstall did not remove {left}")
        # A configuration file that a user wrote survives the second installation and the removal.
        conf = f"{root}/etc/fpisa/fpisa.conf"
        os.makedirs(os.path.dirname(conf), exist_ok=True)
        with open(conf, "w") as f:
            f.write("[job 3]\nworkers = 10.0.0.11\n")
        for target in ("install", "uninstall"):
            run("make", target, *install)
            with open(conf) as f:
                if f.read() != "[job 3]\nworkers = 10.0.0.11\n":
                    sys.exit(f"make {target} changed the configuration")
        print(f"{len(exported)} symbols, versioned; {out}")


if __name__ == "__main__":
    main()

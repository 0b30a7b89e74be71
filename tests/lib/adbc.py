# SPDX-License-Identifier: GPL-2.0-only
"""ADBC drivers from PyPI for tests, and workers with tables of other databases"""
import contextlib
import os
import subprocess

import parquet
from foreign import FPISA, Workers
from postgres import BUILD

PLACE = os.path.join(BUILD, "adbc")


def driver(database):
    """Return the library of the driver for "postgresql" or "sqlite". Skip the test if it is missing."""
    parquet.install(PLACE, "adbc-driver-postgresql", "adbc-driver-sqlite", "--no-deps")
    return os.path.join(PLACE, f"adbc_driver_{database}", f"libadbc_driver_{database}.so")


@contextlib.contextmanager
def workers(tmp_path):
    """Yield make(LINES, TABLE=SCHEMA...), which starts a worker with these lines of --databases, and returns ask(TABLE, *options)."""
    with contextlib.ExitStack() as started:
        def make(lines, **schemas):
            path = tmp_path / "databases"
            path.write_text(lines)
            w = Workers(1, "--databases", str(path), before=("env", "FPISA_DRIVER=" + parquet.engine()[1]["FPISA_DRIVER"]))
            started.callback(w.close)
            for name, text in schemas.items():
                with open(os.path.join(w.directory(0), name + ".schema"), "w") as f:
                    f.write(text)

            def ask(table, *options):
                p = subprocess.run([FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, *options], capture_output=True, text=True)
                return p.stdout.splitlines()[1:] if not p.returncode else p.stderr
            return ask
        yield make

# SPDX-License-Identifier: GPL-2.0-only
"""The extension as it is installed: its own regression tests, who may use it, that it goes again."""
import os
import subprocess

import pytest

import postgres

ADAPTER = os.path.join(postgres.TOP, "adapters", "postgres")


def test_pg_regress(server, tmp_path):
    """adapters/postgres/sql against adapters/postgres/expected."""
    program = os.path.join(postgres.where("pkglibdir"), "pgxs", "src", "test", "regress", "pg_regress")
    if not os.path.exists(program):
        pytest.skip("no pg_regress: postgresql-server-dev-15 is not installed; make deps")
    names = sorted(n[:-4] for n in os.listdir(os.path.join(ADAPTER, "sql")))
    p = subprocess.run([program, f"--inputdir={ADAPTER}", f"--outputdir={tmp_path}", f"--bindir={postgres.where('bindir')}",
                        f"--host={server.home}", "--user=postgres", "--dbname=fpisa_regression", "--load-extension=fpisa", *names],
                       text=True, capture_output=True, cwd=tmp_path)
    differences = tmp_path / "regression.diffs"
    assert p.returncode == 0, p.stdout + p.stderr + (differences.read_text() if differences.exists() else "")


def test_comes_and_goes(server):
    """In a schema that it is given; what it made goes with it."""
    assert server.sql("""CREATE DATABASE other;
\\c other
CREATE SCHEMA s;
CREATE EXTENSION fpisa SCHEMA s;
SELECT s.fpisa_sum(x) FROM (VALUES (1::real), (2)) t(x);
DROP EXTENSION fpisa;
SELECT count(*) FROM pg_proc WHERE proname ~ 'fpisa';
\\c postgres
DROP DATABASE other;""") == [("3",), ("0",)]


def test_anybody_may_sum(server):
    assert server.sql("""CREATE ROLE somebody; SET ROLE somebody;
SELECT fpisa_avg(x) FROM (VALUES (1::float8), (2)) t(x); RESET ROLE; DROP ROLE somebody;""") == [("1.5",)]

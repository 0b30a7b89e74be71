# SPDX-License-Identifier: GPL-2.0-only
"""Test the installed extension: its own regression tests, permitted users, removal."""
import os
import subprocess

import pytest

import postgres

ADAPTER = os.path.join(postgres.TOP, "adapters", "postgres")


def test_pg_regress(server, tmp_path):
    """The statements of adapters/postgres/sql print the output in adapters/postgres/expected."""
    program = os.path.join(postgres.where("pkglibdir"), "pgxs", "src", "test", "regress", "pg_regress")
    if not os.path.exists(program):
        pytest.skip("no pg_regress: the postgresql-server-dev-N of this server is not installed; make test installs it")
    names = sorted(n[:-4] for n in os.listdir(os.path.join(ADAPTER, "sql")))
    p = subprocess.run([program, f"--inputdir={ADAPTER}", f"--outputdir={tmp_path}", f"--bindir={postgres.where('bindir')}",
                        f"--host={server.home}", "--user=postgres", "--dbname=fpisa_regression", "--load-extension=fpisa", *names],
                       text=True, capture_output=True, cwd=tmp_path)
    differences = tmp_path / "regression.diffs"
    assert p.returncode == 0, p.stdout + p.stderr + (differences.read_text() if differences.exists() else "")


def test_comes_and_goes(server):
    """The extension can be installed into a given schema, and is removed with all its objects."""
    assert server.sql("""CREATE DATABASE other;
\\c other
CREATE SCHEMA s;
CREATE EXTENSION fpisa SCHEMA s;
SELECT s.fpisa_sum(x) FROM (VALUES (1::real), (2)) t(x);
DROP EXTENSION fpisa;
SELECT count(*) FROM pg_proc WHERE proname ~ 'fpisa';
\\c postgres
DROP DATABASE other;""") == [("3",), ("0",)]


OBJECTS = """SELECT pg_describe_object(classid, objid, 0), obj_description(objid, classid::regclass::name) FROM pg_depend
    WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'fpisa') AND deptype = 'e' ORDER BY 1;"""


def test_update(server):
    """After an update from each version the extension equals a new installation, and existing sums continue to work."""
    newest = server.sql("SELECT default_version FROM pg_available_extensions WHERE name = 'fpisa'")[0][0]
    versions = [v for v, in server.sql("SELECT version FROM pg_available_extension_versions WHERE name = 'fpisa'")]
    assert "1.0" in versions and newest == max(versions)
    want = server.sql(OBJECTS)
    assert len(want) > 30
    for old in versions:
        assert server.sql(f"""CREATE DATABASE other;
\\c other
CREATE EXTENSION fpisa VERSION '{old}';
CREATE VIEW total AS SELECT fpisa_sum(x) FROM (VALUES (1e30::real), (1), (-1e30)) t(x);
ALTER EXTENSION fpisa UPDATE;
SELECT * FROM total;
{OBJECTS}
\\c postgres
DROP DATABASE other;""") == [("1",), *want]


def test_make_uninstall(tmp_path):
    """`make uninstall-postgres` removes all files that `make install-postgres` writes to the directories of pg_config."""
    why = postgres.lacking()
    if why:
        pytest.skip(why)
    argv = ["make", "-s", "-C", postgres.TOP, f"B={postgres.BUILD}", f"DESTDIR={tmp_path}", f"PG_CONFIG={postgres.PG_CONFIG}"]
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}

    def files():
        return sorted(f for _, _, names in os.walk(tmp_path) for f in names)

    subprocess.run([*argv, "install-postgres"], check=True, env=env, stdout=subprocess.DEVNULL)
    assert files() == ["fpisa--1.0--1.1.sql", "fpisa--1.0.sql", "fpisa--1.1--1.2.sql", "fpisa--1.2--1.3.sql", "fpisa.control", "fpisa.so", "fpisa_fdw.so"]
    subprocess.run([*argv, "uninstall-postgres"], check=True, env=env, stdout=subprocess.DEVNULL)
    assert files() == []


def test_anybody_may_sum(server):
    assert server.sql("""CREATE ROLE somebody; SET ROLE somebody;
SELECT fpisa_avg(x) FROM (VALUES (1::float8), (2)) t(x); RESET ROLE; DROP ROLE somebody;""") == [("1.5",)]

# SPDX-License-Identifier: GPL-2.0-only
"""One server for all tests of a run, with the extension in the database `postgres`"""
import os
import sys

import pytest

sys.dont_write_bytecode = True
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "lib"))

import foreign  # noqa: E402
import postgres  # noqa: E402
from seeds import rng  # noqa: E402, F401

# plan_of() returns the plan of a query as JSON in one line.
PLAN_OF = """CREATE FUNCTION plan_of(query text, options text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON' || options || ') ' || query INTO plan;
    RETURN translate(plan::text, E'\\n', '');
END $$"""


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a part of `make test-long`")


@pytest.fixture(scope="session")
def server():
    why = postgres.lacking()
    if why:
        pytest.skip(why)
    s = postgres.Server(max_worker_processes=16, max_parallel_workers=16, shared_buffers="256MB")
    try:
        s.sql("CREATE EXTENSION fpisa; " + PLAN_OF)
        yield s
    finally:
        s.close()


@pytest.fixture(scope="module")
def workers():
    w = foreign.Workers(3)
    yield w
    w.close()


@pytest.fixture
def far(server, workers):
    """Create a database with a server `far` and no table."""
    workers.clear()
    server.sql("CREATE DATABASE far")
    server.sql(f"CREATE EXTENSION fpisa; {foreign.server_sql(workers)}", "far")
    yield lambda text: server.sql(text, "far")
    server.sql("DROP DATABASE far WITH (FORCE)")

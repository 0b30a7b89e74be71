# SPDX-License-Identifier: GPL-2.0-only
"""Programs read and print numbers with a decimal point even if their locale writes 1,5."""
import json
import os
import shutil
import subprocess
import sys

import pytest

import foreign
import query_client

LOCALE = "de_DE.UTF-8"
ROWS = [(1.5, 2.25), (1.5, -3.5), (None, 0.25)]
GROUPS = {"by": "k", "value": "v"}
TOP = {"value": "v", "limit": 2, "where": "v>-3.75,k<1.75"}


@pytest.fixture(scope="module")
def decimal_comma(tmp_path_factory):
    """Return an environment whose locale has a decimal comma."""
    if not shutil.which("localedef") or not os.path.exists("/usr/share/i18n/locales/de_DE"):
        pytest.skip("locales is not installed; make test installs it")
    folder = tmp_path_factory.mktemp("locales")
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / LOCALE], check=True, capture_output=True)
    env = {**os.environ, "LOCPATH": str(folder), "LC_ALL": LOCALE}
    said = subprocess.run([sys.executable, "-c", "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.str(1.5))"], env=env,
                          capture_output=True, text=True, check=True).stdout
    assert said == "1,5\n"
    return env


def ask(env, workers, what):
    options = {"workers": workers.addresses, "key_file": workers.key_file, "table": "t", "pruning": 1, **what}
    return subprocess.run([sys.executable, query_client.__file__, os.path.join(foreign.BUILD, "libfpisa-query.so"), json.dumps(options)], env=env,
                          capture_output=True, text=True, timeout=60)


def test_query(decimal_comma):
    workers = foreign.Workers(1)
    try:
        workers.table("t", ("k double", "v real"), ROWS)
        p = ask(decimal_comma, workers, GROUPS)
        assert not p.returncode, p.stderr
        assert sorted(json.loads(p.stdout)["rows"], key=str) == [["1.5", "2", "-1.25", "-3.5", "2.25", "-0.625"],
                                                                 [None, "1", "0.25", "0.25", "0.25", "0.25"]]
        p = ask(decimal_comma, workers, TOP)
        assert not p.returncode, p.stderr
        assert json.loads(p.stdout)["rows"] == [["1.5", "2.25"], ["1.5", "-3.5"]]
    finally:
        workers.close()


def test_messages(decimal_comma):
    program = """if True:
        import ctypes, locale, sys
        locale.setlocale(locale.LC_ALL, "")
        sys.path.insert(0, sys.argv[2])
        import worker
        lib = ctypes.CDLL(sys.argv[1])
        lib.fpisa_error.restype = ctypes.c_char_p
        o, f = worker.Options(size=ctypes.sizeof(worker.Options), loss=1.5), ctypes.c_void_p()
        print(lib.fpisa_connect(ctypes.byref(f), b"127.0.0.1", 1, ctypes.byref(o)), lib.fpisa_error().decode())"""
    p = subprocess.run([sys.executable, "-c", program, os.path.join(foreign.BUILD, "libfpisa.so"), os.path.dirname(query_client.__file__)],
                       env=decimal_comma, capture_output=True, text=True, check=True)
    assert p.stdout == "-22 options.loss is 1.5; it must be in 0..0.9\n"

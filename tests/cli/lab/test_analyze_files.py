# SPDX-License-Identifier: GPL-2.0-only
"""Test the files that `fpisa analyze` reads and refuses, its usage, and its pictures."""
import os
import shutil
import struct
import xml.etree.ElementTree as ET

import pytest

from analyze import DATA, analyze, raw, refused, run


def npy(data, descr="'<f4'", shape="(3, 4)", fortran="False", version=1, header=None):
    text = header or f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


VALUES = [1.5, -2, 0, 3, 0.25, 7, 1e-3, -1, 2, 2, 65504, 5]
FLOATS = raw(VALUES)
EXACT_VALUES = [struct.unpack("<f", FLOATS[4 * i:4 * i + 4])[0] for i in range(12)]
COLUMNS = [EXACT_VALUES[4 * (k % 3) + k // 3] for k in range(12)]


@pytest.mark.parametrize("data, options", [
    (npy(FLOATS), ()),
    (npy(FLOATS, version=2), ()),
    (npy(FLOATS, version=3), ("--workers", 3)),
    (npy(FLOATS, shape="(12,)"), ("--workers", 3)),
    (npy(FLOATS, shape="(3L, 4L)"), ()),
    (npy(raw(EXACT_VALUES, "d"), "'<f8'"), ()),
    (npy(struct.pack(">12f", *VALUES), "'>f4'"), ()),
    (npy(struct.pack(">12d", *EXACT_VALUES), "'>f8'"), ()),
    (npy(raw(COLUMNS), fortran="True"), ()),
    (npy(FLOATS, header='{"shape":(3,4),"descr":"<f4","fortran_order":False}'), ()),
    (FLOATS, ("--workers", 3)),
    (raw(EXACT_VALUES, "d"), ("--workers", 3, "--raw", "fp64")),
], ids=str)
def test_files_of_one_content(tmp_path, data, options):
    (tmp_path / "a.f32").write_bytes(FLOATS)
    (tmp_path / "b").write_bytes(data)
    want = analyze("--workers", 3, "--mode", "fpisa", tmp_path / "a.f32")
    got = analyze(*options, "--mode", "fpisa", tmp_path / "b")
    for out in (want, got):
        del out["inputs"][0]["files"]
    assert got == want and got["inputs"][0]["elements"] == 4 and got["inputs"][0]["zero_values"] == 1


def test_halves_and_a_file_a_worker(tmp_path):
    """Files of type f2 in either byte order are read, and rows may be in separate files of different types."""
    halves = [1.5, -2, 0, 3, 0.25, 7, 6e-8, -1, 2, 2, 65504, 5]
    wide = [struct.unpack("<e", struct.pack("<e", x))[0] for x in halves]
    (tmp_path / "w").write_bytes(npy(raw(wide, "d"), "'<f8'"))
    (tmp_path / "h").write_bytes(npy(raw(halves, "e"), "'<f2'"))
    (tmp_path / "s").write_bytes(npy(struct.pack(">12e", *halves), "'>f2'"))
    (tmp_path / "0").write_bytes(raw(wide[:4]))
    (tmp_path / "1").write_bytes(npy(raw(halves[4:8], "e"), "'<f2'", "(4,)"))
    (tmp_path / "2").write_bytes(npy(raw(wide[8:], "d"), "'<f8'", "(4,)"))
    out = [analyze("--format", "fp16", *[tmp_path / n for n in names]) for names in ("w", "h", "s", "012")]
    assert out[3]["inputs"][0]["files"] == [str(tmp_path / n) for n in "012"]
    for one in out:
        assert len(one["inputs"]) == 1
        del one["inputs"][0]["files"]
    assert out[0] == out[1] == out[2] == out[3] and out[0]["inputs"][0]["workers"] == 3


BAD = [
    (b"", "is empty"),
    (FLOATS[:-1], "its size, 47 bytes, is not a multiple of 4"),
    (FLOATS[:-4], "11 values of 4 bytes are not 3 rows of equal length; give --workers N"),
    (npy(FLOATS, shape="(4, 3)"), "has 4 rows, not 3; give --workers 4"),
    (npy(FLOATS[:-4]), "44 bytes of values follow its header, but its shape needs 48; copy the whole file"),
    (npy(FLOATS + b"more"), "52 bytes of values follow its header, but its shape needs 48; save"),
    (npy(FLOATS, shape="(3, 2, 2)"), "its array has 3 dimensions; save it as [workers, elements]"),
    (npy(FLOATS[:4], shape="()"), "its array has 0 dimensions"),
    (npy(b"", shape="(3, 0)"), "has no values"),
    (npy(FLOATS, shape=f"({2**63}, 4)"), "its shape is larger than any memory"),
    (npy(FLOATS, shape=f"({2**64}, 4)"), "its .npy header is garbled"),
    (npy(FLOATS, descr="'<i4'"), "its values are <i4, not f2, f4 or f8; save a.astype('<f4')"),
    (npy(FLOATS, descr="'<u2'"), "its values are <u2, not f2, f4 or f8; if they are the bits of bf16, e4m3 or e5m2, save a.tofile(FILE) "
     "and give --raw bf16, else save"),
    (npy(FLOATS, descr="'|V2'"), "its values are |V2, not f2, f4 or f8; if they are the bits of bf16"),
    (npy(FLOATS, descr="[('a', '<f4')]"), "its values are a record"),
    (npy(FLOATS, descr="'=f4'"), "its values are =f4"),
    (npy(FLOATS, descr="'<f\n'"), "its .npy header is garbled"),
    (npy(FLOATS, fortran="Maybe"), "its .npy header is garbled; save it with numpy.save()"),
    (npy(FLOATS, shape="(3, -4)"), "its .npy header is garbled"),
    (npy(FLOATS, shape="(3 4)"), "its .npy header is garbled"),
    (npy(FLOATS, header="{'descr': '<f4', 'shape': (3, 4)}"), "its .npy header is garbled"),
    (npy(FLOATS, header="{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}"), "is garbled"),
    (npy(FLOATS, header="{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} x"), "is garbled"),
    (npy(FLOATS, header="{'descr': '<f4"), "its values are"),
    (npy(FLOATS, version=4), "is a .npy file of version 4.0"),
    (npy(FLOATS)[:30], "its .npy header is cut off; copy the whole file"),
    (npy(FLOATS)[:7], "its .npy header is cut off"),
    (b"\x93NUMPY\2\0\xff\xff\xff\xff", "its .npy header is cut off"),
    (b"PK\3\4" + FLOATS, "is a zip archive (.npz, .pt)"),
]


@pytest.mark.parametrize("data, says", BAD, ids=[says for _, says in BAD])
def test_bad_files(tmp_path, data, says):
    (tmp_path / "bad").write_bytes(data)
    refused(f"{tmp_path}/bad", "--workers", 3, tmp_path / "bad")
    refused(says, "--workers", 3, tmp_path / "bad")


def test_bad_sets_of_files(tmp_path):
    for name, data in (("a", FLOATS), ("b", FLOATS[:16]), ("c.npy", npy(FLOATS)), ("d.npy", FLOATS),
                       ("many", npy(raw([1] * 65), shape="(65, 1)"))):
        (tmp_path / name).write_bytes(data)
    refused("does not say how many rows it has; give --workers N, or a file for each worker", tmp_path / "a")
    refused("b has 4 values, ", tmp_path / "a", tmp_path / "b")
    refused("c.npy has 3 rows, not 1", tmp_path / "a", tmp_path / "c.npy")
    refused("a does not say how many rows it has, but ", tmp_path / "c.npy", tmp_path / "a")
    refused("d.npy does not begin as a .npy file does", tmp_path / "d.npy")
    refused("many has 65 rows, more than 64 workers", tmp_path / "many")
    refused("a is one of 65 files, each for one worker, but at most 64", *[tmp_path / "a"] * 65)
    refused("nothere: No such file", tmp_path / "nothere")
    refused("is not a regular file", tmp_path)
    refused("is not a regular file", "/dev/zero")


def test_bad_usage(tmp_path):
    for says, *argv in (("analyze requires at least one file",),
                        ("--workers: '65' is not a number from 1 to 64", "--workers", 65),
                        ("--mode: 'fpisb' is not", "--mode", "fpisa,fpisb"),
                        ("--mode: the list is empty", "--mode", ","),
                        ("--format: 'fp24' is not", "--format", "fp24"),
                        ("--raw: 'f4' is not", "--raw", "f4"),
                        ("--rounding: 'up' is not", "--rounding", "up"),
                        ("--orders: '-1' is not a number", "--orders", -1),
                        ("--plot: the prefix is empty", "--plot", "")):
        refused(says, *argv, status=2)


def png_size(data):
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and data.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", data[16:24])


needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed; make test installs it")


@needs_gnuplot
@pytest.mark.parametrize("options", [(), ("--mode", "exact", "--orders", 0)], ids=str)
def test_pictures(tmp_path, options):
    """Pictures are well-formed XML and contain the names of files and modes unchanged, whatever characters the names have."""
    names = ["it's_$(a) \"b\".f32", "x^{2}.f32"]
    for k, name in enumerate(names):
        with open(os.path.join(DATA, "epoch20.f32"), "rb") as f:
            (tmp_path / name).write_bytes(f.read(8 * 4 * 50) if k else raw([1.0] * 64))
    prefix = tmp_path / "it's"
    p = run("--workers", 8, "--plot", prefix, *options, *[tmp_path / n for n in names])
    assert p.returncode == 0 and p.stderr == "", p
    pictures = sorted(n for n in os.listdir(tmp_path) if n not in names)
    assert pictures == sorted(f"it's-{k}.{e}" for k in ("ratio", "error", "source") for e in ("svg", "png"))
    for k in ("ratio", "error", "source"):
        assert png_size((tmp_path / f"it's-{k}.png").read_bytes()) == (960, 360)
        text = "".join(ET.parse(tmp_path / f"it's-{k}.svg").getroot().itertext())
        for name in names:
            assert name in text
        assert k == "ratio" or "exact" in text


@needs_gnuplot
def test_no_pictures(tmp_path):
    (tmp_path / "a").write_bytes(FLOATS)
    argv = ("--workers", 3, tmp_path / "a", "--plot")
    refused("gnuplot: cannot start: No such file or directory; install gnuplot-nox", *argv, tmp_path / "p",
            env={**os.environ, "PATH": str(tmp_path)})
    refused("/no/: No such file or directory; give --plot a directory that can be written", *argv, tmp_path / "no" / "p")
    (tmp_path / "p-ratio.svg").mkdir()
    p = run(*argv, tmp_path / "p")
    assert p.returncode == 1 and p.stdout == "" and p.stderr.splitlines()[-1].startswith("fpisa: gnuplot failed; see its message above")

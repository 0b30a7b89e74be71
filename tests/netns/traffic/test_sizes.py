# SPDX-License-Identifier: GPL-2.0-only
"""Sum vectors from one element to ten million over eight workers, then with other numbers of workers, and with frames of every size."""
import pytest

from lab import PIN

pytestmark = pytest.mark.families(spread=True)

SIZES = [1, 1000, 123457, 10**7]
LIMIT_S = 300


@pytest.mark.parametrize("count", SIZES)
def test_eight_workers(lab, count):
    net = lab(workers=8, mtu=3506)
    net.load()
    net.add_job(1, "--elements", 832 if count == max(SIZES) else 256)
    answers = net.check_sum(1, count, timeout_s=LIMIT_S, timeout_ms=LIMIT_S * 1000)
    c = net.counters(1, PIN)
    chunks = -(-count // answers[0]["elements"])
    assert c["v_result"] == chunks and c["fused"] == c["v_accepted"] + c["v_result"] == 8 * chunks
    assert max(a["flags"] for a in answers) == 0  # whole numbers lose no bit
    print(f"{count} elements: {max(a['seconds'] for a in answers):.2f} s")


@pytest.mark.parametrize("count", SIZES[:3])
def test_staged(lab, count):
    net = lab(workers=8)
    net.load()
    net.add_job(1, "--pipeline", "staged", "--clz", "lpm", "--mode", "fpisa-a")
    net.check_sum(1, count, kind="even")
    c = net.counters(1, PIN)
    assert c["v_result"] == -(-count // 256) and c["mau4"] == 8 * c["v_result"]


@pytest.mark.parametrize("workers", [1, 17, pytest.param(64, marks=pytest.mark.long)])
def test_other_numbers_of_workers(lab, workers):
    """Sums work with one worker, with more workers than a header can list in order, and with as many workers as a job allows."""
    net = lab(workers=workers)
    net.load()
    net.add_job(1, "--window", 8)
    answers = net.check_sum(1, 2000, order=True, timeout_ms=60000)
    chunk = answers[-1]["chunks"][0]
    assert chunk[3] == (1 << workers) - 1 and (chunk[4] == 0) == (workers > 16 or workers == 1)


def test_frames_of_every_size(lab):
    net = lab(workers=2, mtu=3506)
    net.load()
    for job, elements in enumerate((32, 64, 128, 256, 512, 832)):
        net.add_job(job, "--elements", elements, "--window", 16)
        assert {a["elements"] for a in net.check_sum(job, 5000)} == {elements}
        assert net.counters(job, PIN)["v_result"] == -(-5000 // elements)

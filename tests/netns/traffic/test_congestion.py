# SPDX-License-Identifier: GPL-2.0-only
"""With a shaped switch port towards the aggregator, no frame is sent needlessly, and congestion marks (ECN) replace losses.

The kernel of a test machine may lack every queueing discipline that marks frames. Therefore a rule of nftables marks the frames that a
queue of nearly the port's rate would hold beyond some length.
"""
import threading

import pytest
from doctor import needs_ethtool
from lab import PIN, once_within

JOB, WORKERS = 5, 4
COUNT = 200_000
MBIT, QUEUE = 20, 128 << 10
FRAME, MARKED_FROM = 1142, 12  # bytes on the wire; number of frames in the queue above which frames are marked
pytestmark = [pytest.mark.alone, pytest.mark.families(spread=True)]


class Port:
    """Workers at a bridge. The bridge's port to the aggregator has a queue."""

    def __init__(self, lab, workers):
        self.net = lab(workers=workers, bridge=True)
        self.switch = self.net.spaces[-1]
        self.net.load()
        self.net.add_job(JOB, "--mode", "exact")

    def count(self, name):
        return self.net.counters(JOB, PIN)[name]

    def shape(self, mbit, queue):
        self.switch.run("tc", "qdisc", "replace", "dev", "uplink", "root", "tbf", "rate", f"{mbit}mbit", "burst", 5000, "limit", queue)

    def mark(self, mbit, frames):
        """Mark the frames that a queue of nearly the port's rate would hold beyond the first `frames` frames. Workers split their batches
        before the rule, so that each frame counts."""
        ip = "ip6" if self.net.ipv6 else "ip"
        for w in self.net.worker:
            w.run("ethtool", "-K", "eth0", "tx-udp-segmentation", "off")
        self.switch.run("nft", "add table bridge marks; add chain bridge marks forward { type filter hook forward priority 0; }; "
                        'add rule bridge marks forward oifname "uplink" '
                        f"{ip} ecn {{ ect0, ect1 }} limit rate over {int(0.95 * mbit * 1e6 / 8 / FRAME)}/second "
                        f"burst {frames} packets {ip} ecn set ce")

    def backlog(self):
        """Return the bytes in the port's queue, and its drops so far."""
        words = self.switch.run("tc", "-s", "qdisc", "show", "dev", "uplink").replace(",", " ").replace(")", " ").split()
        size = words[words.index("backlog") + 1][:-1]
        scale = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
        return int(size.rstrip("KM")) * scale, int(words[words.index("(dropped") + 1])

    def sum(self):
        """Sum. Return the answers, the mean bytes in the port's queue, and its drops."""
        seen, end = [], threading.Event()

        def watch():
            while not end.wait(0.05):
                seen.append(self.backlog()[0])

        before, watcher = self.backlog()[1], threading.Thread(target=watch)
        watcher.start()
        answers = self.net.check_sum(JOB, COUNT)
        end.set()
        watcher.join()
        busy = [n for n in seen if n]
        return answers, sum(busy) / len(busy), self.backlog()[1] - before


@needs_ethtool
def test_marks(lab):
    """Marks keep the port's queue short without a loss, so no frames are sent again. All ranks learn about all marks, including the marks
    on frames of other ranks."""
    port = Port(lab, WORKERS)
    port.shape(MBIT, QUEUE)
    answers, without, _ = port.sum()
    assert [a["marked"] for a in answers] == [0] * WORKERS
    port.mark(MBIT, MARKED_FROM)
    once_within((WORKERS + 1, 1, 1, 0.8 * without), lambda: marked_sum(port))


def marked_sum(port):
    """Return the numbers of frames that were sent again and dropped, of ranks that learned no mark or too many, and the mean bytes in the
    queue. A rank that waits for a CPU may request its oldest chunk."""
    before = port.count("marked")
    answers, queue, dropped = port.sum()
    marked = port.count("marked") - before
    return sum(a["retransmits"] for a in answers), dropped, sum(not 0 < a["marked"] <= marked for a in answers), queue


@pytest.mark.parametrize("size", (64 << 10, 1 << 20))
@pytest.mark.parametrize("queue", (128 << 10, 1 << 20))
def test_nothing_in_vain(lab, queue, size):
    """Without a loss at most 1 of 1000 contributions is sent twice, or asks for a stored result."""
    port = Port(lab, WORKERS)
    port.shape(MBIT, queue)

    def twice():
        before = port.count("v_duplicate") + port.count("v_resent")
        port.net.check_sum(JOB, size // 4)
        return port.count("v_duplicate") + port.count("v_resent") - before

    once_within(max(1, WORKERS * size // 4 // 256 // 1000), twice)

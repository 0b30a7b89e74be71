# SPDX-License-Identifier: GPL-2.0-only
"""How a group is joined: by a host's name."""
import sys

import pytest

from groups import MEMBER, Groups
from lab import ADDRESS, LIBRARY, PORT

EAGAIN, EINVAL = 11, 22


@pytest.fixture
def groups(lab, tmp_path):
    """groups(*config) serves two workers."""
    made = []

    def make(*config):
        net = lab(workers=2)
        net.load()
        made.append(Groups(net, str(tmp_path), *config))
        made[-1].serve()
        return made[-1]

    yield make
    for g in made:
        g.close()


def right(ranks):
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer.get("wrong", 0) == 0, answer


def sees(tmp_path, **files):
    """The command before one that has these files in /etc."""
    binds = []
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text)
        binds.append(f"mount --bind {path} /etc/{name.replace('_', '.')}")
    return ["unshare", "-m", "sh", "-c", " && ".join([*binds, 'exec "$@"']), "sh", sys.executable, "-B", MEMBER, LIBRARY]


def test_by_name(groups, tmp_path):
    """With the port and without; a name that is none, one that nobody can look up just now, and what is no name."""
    g = groups()
    g.member = sees(tmp_path, hosts=f"127.0.0.1 localhost\n{ADDRESS} aggregator.example aggregator\n", nsswitch_conf="hosts: files\n")
    ranks = [g.start(0, "names", 0, 2, {"sum": "float32"}, {"leave": True}, address="aggregator"),
             g.start(1, "names", 1, 2, {"sum": "float32"}, {"leave": True}, address=f"aggregator.example:{PORT}")]
    for _ in range(3):
        right(ranks)

    def refused(rc, text, address):
        answer = g.start(0, "names", 0, 1, address=address).line()
        assert answer["rc"] == -rc and text in answer["error"], answer

    refused(EINVAL, "'aggregatr' is no host that is known here: ", "aggregatr")
    refused(EINVAL, "'aggregatr' is no host that is known here: ", f"aggregatr:{PORT}")
    for wrong in ":18000", "aggregator:", "aggregator:0", "aggregator:65536", "aggregator:18000x", "a" * 300:
        refused(EINVAL, "is no host with an optional port, as aggregator:18000", wrong)
    g.member = sees(tmp_path, nsswitch_conf="hosts: dns\n", resolv_conf="nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    refused(EAGAIN, "'aggregator' is no host that is known here: ", "aggregator")

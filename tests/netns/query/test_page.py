# SPDX-License-Identifier: GPL-2.0-only
"""The commands of doc/query.md, section 1, run in order on the machines that the page names. They print the output that the page shows."""
import os
import re

from lab import ADDRESS, BUILD, TOP
from queries import Queries

import pytest

pytestmark = pytest.mark.cold


def test_example(lab, tmp_path):
    net = lab(workers=3)
    q = Queries(net, str(tmp_path))
    os.unlink(q.key)
    with open(os.path.join(TOP, "doc", "query.md")) as f:
        page = f.read()
    blocks = re.findall(r"[Oo]n\s(the aggregator|each worker|the master)(?:, create its part of a table and serve it)?:\n\n```sh\n(.*?)```"
                        r"(?:\n\n[^\n]*:\n\n```text\n(.*?)```)?", page, re.S)
    assert [where for where, _, _ in blocks] == ["the aggregator", "each worker", "the master", "the master"]
    hosts = {"the aggregator": [net.agg], "each worker": net.worker[:2], "the master": [net.worker[2]]}
    printed = []
    for where, commands, says in blocks:
        for n, host in enumerate(hosts[where]):
            text = commands
            for old, new in (("10.0.0.11", net.addresses[0]), ("10.0.0.12", net.addresses[1]), ("10.0.0.13", net.addresses[2]),
                             ("10.0.0.1 ", ADDRESS + " "), ("eth0", " ".join(net.ports)), ("/etc/fpisa/query-keys", q.key),
                             ("/srv/tables", os.path.join(str(tmp_path), f"tables{n}")), ("--kind", f"--address {ADDRESS} --kind")):
                text = text.replace(old, new)
            if "query worker" in text:
                text, command = text.rsplit("fpisa ", 1)
                host.run("sh", "-ec", text)
                p = host.spawn(os.path.join(BUILD, "fpisa"), *command.rstrip("& \n").split())
                q.workers.append(p)
                assert p.stdout.readline().startswith("serving ")
                continue
            for command in text.splitlines():
                status, out, err = host.try_run("sh", "-ec", command, env={**os.environ, "PATH": BUILD + ":" + os.environ["PATH"]})
                assert status == 0, err
                printed.append(out)
            for line in says.splitlines():
                assert line in out.splitlines() + err.splitlines(), (line, out, err)
    assert printed[-1].splitlines() == ["shop,day,price", "2,2024-05-01,1e30", "2,2024-05-01,1e30"]
    q.close()

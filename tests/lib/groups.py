# SPDX-License-Identifier: GPL-2.0-only
"""A manager in a Lab, and ranks that join the manager's groups"""
import json
import os
import select
import signal
import sys

import pytest

from lab import COMMAND_S, FPISA, HERE, LIBRARY, PIN, PORT, SLOW, children, end, wait_until

MEMBER = os.path.join(HERE, "member.py")
JOIN_MS = int(50000 * SLOW)  # less than the time in which line() needs an answer

over_both = pytest.mark.families()  # for tests with the fixture `groups`


def sees(tmp_path, **files):
    """Return a command prefix that runs a command with these files in /etc."""
    binds = []
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text)
        binds.append(f"mount --bind {path} /etc/{name.replace('_', '.')}")
    return ["unshare", "-m", "sh", "-c", " && ".join([*binds, 'exec "$@"']), "sh", sys.executable, "-B", MEMBER, LIBRARY]


def within(timeout_ms):
    """Return what gives a step that sums a deadline of its own. The first sum of a group needs more time on a busy machine."""
    return {"compute": 0, "timeout_ms": int(timeout_ms * SLOW)}


class Rank:
    """A process that joins a group as a rank"""

    def __init__(self, process):
        self.process, self.text = process, ""

    def line(self):
        """Return the rank's next answer."""
        pipe = self.process.stdout.fileno()
        while "\n" not in self.text:
            ready, _, _ = select.select([pipe], [], [], COMMAND_S)
            assert ready, "rank: no answer"
            more = os.read(pipe, 65536)
            assert more, f"rank: no answer: {self.process.stderr.read()}"
            self.text += more.decode()
        line, self.text = self.text.split("\n", 1)
        return json.loads(line)

    def lines(self):
        """Return the rank's next answer and those read with it, because select() does not report them."""
        answers = [self.line()]
        while "\n" in self.text:
            answers.append(self.line())
        return answers

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)

    def end(self):
        end(self.process)


class Groups:
    """`fpisa serve` on the aggregator of `net`. The lines `config` go into [manager], and the manager has a key by default. member and env
    are the command of a rank and its environment."""

    def __init__(self, net, folder, *config, sections=""):
        self.net, self.folder, self.manager, self.ranks = net, folder, None, []
        self.member, self.env = [sys.executable, "-B", MEMBER, LIBRARY], dict(os.environ)
        self.key = os.path.join(folder, "keys") if "without-key = yes" not in config else ""
        lines = ["[manager]", *config]
        if self.key:
            net.fpisa("key", "new", "train", self.key)
            lines.append(f"key-file = {self.key}")
        self.config = os.path.join(folder, "fpisa.conf")
        with open(self.config, "w") as f:
            f.write("\n".join(lines) + "\n" + sections)

    def serve(self, *before):
        """Start the manager through the command `before`, and wait until it is ready."""
        self.manager = self.net.agg.spawn(*before, FPISA, "serve", self.config)
        said = self.manager.stdout.readline()
        assert said.startswith("serving groups"), said + self.manager.stderr.read()
        return said

    def read_again(self):
        """Send SIGHUP, so that the manager reads its configuration again. Return its answer."""
        self.manager.send_signal(signal.SIGHUP)
        return self.said()

    def said(self):
        """Return the next line of the manager that does not report a refusal."""
        while (line := self.manager.stdout.readline()).startswith("refused ") or " dropped" in line:
            pass
        return line

    def kill(self, how=signal.SIGKILL):
        self.manager.send_signal(how)
        self.manager.wait()
        end(self.manager)

    def start(self, host, name, rank, size, *steps, hold=False, again=0, address=None, **options):
        """Start a rank on worker `host`, which joins at the manager's address or at `address`."""
        options = {"key_file": self.key, "join_timeout_ms": JOIN_MS, **options}
        plan = json.dumps({"options": options, "steps": steps, "hold": hold, "again": again})
        self.ranks.append(Rank(self.net.worker[host].spawn(*self.member, address or self.net.address, name, rank, size, plan, env=self.env)))
        return self.ranks[-1]

    def group(self, name, hosts, *steps, **more):
        """Start a rank on each of these workers. Return when all ranks have joined."""
        ranks = [self.start(h, name, r, len(hosts), *steps, **more) for r, h in enumerate(hosts)]
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == 0, answer
        return ranks

    def jobs(self):
        return self.net.json("job", "list")

    def holds(self):
        """Count the objects that a group may leave behind: groups, jobs, slots, pins, and descriptors of the manager and its helper."""
        fds = [len(os.listdir(f"/proc/{pid}/fd")) for pid in (self.manager.pid, *children(self.manager.pid))]
        status = self.net.json("status")
        return (len(self.net.json("group", "list")), len(self.jobs()), self.net.json("slots"), sorted(os.listdir(PIN)), fds,
                {k: v for k, v in status.items() if k != "manager"})

    def empty(self):
        """Wait until all jobs are gone."""
        wait_until("the end of all jobs", lambda: not self.jobs())

    def settle(self):
        """Wait until all groups, their objects and the connections of ranks are gone. Return the counts of holds()."""
        self.empty()
        wait_until("the end of all groups", lambda: not self.net.json("group", "list"))
        wait_until("the end of all connections", lambda: not self.net.agg.run(
            "ss", "-Htn", "state", "established", "state", "close-wait", "sport", "=", f":{PORT}"))
        return self.holds()

    def close(self):
        for rank in self.ranks:
            rank.end()

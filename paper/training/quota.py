# SPDX-License-Identifier: GPL-2.0-only
"""A CPU quota for a process, which uses a group of the `cpu` controller in cgroups v1 or v2."""
import os

PERIOD_US = 20000
V1, V2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"


class Quota:
    """A limit for process `pid`. set() changes the limit. Raise OSError if the cgroup cannot be created."""

    def __init__(self, pid):
        self.unified = os.path.exists(os.path.join(V2, "cgroup.controllers"))
        self.path = os.path.join(V2 if self.unified else V1, f"fpisa-training-{pid}")
        os.mkdir(self.path)
        try:
            if self.unified and not os.path.exists(os.path.join(self.path, "cpu.max")):
                raise OSError(f"{V2}: the controller cpu is not enabled for its groups")
            self._write("cgroup.procs", pid)
        except OSError:
            os.rmdir(self.path)
            raise

    def _write(self, name, value):
        with open(os.path.join(self.path, name), "w") as f:
            f.write(str(value))

    def set(self, percent):
        """Set the quota in per cent of one CPU. 0 means no limit."""
        us = PERIOD_US * percent // 100
        if self.unified:
            self._write("cpu.max", f"{us or 'max'} {PERIOD_US}")
        else:
            self._write("cpu.cfs_quota_us", -1)
            self._write("cpu.cfs_period_us", PERIOD_US)
            self._write("cpu.cfs_quota_us", us or -1)

    def periods(self):
        """Return (number of periods, number of periods in which the quota stopped the process)."""
        with open(os.path.join(self.path, "cpu.stat")) as f:
            stat = dict(line.split() for line in f)
        return int(stat["nr_periods"]), int(stat["nr_throttled"])

    def close(self):
        """Remove the group. Call this method after the process has ended."""
        os.rmdir(self.path)

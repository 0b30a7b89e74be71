# SPDX-License-Identifier: GPL-2.0-only
"""Upgrade the second guest of vm/unit from the packages of the last release to the current packages, while a job and a group of
the old library sum.

    unit_upgrade.py BUILD PACKAGES OLD

OLD has the library and the test programs of the last release (vm/packages). The datapath of that release has other maps and
continues to run. dpkg prints how to replace the old datapath with the new datapath. Programs get an error when the
replacement ends their job.
"""
import glob
import os
import subprocess
import sys

os.environ["FPISA_BUILD"] = sys.argv[1]
from unit_site import Job, Machine, Sums, active, command, configure, lab, ready, shown  # noqa: E402

OLD = sys.argv[3]


def old_library():
    found, = glob.glob("/usr/lib/*/libfpisa.so.0")
    return found, os.path.join(OLD, "tests", "lib")


def replaced(job, sums):
    """Check the message of dpkg. The old job and group continue to sum. The manager does not start, because it cannot read the
    old maps.
    """
    said = command("dpkg", "-i", *glob.glob(sys.argv[2] + "/fpisa_*.deb"), *glob.glob(sys.argv[2] + "/libfpisa1_*.deb"))
    assert "made by another version of fpisa" in said and "fpisa unload && systemctl restart fpisa fpisa-manager" in said, said
    job.goes_on()
    sums.goes_on()
    assert shown("fpisa-manager", "ActiveState") != "active"


def new_datapath(net, job, sums):
    """Replace the datapath as dpkg has printed. Programs of the old library get an error, and programs of the new library can
    sum.
    """
    command("sh", "-c", f"{lab.FPISA} unload && systemctl restart fpisa fpisa-manager")
    active("fpisa", "fpisa-manager")
    lab.wait_until("the old programs' end", lambda: all(p.poll() is not None for p in job.procs) and len(sums.failed()) == len(sums.ranks), 240)
    net.check_sum(2)
    return Sums(net, "new")


def main():
    net = Machine()
    configure(net, "")
    ready()
    active("fpisa", "fpisa-manager")
    net.slow(3)
    job, sums = Job(net, *old_library(), timeout_ms=20000), Sums(net, "old", *old_library())
    replaced(job, sums)
    again = new_datapath(net, job, sums)
    counts = [job.counted(), sums.end(), again.end()]
    wrong = sum(w for _, w in counts)
    heard = [a["error"] for rank in job.said() for a in rank if a["rc"]]
    assert len(heard) == len(job.procs) and counts[0][0] > 0 and counts[1][0] > 0, (heard, counts)
    version = subprocess.getoutput("dpkg-query -W -f '${Version}' fpisa")
    print(f"upgraded from {os.path.basename(OLD)} to {version} while {counts[0][0]} sums of a job and {counts[1][0]} of a group went on, then {counts[2][0]} of a "
          f"new group, mismatches {wrong}; the group heard \"{sums.failed()[0]['error']}\", the job \"{heard[0]}\"")
    net.close()
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())

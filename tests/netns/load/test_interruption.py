# SPDX-License-Identifier: GPL-2.0-only
"""Interrupt a load. After a signal the load removes its objects. After a kill the next load completes the earlier one."""
import os
import random
import signal
import time

import pytest

from lab import BPFFS, COMMAND_S, FPISA, PIN, draw_seed, end, wait_until
from preload import interrupted
from refusals import state


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_load(lab, number):
    """After a signal, load removes the objects that it created. The signal then terminates it. An ignored signal has no effect."""
    net = lab(workers=1)
    before = state(net)

    def signalled(how):
        """Send the signal after the first pin. Return (status, stderr) of the load."""
        p = net.agg.spawn("env", f"--{how}-signal={int(number)}", FPISA, "load", "p0")
        wait_until("the first pin", lambda: os.path.exists(PIN + "/fpisa_abi"))
        p.send_signal(number)
        return p.wait(COMMAND_S), p.stderr.read()

    for _ in range(5):
        status, err = signalled("default")
        if status:
            break
        net.fpisa("unload")  # other work delayed this process, so the load ended before the signal came
    assert (status, err) == (-number, "fpisa: load: interrupted; the changes were undone\n")
    assert state(net) == before
    assert signalled("ignore") == (0, "") and net.json("status")["interfaces"]
    net.fpisa("unload")


def test_load_interrupted_while_it_attaches(lab, tmp_path):
    """The signal comes when the first of two interfaces has the program."""
    net = lab()
    before = state(net)
    status, _, err = interrupted(net.agg, tmp_path, "attach", 1, "load", *net.ports)
    assert status == -signal.SIGTERM and err.splitlines()[-1] == "fpisa: load: interrupted; the changes were undone"
    assert state(net) == before


@pytest.mark.cold
@pytest.mark.parametrize("options", [(), ("--cpus", "0")])
def test_load_killed(lab, options):
    """After the first load dies at any point, another load completes it, or says that the datapath is loaded already. Unload removes
    everything."""
    seed = draw_seed()
    rng = random.Random(seed)
    net = lab(workers=2)
    pins = os.listdir(BPFFS)
    t0 = time.monotonic()
    net.load(*options)
    whole = time.monotonic() - t0
    for _ in range(3):
        net.fpisa("unload")
        assert os.listdir(BPFFS) == pins
        p = net.agg.spawn(FPISA, "load", *net.ports, *options)
        time.sleep(rng.random() * whole)
        end(p)
        net.agg.started.remove(p)
        status, _, err = net.agg.try_run(FPISA, "load", *net.ports, *options)
        if status:
            assert "is loaded already" in err
            attached = [i["name"] for i in net.json("status")["interfaces"]]
            for dev in set(net.ports) - set(attached):
                net.fpisa("load", dev)
        net.add_job(1)
        net.check_sum(1, 3000)

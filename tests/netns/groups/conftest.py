# SPDX-License-Identifier: GPL-2.0-only
"""The manager that most tests of this directory begin with."""
import pytest

from groups import Groups


@pytest.fixture
def groups(lab, tmp_path):
    """groups(workers, *config) makes a Lab with a datapath and a manager."""
    made = []

    def make(workers, *config, sections="", serve=True, load=()):
        net = lab(workers=workers)
        net.load(*load)
        made.append(Groups(net, str(tmp_path), *config, sections=sections))
        if serve:
            made[-1].serve()
        return made[-1]

    yield make
    for g in made:
        g.close()

# SPDX-License-Identifier: GPL-2.0-only
"""Run PyTorch's own tests of torch.distributed. The tests that pass with Gloo pass with fpisa. tests/torch/test_versions.py sets
FPISA_TORCH and runs this."""
import json
import os

import pytest

from lab import HERE, SLOW
from training import Training

FOLDER = os.environ.get("FPISA_TORCH", "")
UPSTREAM = os.path.join(HERE, "torch_upstream.py")
TEST_S, RUN_S = 200 * SLOW, 3600 * SLOW
LEAST = 187  # tests that pass with Gloo
pytestmark = [pytest.mark.long, pytest.mark.skipif(not FOLDER, reason="a part of torch-long: FPISA_TORCH is not set")]

BROADCASTS = "test_ddp_profiling_torch_profiler"
# The tests that pass with Gloo and fail with fpisa, each with the reason. BROADCASTS passes with the option broadcast="fpisa".
KNOWN = {
    "test_ddp_logging_data_cpu": "PyTorch names each backend that it does not contain 'custom' in the log of DistributedDataParallel",
    BROADCASTS: "the profiler's event of a broadcast has Gloo's name, because Gloo performs it",
}
# Each part has its devices, the number of ranks, and words of the reason for which earlier parts skip its tests.
PARTS = [("cpu", 4, ""), ("mapped", 4, "accelerator"), ("mapped", 8, "small world size")]


class Upstream(Training):
    def run(self, backend, devices, size, tests, **options):
        """Run tests with all ranks on one worker. Return the result and the reason of each."""
        env = {**self.environment(0), "BACKEND": backend, "WORLD_SIZE": str(size), **options,
               "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(int(TEST_S))}
        process = self.net.worker[0].spawn(self.python, "-B", UPSTREAM, devices, *tests, env=env)
        out, err = process.communicate(timeout=RUN_S)
        assert process.returncode == 0, err[-3000:]
        return {test: (result, why) for test, result, why in map(json.loads, out.splitlines())}

    def failures(self, devices, size, tests):
        """Return the reason of each test that fails with fpisa, twice, because some tests have deadlines of a second."""
        for _ in range(2):
            results = self.run("fpisa", devices, size, tests) if tests else {}
            tests = [test for test, (result, _) in results.items() if result != "passed"]
        return {test: results[test][1] for test in tests}


def test_suite(lab, tmp_path):
    """Every test that passes with Gloo passes with fpisa, except KNOWN."""
    net = lab(workers=1, bridge=True)
    net.load()
    t = Upstream(net, str(tmp_path), FOLDER, os.path.join(FOLDER, "env", "bin", "python"))
    skipped, failed, wanted = {}, {}, 0
    for devices, size, reason in PARTS:
        gloo = t.run("gloo", devices, size, [test for test, why in skipped.items() if reason in why])
        skipped.update({test: why for test, (result, why) in gloo.items() if result == "skipped"})
        passed = [test for test, (result, _) in gloo.items() if result == "passed"]
        ours = t.failures(devices, size, passed)
        print(f"table: {devices}, {size} ranks: {len(passed) - len(ours)} of {len(passed)} tests that pass with Gloo", flush=True)
        failed.update(ours)
        wanted += len(passed)
        if BROADCASTS in ours:
            with_option = t.run("fpisa", devices, size, [BROADCASTS], BROADCAST="fpisa")[BROADCASTS]
            assert with_option == ("passed", ""), with_option
    t.close()
    for test, why in failed.items():
        print(f"table: fails with fpisa: {test}: {KNOWN.get(test, why)}")
    print(f"table: {wanted - len(failed)} of {wanted} tests pass")
    assert wanted >= LEAST and set(failed) == set(KNOWN), set(failed) ^ set(KNOWN)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check the RTL of paper/hw/ against include/fpisa/mau.h, and prove properties of it by yosys.

    paper/hw/check.py BUILD [--short] [--mutate]

Verilator runs fpisa_pipeline.v in every format, mode and rounding on boundary values and on
random chains (check/pipeline.cpp). It also runs the designs with which its area is compared, on
random operands (check/units.cpp). yosys proves the properties of check/proofs.v for all inputs.
--short runs fewer chains and proofs. --mutate adds the faults of check/mutants.py one at a time,
and fails unless each fault is detected. Random tests print FPISA_SEED. Set this variable to
repeat a run. Exit status 77 is a skip, because the tools are not available.
"""

import argparse
import glob
import os
import re
import shutil
import sys
import time

from common import HERE, RTL, SKIP, TREE, Failed, Tools, everywhere

sys.path.insert(0, os.path.join(HERE, "check"))
from mutants import MUTANTS, UNITS  # noqa: E402

CHAINS = 10_000_000
VECTORS = 1_000_000
SHORT_CHAINS, SHORT_VECTORS = 200_000, 100_000
MUTANT_CHAINS = 20_000

FORMATS = {"fp32": (8, 23), "fp16": (5, 10), "bf16": (8, 7)}
# The parameters of each module in proofs.v, in addition to those of the format.
PROOFS = {"round_trip": ["ROUNDING"], "commute": [], "neutral": ["MODE"], "cancel": ["MODE", "ROUNDING"],
          "one_event": ["MODE"]}
NAMES = {"MODE": {1: "fpisa", 2: "fpisa-a"}, "ROUNDING": {1: "down", 2: "nearest"}}

# Compile C++ with the compiler of the datapath, because g++ would be one more package. An unversioned clang++ may be too old
# for the release's C++ library.
CXX = os.environ.get("CXX") or next(
    (c for c in (*(f"clang++-{v}" for v in (19, 20, 21, 22, 18, 17, 16)), "g++", "clang++") if shutil.which(c)), None)

VERILATOR = ["--cc", "-O3", "-Wall", "-Wno-WIDTH", "-Wno-UNUSEDSIGNAL", "-Wno-DECLFILENAME", "--x-assign", "fast",
             "--x-initial", "fast", "--noassert"]


class Programs:
    """Simulations of the RTL in one directory, compiled into another directory."""

    def __init__(self, tools, rtl, out, optimise="-O2", harness=None):
        """`harness` is a folder of build() whose objects, except those of the RTL, are used here too."""
        self.tools, self.rtl, self.out, self.optimise, self.harness = tools, rtl, out, optimise, harness
        os.makedirs(out, exist_ok=True)

    def cxx(self, source, target, *flags):
        include = os.path.join(self.tools.verilator, "include")
        self.tools.must([CXX, "-c", "-std=gnu++17", *flags, "-isystem", include, "-isystem",
                         os.path.join(include, "vltstd"), "-I" + os.path.join(HERE, "check"),
                         "-I" + os.path.join(TREE, "tests"), source, "-o", target])

    def cc(self, source, target):
        self.tools.must([os.environ.get("CC", "gcc"), "-c", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
                         "-I" + os.path.join(TREE, "include"), "-I" + os.path.join(TREE, "tests"), source, "-o", target])

    def model(self, top):
        """Translate a top module of lanes.v to C++. Separate the code that runs often from the code that runs once."""
        folder = os.path.join(self.out, "V" + top)
        shutil.rmtree(folder, ignore_errors=True)
        self.tools.must([self.tools.bin("verilator_bin"), *VERILATOR, "--top-module", top, "--prefix", "V" + top, "-Mdir",
                         folder, *[os.path.join(self.rtl, v) for v in RTL], os.path.join(HERE, "check", "lanes.v")])
        for name, slow in (("fast", False), ("slow", True)):
            with open(os.path.join(folder, name + ".cc"), "w") as f:
                f.writelines(f'#include "{os.path.basename(s)}"\n' for s in sorted(glob.glob(os.path.join(folder, "*.cpp")))
                             if s.endswith("Slow.cpp") == slow)
        return folder

    def runtime(self):
        """Return jobs that compile Verilator's own runtime, which every simulation links."""
        jobs = []
        for name in ("verilated", "verilated_threads"):
            target = os.path.join(self.tools.out, name + ".o")
            if not os.path.exists(target):
                jobs.append((self.cxx, os.path.join(self.tools.verilator, "include", name + ".cpp"), target, "-O0"))
        return jobs

    def build(self, top, program, *others):
        folder = self.model(top)
        target = os.path.join(self.out, program)
        o = lambda name: os.path.join(folder, name + ".o")  # noqa: E731
        jobs = [(self.cxx, os.path.join(folder, "fast.cc"), o("fast"), self.optimise),
                (self.cxx, os.path.join(folder, "slow.cc"), o("slow"), "-O0")]
        if self.harness:
            with open(os.path.join(folder, f"V{top}.h")) as new, open(os.path.join(self.harness, f"V{top}.h")) as old:
                if new.read() != old.read():
                    raise Failed(f"V{top}.h differs between the RTL and the RTL with a fault")
        else:
            jobs += [(self.cxx, os.path.join(HERE, "check", program + ".cpp"), o(program), "-O2", "-Wall", "-Wextra",
                      "-isystem", folder)]
            jobs += [(self.cc, source, o(os.path.basename(source))) for source in others]
        everywhere(jobs)
        harness = self.harness or folder
        self.tools.must([CXX, o("fast"), o("slow"), *[os.path.join(harness, os.path.basename(n) + ".o") for n in
                                                      (program, *others)],
                         *[os.path.join(self.tools.out, n + ".o") for n in ("verilated", "verilated_threads")],
                         "-lpthread", "-o", target])
        return target

    def pipeline(self):
        return self.build("lanes", "pipeline", os.path.join(HERE, "check", "reference.c"),
                          os.path.join(TREE, "tests", "vectors.c"))

    def units(self):
        return self.build("units", "units", os.path.join(TREE, "tests", "vectors.c"))


def newest(*patterns):
    return max(os.path.getmtime(f) for p in patterns for f in glob.glob(os.path.join(TREE, p)))


def programs(tools):
    """Return the two simulations, compiled again if any of their sources is newer."""
    p = Programs(tools, HERE, os.path.join(tools.out, "check"))
    targets = [os.path.join(p.out, n) for n in ("pipeline", "units")]
    source = newest("paper/hw/*.v", "paper/hw/check/*", "paper/hw/*.py", "include/fpisa/*.h", "tests/vectors.*", "paper/hw/tools")
    if not all(os.path.exists(t) and os.path.getmtime(t) > source for t in targets):
        everywhere(p.runtime())
        everywhere([(p.pipeline,), (p.units,)])
    return targets


def prove(tools, rtl, module, parameters):
    """Return whether yosys proves that `bad` is never 1. Return False if yosys finds a counterexample."""
    chparam = " ".join(f"-chparam {k} {v}" for k, v in parameters.items())
    status, out = tools.run([tools.bin("yosys"), "-q", "-p", f"read_verilog {os.path.join(rtl, RTL[0])} "
                             f"{os.path.join(HERE, 'check', 'proofs.v')}; hierarchy -check -top {module} {chparam}; proc; "
                             "flatten; opt; check -assert; sat -prove bad 0 -verify -set-def-inputs -timeout 300"])
    if status and "proof did fail" not in out:
        raise Failed(f"yosys, {module} {parameters}:\n{out[-2000:]}")
    return status == 0


def proofs(formats, modules=PROOFS):
    """Yield (module, parameters, property) for every proof."""
    for module in modules:
        for name in formats:
            cases = [{}]
            for parameter in PROOFS[module]:
                cases = [{**c, parameter: v} for c in cases for v in (1, 2)]
            for c in cases:
                parameters = dict(zip("EM", FORMATS[name]), **c)
                yield module, parameters, " ".join([module, name, *(NAMES[k][v] for k, v in c.items())])


def check(tools, short):
    t0 = time.monotonic()
    pipeline, units = programs(tools)
    print(f"hw: built, {time.monotonic() - t0:.0f} s", flush=True)
    parts = 1 if short else 2
    chains = SHORT_CHAINS if short else -(-CHAINS // parts // 12) * 12 * parts
    todo = list(proofs(["fp32"] if short else FORMATS, ["round_trip", "commute"] if short else PROOFS))
    jobs = [(tools.run, [pipeline, str(chains), str(i), str(parts)]) for i in range(parts)]
    jobs += [(tools.run, [units, str(SHORT_VECTORS if short else VECTORS)])]
    jobs += [(prove, tools, HERE, module, parameters) for module, parameters, _ in todo]
    results = everywhere(jobs)
    ok = True
    for status, out in results[:parts + 1]:
        print(out, end="")
        ok = ok and status == 0
    for (_, _, sentence), proven in zip(todo, results[parts + 1:]):
        print(f"{'proven' if proven else 'REFUTED'}: {sentence}")
        ok = ok and proven
    print(f"hw: {chains} chains, {len(todo)} proofs: {'all as mau.h says' if ok else 'FAILED'}, "
          f"{time.monotonic() - t0:.0f} s")
    return ok


def plant(text, mutant):
    """Return the text with the fault in its unit. The text to replace must occur exactly once in the module."""
    start = text.index(f"\nmodule {mutant.module} ")
    end = text.index("\nendmodule", start)
    body = text[start:end]
    if body.count(mutant.old) != 1:
        raise Failed(f"check/mutants.py: {mutant.module} has this line {body.count(mutant.old)} times instead of once: {mutant.old}")
    return text[:start] + body.replace(mutant.old, mutant.new) + text[end:]


def planted(tools, mutant, file, folder):
    """Make a copy of the RTL with the fault in a separate folder."""
    rtl = os.path.join(tools.out, "mutants", folder)
    os.makedirs(rtl, exist_ok=True)
    for v in RTL:
        shutil.copy(os.path.join(HERE, v), rtl)
    path = os.path.join(rtl, file)
    with open(path) as f:
        text = plant(f.read(), mutant)
    with open(path, "w") as f:
        f.write(text)
    return rtl


def with_fault(tools, rtl, top):
    return Programs(tools, rtl, os.path.join(rtl, "out"), "-O0", os.path.join(tools.out, "check", "V" + top))


def caught(status, out):
    """Return whether the simulation ended because of mismatches, and the end of the last line of its output."""
    last = (out.strip() or "no output").splitlines()[-1]
    return status == 1 and re.search(r"[1-9]\d* mismatches$", last) is not None, last.split(", ")[-1]


def try_mutant(tools, mutant, number):
    """Return whether the simulation detects the fault, the simulation's message, and whether the proof fails."""
    rtl = planted(tools, mutant, RTL[0], str(number))
    found = caught(*tools.run([with_fault(tools, rtl, "lanes").pipeline(), str(MUTANT_CHAINS)]))
    refuted = any(not prove(tools, rtl, module, parameters) for module, parameters, _ in
                  proofs(["fp32"], [mutant.proof] if mutant.proof else []))
    shutil.rmtree(rtl)
    return *found, refuted


def try_unit(tools, mutant, number):
    rtl = planted(tools, mutant, mutant.file, f"unit{number}")
    found = caught(*tools.run([with_fault(tools, rtl, "units").units(), str(SHORT_VECTORS)]))
    shutil.rmtree(rtl)
    return found


def mutate(tools):
    results = everywhere([(try_mutant, tools, m, i) for i, m in enumerate(MUTANTS)] +
                         [(try_unit, tools, m, i) for i, m in enumerate(UNITS)])
    missed = 0
    for m, (found, said, refuted) in zip(MUTANTS, results):
        missed += not found or (m.proof is not None and not refuted)
        proof = f", {m.proof} {'refuted' if refuted else 'NOT REFUTED'}" if m.proof else ""
        print(f"{'caught' if found else 'MISSED'}: {m.unit}: {m.what}: {said}{proof}")
    for m, (found, said) in zip(UNITS, results[len(MUTANTS):]):
        missed += not found
        print(f"{'caught' if found else 'MISSED'}: {m.unit}: {m.what}: {said}")
    units = {m.unit for m in MUTANTS if re.fullmatch(r"MAU\d", m.unit)}
    vain = set(PROOFS) - {m.proof for m in MUTANTS}
    if vain:
        print(f"check/mutants.py: no fault for {', '.join(sorted(vain))}")
    beside = {m.unit for m in UNITS}
    print(f"hw: {len(results)} faults in {len(units)} units, the registers and {len(beside)} units beside them, "
          f"{missed} missed")
    return not missed and not vain and len(units) == 9


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--mutate", action="store_true")
    args = parser.parse_args()
    if not CXX:
        print("skip: hw: no C++ compiler; run make deps")
        return SKIP
    tools = Tools(args.build)
    try:
        ok = check(tools, args.short)
        if args.mutate and ok:
            ok = mutate(tools)
    except Failed as e:
        print(f"hw: {e}")
        ok = False
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

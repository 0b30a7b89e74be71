#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compute the costs of the RTL in paper/hw/, which are the tables of doc/hardware.md.

    paper/hw/area.py BUILD [--update | --page-only]

yosys and abc map every design to the standard cells of osu018 and osu050 twice, once for area
and once for delay. The paper also optimises for area, because its 1 GHz clock gives the units
six times the time that they need. OpenSTA computes delay and power. The program prints the
tables and compares them with the page. --update writes the tables to the page. --page-only only
checks whether the RTL or this file has changed since the page was written. Exit status 77 is a
skip, because the tools are not available.
"""

import argparse
import ast
import difflib
import hashlib
import json
import os
import re
import sys
import time

from common import HERE, RTL, TREE, Failed, Tools, everywhere

PAGE = os.path.join(TREE, "doc", "hardware.md")
LIBRARIES = {"osu018": "osu018/osu018_stdcells.lib", "osu050": "osu050/osu05_stdcells.lib"}
LOAD_FF = {"osu018": 30, "osu050": 60}
PERIOD_NS = 20  # period of the clock for power figures
ACTIVITY = 0.2

# Do not use abc's own script for delay. The script ends in a ripple adder, because dc2 undoes the parallel prefix adders of
# yosys. A mapper's network may be out of order, and then abc crashes in the next command. So run topo after each mapping.
PREPARE = "strash; &get -n; &fraig -x; &put; scorr"
SCRIPTS = {
    "area": f"{PREPARE}; dc2; dch -f; amap -m; topo; buffer -c; topo; dnsize -D 1000000; stime -p",
    "delay": f"{PREPARE}; dch -f; map -D 1; topo; buffer -c; topo; upsize -D 1; dnsize -D 1; stime -p",
}

ALUS = {(0, 0): "none", (1, 0): "immediate", (1, 1): "immediate, arithmetic too", (2, 0): "second operand",
        (2, 1): "second operand, arithmetic too", (3, 0): "5-bit register", (3, 1): "5-bit register, arithmetic too",
        (4, 0): "32-bit register", (4, 1): "32-bit register, arithmetic too"}
BASELINES = [(0, 0), (1, 0), (1, 1)]
ATOMS = {(0, 0): "plain RAW, no condition", (0, 1): "RAW", (1, 1): "RSAW, right by a packet field",
         (2, 1): "RSAW, right by a register of its own", (3, 1): "RSAW, left and right by a register of its own"}
WIDTHS = [4, 8, 11, 16, 24]  # FP8, BF16, FP16, a width in between, FP32
FORMATS = {"FP32": (8, 23), "FP16": (5, 10), "BF16": (8, 7)}
MODES = {"fpisa": 1, "fpisa-a": 2}
# The units with their parameters for FP32. Units that differ by mode or rounding have a variant for each.
UNITS = {"mau1_implied_one": "E M", "mau2_exponent": "E M MODE", "mau3_align": "MODE", "mau4_add": "MODE",
         "mau5_sign": "", "mau6_normalise": "M", "mau7_exponent": "E M", "mau8_assemble": "E M ROUNDING"}


def designs():
    """Return {name: (top module, parameters)}."""
    d = {}
    for shift, arithmetic in ALUS:
        d[f"alu {shift} {arithmetic}"] = ("banzai_alu", {"SHIFT": shift, "ARITHMETIC": arithmetic})
    for fpu in (1, 2):
        d[f"alu fpu {fpu}"] = ("banzai_alu", {"FPU": fpu})
    for shift, predicated in ATOMS:
        d[f"raw {shift} {predicated}"] = ("banzai_raw", {"SHIFT": shift, "PREDICATED": predicated})
    for w in [*WIDTHS, 32]:
        for kind in ("mul", "add", "bool") if w in WIDTHS else ("add", "bool"):
            d[f"{kind} {w}"] = (f"mantissa_{kind}", {"W": w})
    for name, (e, m) in FORMATS.items():
        d[f"fp_mul {name}"] = ("fp_mul", {"E": e, "M": m})
        for mode, number in MODES.items():
            d[f"stream {name} {mode}"] = ("fpisa_stream", {"E": e, "M": m, "MODE": number})
    d["fp32_add"] = ("fp32_add", {})
    d["fp32_accumulate"] = ("fp32_accumulate", {})
    d["pipeline"] = ("fpisa_pipeline", {})
    for unit, names in UNITS.items():
        d[unit] = ("fpisa_" + unit, {})
        if "MODE" in names:
            d[unit + " fpisa-a"] = ("fpisa_" + unit, {"MODE": 2})
        if "ROUNDING" in names:
            d[unit + " nearest"] = ("fpisa_" + unit, {"ROUNDING": 2})
    return d


class Cost:
    """The cost of a design in a library. Area, flip-flops and power are those of the mapping for area, and the delay is that of
    the mapping for delay.
    """

    def __init__(self, area, registers, power_mw, delay_ns):
        self.area, self.registers, self.power, self.delay = area, registers, power_mw, delay_ns


def liberty_of(tools, library):
    return os.path.join(tools.usr, "share", "qflow", "tech", LIBRARIES[library])


def commands(tools, out, top, parameters):
    """Return the script of yosys for one synthesis and four mappings, and the scripts of abc by file name."""
    chparam = " ".join(f"-chparam {k} {v}" for k, v in parameters.items())
    script = [f"read_verilog {' '.join([*RTL, 'area.v'])}", f"hierarchy -check -top {top} {chparam}",
              f"synth -flatten -top {top}", "rename -top top", "check -assert", "design -save synthesised"]
    files = {}
    for library in LIBRARIES:
        liberty, constraint = liberty_of(tools, library), os.path.join(out, library + ".constraint")
        files[constraint] = f"set_driving_cell INVX2\nset_load {LOAD_FF[library]} [all_outputs]\n"
        for goal, text in SCRIPTS.items():
            net = os.path.join(out, f"{library}.{goal}")
            files[net + ".abc"] = "\n".join(text.split("; ")) + "\n"
            script += ["design -load synthesised", f"dfflibmap -liberty {liberty}", "opt -full",
                       f"abc -liberty {liberty} -constr {constraint} -script {net}.abc", "opt_clean -purge",
                       f"tee -o {net}.stat stat -liberty {liberty}", f"write_verilog -noattr -noexpr -nohex {net}.v"]
    return "; ".join(script), files


def measure(tools, name, top, parameters):
    """Return {library: Cost}. Reuse the results of earlier runs with the same sources and commands."""
    out = os.path.join(tools.out, "area", name.replace(" ", "_"))
    os.makedirs(out, exist_ok=True)
    script, files = commands(tools, out, top, parameters)
    key = hashlib.sha256("".join([rtl(), script, *files.values(), TCL, versions(tools)]).encode()).hexdigest()
    kept = os.path.join(out, "cost.json")
    if os.path.exists(kept):
        with open(kept) as f:
            old = json.load(f)
        if old["key"] == key:
            return {library: Cost(*old[library]) for library in LIBRARIES}
    for path, text in files.items():
        with open(path, "w") as f:
            f.write(text)
    tools.must([tools.bin("yosys"), "-q", "-p", script])
    costs = {}
    for library in LIBRARIES:
        net = os.path.join(out, library)
        with open(net + ".area.stat") as f:
            stat = f.read()
        area = re.search(r"Chip area for module.*: ([0-9.]+)", stat)
        if not area or not float(area[1]):
            raise Failed(f"{name}, {library}: the report has no area; see {net}.area.stat")
        registers = sum(int(n) for n in re.findall(r"^ +DFF\w+ +(\d+)$", stat, re.M))
        costs[library] = [float(area[1]), registers, power(analyse(tools, net + ".area", library), name),
                          delay(analyse(tools, net + ".delay", library), name)]
    with open(kept, "w") as f:
        json.dump({"key": key, **costs}, f)
    return {library: Cost(*cost) for library, cost in costs.items()}


# The clock is ideal. A single driver cell would give the flip-flops slow edges and thirty times the power.
TCL = """read_liberty {liberty}
read_verilog {net}.v
link_design top
set inputs [all_inputs]
create_clock -name clk -period {period} {clock}
set clk [lsearch $inputs {clock}]
set inputs [lreplace $inputs $clk $clk]
set_input_delay 0 -clock clk $inputs
set_output_delay 0 -clock clk [all_outputs]
set_driving_cell -lib_cell INVX2 $inputs
set_load {load} [all_outputs]
set_power_activity -input -activity {activity} -duty 0.5
report_checks -path_delay max -digits 4
report_power -digits 6
exit
"""


def analyse(tools, net, library):
    """Return OpenSTA's reports on a netlist. Inputs arrive with the clock, and have the driving cell that abc assumed."""
    with open(net + ".v") as f:
        clocked = re.search(r"^ +input clk;", f.read(), re.M)
    text = TCL if clocked else "".join(line for line in TCL.splitlines(True) if "$clk" not in line and "set clk" not in line)
    with open(net + ".tcl", "w") as f:
        f.write(text.format(liberty=liberty_of(tools, library), net=net, period=PERIOD_NS, activity=ACTIVITY,
                            load=LOAD_FF[library] / 1000, clock="[get_ports clk]" if clocked else ""))
    out = tools.must([tools.bin("sta"), "-no_splash", "-exit", net + ".tcl"])
    with open(net + ".sta", "w") as f:
        f.write(out)
    return out


def delay(report, name):
    slack = re.search(r"(-?[0-9.]+) +slack", report)
    if not slack:
        raise Failed(f"{name}: OpenSTA reports no path:\n{report[-800:]}")
    return PERIOD_NS - float(slack[1])


def power(report, name):
    total = re.search(r"^Total +(\S+) +(\S+) +(\S+) +(\S+)", report, re.M)
    if not total:
        raise Failed(f"{name}: OpenSTA reports no power:\n{report[-800:]}")
    return float(total[4]) * 1e3  # in mW


# -- tables ------------------------------------------------------------------------------


def more(new, old):
    return f"{100 * (new / old - 1):+.1f}%"


def times(new, old):
    return f"{new / old:.2f} x"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])


def figures(c):
    """Return area, delay and power with both libraries. Every table of designs has these columns."""
    return [f"{c[lib].area:.0f}" for lib in LIBRARIES] + [f"{c[lib].delay:.2f}" for lib in LIBRARIES] \
        + [f"{c[lib].power:.2f}" for lib in LIBRARIES]


FIGURES = ["area, µm²: osu018", "area: osu050", "delay, ns: osu018", "delay: osu050", "power, mW: osu018", "power: osu050"]


def tables(cost):
    """Return {name: text} for every block of the page."""
    both = lambda f: [f(lib) for lib in LIBRARIES]  # noqa: E731
    area = lambda name: lambda lib: cost[name][lib].area  # noqa: E731
    ratio = lambda kind, what, new, old: [kind(getattr(cost[new][lib], what), getattr(cost[old][lib], what))  # noqa: E731
                                          for lib in LIBRARIES]
    t = {}

    # Compare with the paper's printed figures. Include all variants of the designs that the figures could mean.
    pairs = [("ALU, second operand / immediate", "alu 2 0", "alu 1 0", 0),
             ("ALU, 32-bit register / immediate", "alu 4 0", "alu 1 0", 0),
             ("ALU, 32-bit register, arithmetic too / immediate", "alu 4 1", "alu 1 0", 0),
             ("ALU, second operand / no shifter", "alu 2 0", "alu 0 0", 0),
             ("ALU, 32-bit register / no shifter", "alu 4 0", "alu 0 0", 0),
             ("RSAW, right by a packet field / RAW", "raw 1 1", "raw 0 1", 1),
             ("RSAW, right by a register of its own / RAW", "raw 2 1", "raw 0 1", 1),
             ("RSAW, left and right / RAW", "raw 3 1", "raw 0 1", 1),
             ("RSAW, right by a packet field / plain RAW", "raw 1 1", "raw 0 0", 1)]
    paper = [("+22.4%", "+1.5%", "+13.0%"), ("+35.0%", "+13.5%", "+13.6%")]
    rows = [[what, paper[p][0], *ratio(more, "area", new, old), paper[p][1], *ratio(more, "delay", new, old), paper[p][2],
             *ratio(more, "power", new, old)] for what, new, old, p in pairs]
    for what, new in (("ALU + FP32 adder / ALU", "alu fpu 1"), ("ALU + adder + multiplier / ALU", "alu fpu 2")):
        rows.append([what, "7.59 x", *ratio(times, "area", new, "alu 1 0"), "1.02 x", *ratio(times, "delay", new, "alu 1 0"),
                     "6.04 x", *ratio(times, "power", new, "alu 1 0")])
    t["paper"] = table(["comparison", "area: paper", "area: osu018", "area: osu050", "delay: paper", "delay: osu018", "delay: osu050",
                        "power: paper", "power: osu018", "power: osu050"], rows)

    t["alu"] = table(["ALU, distance of its shifter", *FIGURES],
                     [[name, *figures(cost[f"alu {s} {a}"])] for (s, a), name in ALUS.items()])
    head = ["area of the ALU with"]
    for b in BASELINES:
        head += [f"over {ALUS[b]}: {lib}".replace("none", "no shifter") for lib in LIBRARIES]
    t["baselines"] = table(head, [[name, *sum((ratio(more, "area", f"alu {s} {a}", f"alu {b[0]} {b[1]}") for b in BASELINES), [])]
                                  for (s, a), name in ALUS.items() if s > 1])
    t["raw"] = table(["atom", *FIGURES, "area over RAW: osu018", "area over RAW: osu050"],
                     [[name, *figures(cost[f"raw {s} {p}"]), *ratio(more, "area", f"raw {s} {p}", "raw 0 1")]
                      for (s, p), name in ATOMS.items()])

    # The area of the multiplier by width, relative to the adder and the boolean module of the same width, and to Banzai's
    # modules of 32 bits.
    rows = []
    for w in WIDTHS:
        both_of = lambda w: lambda lib: cost[f"add {w}"][lib].area + cost[f"bool {w}"][lib].area  # noqa: E731
        mul = both(area(f"mul {w}"))
        rows.append([f"{w} x {w}", *(f"{cost[f'{kind} {w}']['osu018'].area:.0f}" for kind in ("mul", "add", "bool")),
                     *sum(([times(m, o) for m, o in zip(mul, both(other))]
                           for other in (area(f"add {w}"), both_of(w), both_of(32))), [])])
    t["multiplier"] = table(["mantissas", "multiplier, µm² (osu018)", "adder, µm²", "boolean, µm²", "over the adder: osu018", "over the adder: osu050",
                             "over adder + boolean: osu018", "over adder + boolean: osu050", "over those of 32 bits: osu018",
                             "over those of 32 bits: osu050"], rows)

    rows = [[unit.replace("_", " ", 1).replace("mau", "MAU") + (" " + variant if variant else ""), *figures(cost[name])]
            for name in cost for unit, _, variant in [name.partition(" ")] if unit in UNITS]
    t["units"] = table(["unit, FP32", *FIGURES], sorted(rows))

    rows = [[f"{name} {mode}", cost[f"stream {name} {mode}"]["osu018"].registers, *figures(cost[f"stream {name} {mode}"])]
            for name in FORMATS for mode in MODES]
    rows.append(["FP32 fpisa, valid/ready", cost["pipeline"]["osu018"].registers, *figures(cost["pipeline"])])
    t["pipeline"] = table(["pipeline", "flip-flops", *FIGURES], rows)

    # The cost of floating point in a switch stage with one ALU and one RAW, for three designs. noqa: E731
    stage = lambda alu, raw: lambda lib: cost[alu][lib].area + cost[raw][lib].area  # noqa: E731
    base = both(stage("alu 1 0", "raw 0 1"))
    rows = []
    for what, f in [("default ALU + RAW", stage("alu 1 0", "raw 0 1")),
                    ("FPISA: ALU by a second operand + RSAW", stage("alu 2 1", "raw 1 1")),
                    ("FPISA: ALU by a 32-bit register + RSAW, left and right", stage("alu 4 1", "raw 3 1")),
                    ("ALU with FP32 adder + RAW", stage("alu fpu 1", "raw 0 1")),
                    ("ALU with FP32 adder and multiplier + RAW", stage("alu fpu 2", "raw 0 1"))]:
        a = both(f)
        rows.append([what, *(f"{x:.0f}" for x in a), *(more(x, b) for x, b in zip(a, base))])
    for what, name in [("FP32 adder alone", "fp32_add"), ("FP32 adder on a register", "fp32_accumulate"),
                       ("the nine units, FP32, fpisa", "stream FP32 fpisa"),
                       ("the nine units, FP32, fpisa-a", "stream FP32 fpisa-a"), ("FP32 multiplier alone", "fp_mul FP32"),
                       ("FP16 multiplier alone", "fp_mul FP16"), ("BF16 multiplier alone", "fp_mul BF16")]:
        rows.append([what, *(f"{x:.0f}" for x in both(area(name))), *(times(x, b) for x, b in zip(both(area(name)), base))])
    t["fpu"] = table(["stage or unit", "area, µm²: osu018", "area: osu050", "against the first row: osu018", "against the first row: osu050"], rows)
    rows = [[what, *figures(cost[name])] for what, name in
            [("ALU", "alu 1 0"), ("ALU + FP32 adder", "alu fpu 1"), ("ALU + adder + multiplier", "alu fpu 2"),
             ("FP32 adder on a register, one cycle", "fp32_accumulate"), ("the nine units, FP32, fpisa", "stream FP32 fpisa")]]
    t["fpu-delay"] = table(["unit", *FIGURES], rows)
    return t


def versions(tools):
    """Return the versions of the packages, which are parts of their file names."""
    with open(os.path.join(tools.root, "complete")) as f:
        packages = [line.split("_")[:2] for line in f if line.endswith(".deb\n")]
    return ", ".join(f"{name} {version.replace('%3a', ':')}" for name, version in packages
                     if name.startswith(("yosys", "berkeley-abc", "opensta", "qflow"))) + "."


# -- page ---------------------------------------------------------------------------------

BLOCK = re.compile(r"(<!-- hw-area (\S+) -->\n).*?(<!-- /hw-area -->)", re.S)
SOURCES = re.compile(r"<!-- hw-area-sources (\w*) -->")


def rtl():
    """Return the sources without their comments."""
    text = ""
    for name in [*RTL, "area.v"]:
        with open(os.path.join(HERE, name)) as f:
            text += " ".join(re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S).split()) + "\n"
    return text


def fingerprint(text):
    """Return a hash of the tables in `text`, of the RTL, and of the code of this file without comments."""
    with open(os.path.abspath(__file__)) as f:
        parts = [rtl(), ast.dump(ast.parse(f.read())), *(m[0] for m in BLOCK.finditer(text))]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def page(text, blocks):
    """Return the page with these blocks. Every block must have a place in the page, and every place must have a block."""
    places = [m[2] for m in BLOCK.finditer(text)]
    if sorted(places) != sorted(blocks) or not SOURCES.search(text):
        raise Failed(f"doc/hardware.md has blocks {' '.join(places)}, but the tables are {' '.join(blocks)}")
    text = BLOCK.sub(lambda m: m[1] + blocks[m[2]] + "\n" + m[3], text)
    return SOURCES.sub(f"<!-- hw-area-sources {fingerprint(text)} -->", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    args = parser.parse_args()
    with open(PAGE) as f:
        text = f.read()
    stale = "run `make hw-area UPDATE=1` and read what changed"
    if args.page_only:
        found = SOURCES.search(text)
        same = found and found[1] == fingerprint(text)
        print(f"hw-area: doc/hardware.md is {'of these sources' if same else 'of other sources, or edited: ' + stale}")
        return 0 if same else 1
    t0 = time.monotonic()
    tools = Tools(args.build)
    try:
        names = designs()
        results = everywhere([(measure, tools, name, *d) for name, d in names.items()])
        blocks = tables(dict(zip(names, results)))
        blocks["tools"] = versions(tools)
        new = page(text, blocks)
    except Failed as e:
        print(f"hw-area: {e}")
        return 1
    for name, block in blocks.items():
        print(f"{name}\n\n{block}\n")
    print(f"hw-area: {len(names)} designs, {2 * len(LIBRARIES)} mappings each, {time.monotonic() - t0:.0f} s")
    if new == text:
        print("hw-area: doc/hardware.md says the same")
        return 0
    if args.update:
        with open(PAGE, "w") as f:
            f.write(new)
        print("hw-area: doc/hardware.md is up to date")
        return 0
    print("".join(difflib.unified_diff(text.splitlines(True), new.splitlines(True), "doc/hardware.md", "printed", n=0)))
    print(f"hw-area: doc/hardware.md says something else: {stale}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-2.0-only
"""Faults that `make hw HW_MUTATE=1` adds to the RTL one at a time.

Each fault must be detected. Each unit has at least two faults. One is a simple fault, and one affects only certain chains,
signs or ties. `proof` names the proof of proofs.v that must fail with the fault. Every proof fails for some fault. The
faults in UNITS are in the designs whose area is compared with that of the pipeline.
"""

import collections

Mutant = collections.namedtuple("Mutant", "unit what module old new proof", defaults=[None])

MUTANTS = [Mutant(*m) for m in [
    ("MAU0", "the last fraction bit lost", "fpisa_mau0_extract", "= word", "= {word[E + M:1], 1'b0}", "round_trip"),
    ("MAU0", "the sign of the exponent's top bit", "fpisa_mau0_extract", "= word", "= {word[E + M - 1], word[E + M - 1:0]}"),
    ("MAU1", "subnormals at exponent 0", "fpisa_mau1_implied_one", "e[0] | subnormal", "e[0]", "round_trip"),
    ("MAU1", "-Inf is +Inf too", "fpisa_mau1_implied_one", "inf & ~sign", "inf"),
    ("MAU1", "negative values one's complement", "fpisa_mau1_implied_one", "-magnitude", "~magnitude", "cancel"),
    ("MAU2", "overwrites a shift early (fpisa-a)", "fpisa_mau2_exponent", "up > HEADROOM", "up >= HEADROOM"),
    ("MAU2", "the exponent stays at d = 1", "fpisa_mau2_exponent", "first | d > 0 ? e", "first | d > 1 ? e", "commute"),
    ("MAU2", "sticky bits outlive their round", "fpisa_mau2_exponent", "first ? 3'b0 : stored_sticky", "stored_sticky"),
    ("MAU2", "distances over 63 wrap", "fpisa_mau2_exponent", "down > R ? R : {1'b0, down[5:0]}", "{1'b0, down[5:0]}"),
    ("MAU3", "left shifts one short (fpisa-a)", "fpisa_mau3_align", "-in[4:0]", "~in[4:0]"),
    ("MAU3", "left shifts are not counted", "fpisa_mau3_align", "left_shifted = in[6]", "left_shifted = 0"),
    ("MAU3", "right shifts count as left (fpisa-a)", "fpisa_mau3_align", "left_shifted = in[6]", "left_shifted = |in",
     "one_event"),
    ("MAU3, 4", "shifts in zeros", "fpisa_shift_right", "$signed({m, {R{1'b0}}}) >>> by", "{m, {R{1'b0}}} >> by"),
    ("MAU3, 4", "one lost bit is no rounding", "fpisa_shift_right", "lost = |wide[R - 1:0]", "lost = |wide[R - 2:0]"),
    ("MAU4", "no saturation downwards", "fpisa_saturating_add", "(b[R - 1] ^ sum[R - 1])", "(b[R - 1] ^ sum[R - 1]) & ~a[R - 1]"),
    ("MAU4", "saturates one short", "fpisa_saturating_add", "{R - 1{~a[R - 1]}}", "{{R - 2{~a[R - 1]}}, 1'b0}"),
    ("MAU4", "a first contribution overwrites", "fpisa_mau4_add", "& ~first ", ""),
    ("MAU4", "a shift by 32 is none", "fpisa_mau4_add", "shift(kept, st[5:0],", "shift(kept, st[4:0],"),
    ("MAU5", "magnitudes one's complement", "fpisa_mau5_sign", "-m", "~m", "neutral"),
    ("MAU5", "-1 is positive", "fpisa_mau5_sign", "sign = m[R - 1]", "sign = m[R - 1] & ~&m"),
    ("MAU6", "the sticky bit is one bit", "fpisa_mau6_normalise", "|top[DROP:0]", "top[DROP]"),
    ("MAU6", "a zero byte not skipped", "fpisa_clz32", "n3 ? {a[23:0], 8'b0} : a", "a", "round_trip"),
    ("MAU6", "leading zeros of three bits", "fpisa_clz32", "n1 ? ~c[29] : ~c[31]", "~c[31]"),
    ("MAU7", "one too large", "fpisa_mau7_exponent", "R - 2 - M", "R - 1 - M", "round_trip"),
    ("MAU7", "subnormals one short", "fpisa_mau7_exponent", "less < 0 ? -less", "less < 0 ? ~less", "round_trip"),
    ("MAU8", "ties go down", "fpisa_mau8_assemble", "rest | kept[0]", "rest"),
    ("MAU8", "down rounds the magnitude", "fpisa_mau8_assemble", "sign & inexact", "1'b0"),
    ("MAU8", "the largest value overflows", "fpisa_mau8_assemble", "magnitude >= BEYOND", "magnitude >= BEYOND - 1", "round_trip"),
    ("MAU8", "Inf survives its opposite", "fpisa_mau8_assemble", "sticky[0] | (sticky[1] & sticky[2])", "sticky[0]"),
    ("registers", "a bubble is added", "fpisa_pipeline", "if (valid[3])", "if (1'b1)"),
    ("registers", "a stall loses a result", "fpisa_pipeline", "out_ready | ~valid[8]", "1'b1"),
]]

Unit = collections.namedtuple("Unit", "unit what file module old new")

UNITS = [Unit(*m) for m in [
    ("shifter", "the sign is not kept", "banzai_alu.v", "banzai_shifter", "& a[31]", "& 1'b0"),
    ("shifter", "32 and more shift by their low bits", "banzai_alu.v", "banzai_shifter", "|by[DISTANCE - 1:5] ?",
     "1'b0 ?"),
    ("ALU", "a comparison without its carry", "banzai_alu.v", "banzai_alu", "+ minus", "+ 1'b0"),
    ("ALU", "the third field never tested", "banzai_alu.v", "banzai_alu", "wire [31:0] test = sel[5] ? sel[4] ? c : p2",
     "wire [31:0] test = sel[5] ? c"),
    ("atom", "adds although the condition fails", "banzai_raw.v", "banzai_raw", "assign holds = sel[7]",
     "assign holds = 1'b1 | sel[7]"),
    ("atom", "shifts left where right is asked", "banzai_raw.v", "banzai_raw", "SHIFT == 3 & to_left", "SHIFT == 3"),
    ("FP32 adder", "no sticky bit", "fp32_add.v", "fp32_add", "|wide[27:0]", "wide[27]"),
    ("FP32 adder", "Inf less Inf is Inf", "fp32_add.v", "fp32_add", " | (inf_a & inf_b & minus)", ""),
    ("multiplier", "ties go up", "fp_mul.v", "fp_mul", "(|m[P:0] | m[P + 2])", "1'b1"),
    ("multiplier", "Inf times 0 is Inf", "fp_mul.v", "fp_mul", " | (&ea & zero_b)", ""),
]]

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Properties that yosys proves of the units for every input (prove() in paper/hw/check.py).
 * A module's output `bad` can never be 1. Units are connected through ports, and not by
 * hierarchical references, which yosys 0.23 treats as undriven wires without a warning.
 */

/* MAU0 and MAU1 convert a first contribution to registers. */
module decode #(parameter E = 8, M = 23) (input [E + M:0] word, output [E - 1:0] e, output [2:0] sticky, output [31:0] m);
	wire sign;
	wire [E - 1:0] field;
	wire [M - 1:0] frac;

	fpisa_mau0_extract #(E, M) mau0(word, sign, field, frac);
	fpisa_mau1_implied_one #(E, M) mau1(sign, field, frac, e, sticky, m);
endmodule

/* MAU2, MAU3 and MAU4 add a decoded value to registers. */
module add #(parameter E = 8, M = 23, MODE = 1) (
	input [E - 1:0] stored, input [2:0] stored_sticky, input [31:0] stored_m,
	input [E - 1:0] e, input [2:0] sticky, input [31:0] m,
	output [E - 1:0] e_out, output [2:0] sticky_out, output [31:0] m_out, output [3:0] events
);
	wire signed [6:0] in;
	wire [7:0] st;
	wire [31:0] aligned;
	wire rounded_in, rounded_st;

	fpisa_mau2_exponent #(E, M, 32, MODE) mau2(1'b0, e, sticky, stored, stored_sticky, in, st, e_out, sticky_out);
	fpisa_mau3_align #(32, MODE) mau3(in, m, aligned, rounded_in, events[2]);
	fpisa_mau4_add #(32, MODE) mau4(1'b0, st, aligned, stored_m, m_out, rounded_st, events[1], events[3]);
	assign events[0] = rounded_in | rounded_st;
endmodule

/* MAU5 to MAU8 convert registers to a packed value. */
module read #(parameter E = 8, M = 23, ROUNDING = 1) (
	input [E - 1:0] e, input [2:0] sticky, input [31:0] m, output [E + M:0] word, output [4:0] flags
);
	wire sign;
	wire [31:0] magnitude;
	wire [5:0] lz;
	wire [M + 2:0] normal;
	wire [E:0] field;
	wire [4:0] dn;

	fpisa_mau5_sign mau5(m, sign, magnitude);
	fpisa_mau6_normalise #(M) mau6(magnitude, lz, normal);
	fpisa_mau7_exponent #(E, M) mau7(e, lz, field, dn);
	fpisa_mau8_assemble #(E, M, ROUNDING) mau8(sign, field, sticky, dn, normal, word, flags);
endmodule

/*
 * The result for a single value, which is the value itself, except that NaNs become the quiet NaN, and zeros become +0.
 */
module canonical #(parameter E = 8, M = 23) (input [E + M:0] word, output [E + M:0] y);
	wire nan = &word[E + M - 1:M] & |word[M - 1:0];

	assign y = nan ? {1'b0, {E + 1{1'b1}}, {M - 1{1'b0}}} : ~|word[E + M - 1:0] ? 0 : word;
endmodule

/* A value alone comes back, and says nothing but that it is NaN or infinite. */
module round_trip #(parameter E = 8, M = 23, ROUNDING = 1) (input [E + M:0] x, output bad);
	wire [E - 1:0] e;
	wire [2:0] sticky;
	wire [31:0] m;
	wire [E + M:0] word, want;
	wire [4:0] flags;

	decode #(E, M) d(x, e, sticky, m);
	read #(E, M, ROUNDING) r(e, sticky, m, word, flags);
	canonical #(E, M) c(x, want);
	assign bad = word != want | flags != {&x[E + M - 1:M] & ~|x[M - 1:0], &x[E + M - 1:M] & |x[M - 1:0], 3'b0};
endmodule

/* In mode fpisa two terms give the same registers and events in either order. */
module commute #(parameter E = 8, M = 23) (input [E + M:0] x, input [E + M:0] y, output bad);
	wire [E - 1:0] ex, ey, exy, eyx;
	wire [2:0] sx, sy, sxy, syx;
	wire [31:0] mx, my, mxy, myx;
	wire [3:0] vxy, vyx;

	decode #(E, M) dx(x, ex, sx, mx);
	decode #(E, M) dy(y, ey, sy, my);
	add #(E, M, 1) xy(ex, sx, mx, ey, sy, my, exy, sxy, mxy, vxy);
	add #(E, M, 1) yx(ey, sy, my, ex, sx, mx, eyx, syx, myx, vyx);
	assign bad = {exy, sxy, mxy, vxy} != {eyx, syx, myx, vyx};
endmodule

/* A zero of either sign, added before or after, does not change the value and does not round, in both modes. */
module neutral #(parameter E = 8, M = 23, MODE = 1) (input [E + M:0] x, input sign, input before, output bad);
	wire [E + M:0] zero = {sign, {E + M{1'b0}}}, word, want;
	wire [E - 1:0] e0, e1, e;
	wire [2:0] s0, s1, s;
	wire [31:0] m0, m1, m;
	wire [3:0] events;
	wire [4:0] flags;

	decode #(E, M) d0(before ? zero : x, e0, s0, m0);
	decode #(E, M) d1(before ? x : zero, e1, s1, m1);
	add #(E, M, MODE) a(e0, s0, m0, e1, s1, m1, e, s, m, events);
	read #(E, M, 1) r(e, s, m, word, flags);
	canonical #(E, M) c(x, want);
	assign bad = word != want | events[0] | events[1] | events[3];
endmodule

/* Finite x - x is +0 without a rounding, in both modes and roundings. */
module cancel #(parameter E = 8, M = 23, MODE = 1, ROUNDING = 1) (input [E + M:0] x, output bad);
	wire [E - 1:0] e0, e1, e;
	wire [2:0] s0, s1, s;
	wire [31:0] m0, m1, m;
	wire [3:0] events;
	wire [E + M:0] word;
	wire [4:0] flags;

	decode #(E, M) d0(x, e0, s0, m0);
	decode #(E, M) d1({~x[E + M], x[E + M - 1:0]}, e1, s1, m1);
	add #(E, M, MODE) a(e0, s0, m0, e1, s1, m1, e, s, m, events);
	read #(E, M, ROUNDING) r(e, s, m, word, flags);
	assign bad = ~&x[E + M - 1:M] & (|word | |flags | |events);
endmodule

/* One add says one thing of the shift: rounded, overwritten or left_shifted, whatever the registers hold. */
module one_event #(parameter E = 8, M = 23, MODE = 1) (
	input [E - 1:0] stored, input [31:0] stored_m, input [E + M:0] x, output bad
);
	wire [E - 1:0] e, e_out;
	wire [2:0] sticky, sticky_out;
	wire [31:0] m, m_out;
	wire [3:0] events;

	decode #(E, M) d(x, e, sticky, m);
	add #(E, M, MODE) a(stored, 3'b0, stored_m, e, sticky, m, e_out, sticky_out, m_out, events);
	assign bad = events[0] + events[1] + events[2] > 2'd1;
endmodule

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The hard floating-point unit with which the paper compares FPISA adds IEEE
 * 754 binary32 values, rounds to nearest with ties to even, and supports
 * subnormals, infinities and NaN. The unit has a single path and no registers.
 */
`default_nettype none

module fp32_add (
	input  wire [31:0] a,
	input  wire [31:0] b,
	output wire [31:0] y
);
	/* Put the larger magnitude first. Exponent 0 counts as 1 without the implied one. */
	wire swap = b[30:0] > a[30:0];
	wire [31:0] more = swap ? b : a, less = swap ? a : b;
	wire normal_l = |more[30:23], normal_s = |less[30:23];
	wire [7:0] e = {more[30:24], more[23] | ~normal_l};
	wire [7:0] apart = e - {less[30:24], less[23] | ~normal_s};

	/* Align with a guard, a round and a sticky bit. Shifts by more than 27 affect only the sticky bit. */
	wire [53:0] wide = {normal_s, less[22:0], 30'b0} >> (apart > 27 ? 5'd27 : apart[4:0]);
	wire [26:0] aligned = {wide[53:28], |wide[27:0]};
	wire minus = a[31] ^ b[31];
	wire [27:0] sum = {1'b0, normal_l, more[22:0], 3'b0} + ({1'b0, aligned} ^ {28{minus}}) + minus;

	/* Normalise: one to the right on a carry, else to the left as far as the exponent goes. */
	wire [5:0] lz;
	fpisa_clz32 match({sum[26:0], 5'b1}, lz);
	wire [7:0] room = e - 1;
	wire stops = lz > room;
	wire [26:0] moved = sum[26:0] << (stops ? room[4:0] : lz[4:0]);
	wire [26:0] m = sum[27] ? {sum[27:2], |sum[1:0]} : moved;
	wire [8:0] field = sum[27] ? e + 9'd1 : moved[26] ? e - lz : 9'd0;

	wire up = m[2] & (|m[1:0] | m[3]);
	wire [31:0] rounded = {field, m[25:3]} + up;

	wire nan_a = &a[30:23] & |a[22:0], nan_b = &b[30:23] & |b[22:0];
	wire inf_a = &a[30:23], inf_b = &b[30:23];
	wire nan = nan_a | nan_b | (inf_a & inf_b & minus);

	assign y = nan ? 32'h7fc00000 :
		   inf_a | inf_b ? {more[31], 31'h7f800000} :
		   ~|sum ? {a[31] & b[31], 31'b0} :
		   rounded >= 32'h7f800000 ? {more[31], 31'h7f800000} : {more[31], rounded[30:0]};
endmodule

`default_nettype wire

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Multipliers (appendix A.2 of the paper). One multiplies mantissas as integers
 * of any width. The other multiplies IEEE 754 values, rounds to nearest with
 * ties to even, and supports subnormals, infinities and NaN. There are no
 * registers.
 */
`default_nettype none

module mantissa_mul #(parameter W = 24) (
	input  wire [W - 1:0]     a,
	input  wire [W - 1:0]     b,
	output wire [2 * W - 1:0] y
);
	assign y = a * b;
endmodule

/* The modules with which the appendix compares the multiplier, an adder and a boolean module. */
module mantissa_add #(parameter W = 24) (
	input  wire [W - 1:0] a,
	input  wire [W - 1:0] b,
	output wire [W - 1:0] y
);
	assign y = a + b;
endmodule

module mantissa_bool #(parameter W = 24) (
	input  wire [W - 1:0] a,
	input  wire [W - 1:0] b,
	input  wire [1:0]     op,
	output wire [W - 1:0] y
);
	assign y = op == 0 ? a & b : op == 1 ? a | b : a ^ b;
endmodule

module fp_mul #(parameter E = 8, M = 23) (
	input  wire [E + M:0] a,
	input  wire [E + M:0] b,
	output wire [E + M:0] y
);
	localparam BIAS = (1 << (E - 1)) - 1;
	localparam P = 2 * M + 2;	/* bits of the product */
	localparam [E + M - 1:0] INF = {{E{1'b1}}, {M{1'b0}}};

	wire sign = a[E + M] ^ b[E + M];
	wire [E - 1:0] ea = a[E + M - 1:M], eb = b[E + M - 1:M];
	wire [P - 1:0] product;
	mantissa_mul #(M + 1) mul({|ea, a[M - 1:0]}, {|eb, b[M - 1:0]}, product);

	/*
	 * Shift the leading one to the top, as far as the exponent permits. `e` is the exponent afterwards, without the
	 * implied one.
	 */
	reg [5:0] lz;
	integer i;
	always @* begin
		lz = P;
		for (i = 0; i < P; i = i + 1)
			if (product[i])
				lz = P - 1 - i;
	end
	wire signed [E + 2:0] top = $signed({3'b0, ea}) + (ea == 0) + $signed({3'b0, eb}) + (eb == 0) - BIAS;
	wire signed [E + 2:0] e = top - $signed({1'b0, lz});
	wire [E + 2:0] below = top < 0 ? -top : 0;
	wire [5:0] left = e >= 0 ? lz : top > 0 ? top[5:0] : 6'd0;
	wire [P - 1:0] high = product << left;
	wire [P + M + 2:0] m = {high, {M + 3{1'b0}}} >> (below > M + 3 ? M + 3 : below);

	wire half = m[P + 1];
	wire up = half & (|m[P:0] | m[P + 2]);
	wire [E + M + 1:0] sum = {(e >= 0 ? e[E + 1:0] : {E + 2{1'b0}}), {M{1'b0}}} + m[P + M + 2:P + 2] + up;

	wire nan_a = &ea & |a[M - 1:0], nan_b = &eb & |b[M - 1:0];
	wire zero_a = ~|a[E + M - 1:0], zero_b = ~|b[E + M - 1:0];
	wire nan = nan_a | nan_b | (&ea & zero_b) | (&eb & zero_a);

	assign y = nan ? {1'b0, INF | 1'b1 << (M - 1)} :
		   &ea | &eb | (|product & sum >= INF) ? {sign, INF} :
		   ~|product ? {sign, {E + M{1'b0}}} : {sign, sum[E + M - 1:0]};
endmodule

`default_nettype wire

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The nine match-action units in hardware. Their results equal those of include/fpisa/mau.h
 * bit for bit.
 *
 * A unit is a module of combinational logic with the name of its function in mau.h. The module fpisa_pipeline at the
 * end of this file adds a register after each unit. fpisa_pipeline also has the two state registers of one element of a
 * slot, for the exponent (MAU2) and the mantissa (MAU4). For each contribution MAU8 outputs the rounded sum of the
 * round so far. The last output of a round is the result.
 *
 * 	E, M		number of exponent and fraction bits, E >= 5; 8, 23 for FP32; 5, 10 for FP16; 8, 7 for BF16
 * 	R		width of the mantissa register, 32; there are no guard bits (G = 0)
 * 	MODE		FPISA_MODE_*: 1 fpisa, 2 fpisa-a
 * 	ROUNDING	FPISA_ROUND_*: 1 down, 2 nearest
 *
 * Sticky bits are in the order of FPISA_EXP_*, which is NaN, +Inf, -Inf from the lowest bit.
 * Flags are those of format.h. Events have one bit each, in the order of FPISA_EV_*, which
 * is rounded, overwritten, left_shifted, overflowed.
 */
`default_nettype none

/* MAU0 splits a packed value. */
module fpisa_mau0_extract #(parameter E = 8, M = 23) (
	input  wire [E + M:0] word,
	output wire           sign,
	output wire [E - 1:0] e,
	output wire [M - 1:0] frac
);
	assign {sign, e, frac} = word;
endmodule

/*
 * MAU1 adds the implied one and the sign. Exponent 0 counts as 1 without the
 * implied one. An infinity or NaN becomes mantissa 0 with exponent 1, and sets
 * its sticky bit.
 */
module fpisa_mau1_implied_one #(parameter E = 8, M = 23, R = 32) (
	input  wire           sign,
	input  wire [E - 1:0] e,
	input  wire [M - 1:0] frac,
	output wire [E - 1:0] e_out,
	output wire [2:0]     sticky,
	output wire [R - 1:0] m
);
	wire special = &e;
	wire subnormal = ~|e;
	wire nan = special & |frac;
	wire inf = special & ~|frac;
	wire [R - 1:0] magnitude = {{R - M - 1{1'b0}}, ~subnormal, frac};

	assign sticky = {inf & sign, inf & ~sign, nan};
	assign e_out = special ? 1 : {e[E - 1:1], e[0] | subnormal};
	assign m = special ? 0 : sign ? -magnitude : magnitude;
endmodule

/*
 * MAU2: compare the exponents, update the stored one, say who is shifted and
 * by how much: `in` is the right shift of the incoming mantissa, negative is
 * left; `st` that of the stored one, or FPISA_DISCARD (bit 7).
 */
module fpisa_mau2_exponent #(parameter E = 8, M = 23, R = 32, MODE = 1) (
	input  wire              first,
	input  wire [E - 1:0]    e,
	input  wire [2:0]        sticky,
	input  wire [E - 1:0]    stored,
	input  wire [2:0]        stored_sticky,
	output wire signed [6:0] in,
	output wire [7:0]        st,
	output wire [E - 1:0]    e_out,
	output wire [2:0]        sticky_out
);
	localparam HEADROOM = R - 1 - (M + 1);

	wire signed [E:0] d = $signed({1'b0, e}) - $signed({1'b0, stored});
	wire [E:0] up = d > 0 ? d : 0;
	wire [E:0] down = d > 0 ? 0 : -d;
	wire [6:0] up_clamped = up > R ? R : {1'b0, up[5:0]};
	wire [6:0] down_clamped = down > R ? R : {1'b0, down[5:0]};
	wire over = up > HEADROOM;

	generate
		if (MODE == 2) begin : fpisa_a
			assign in = first | over ? 0 : d > 0 ? -up_clamped : down_clamped;
			assign st = {first | over, 7'b0};
			assign e_out = first | over ? e : stored;
		end else begin : fpisa
			assign in = first ? 0 : down_clamped;
			assign st = first ? 8'h80 : {1'b0, up_clamped};
			assign e_out = first | d > 0 ? e : stored;
		end
	endgenerate
	assign sticky_out = sticky | (first ? 3'b0 : stored_sticky);
endmodule

/* Arithmetic right shift (floor) by 0..R; `lost` if a nonzero bit fell off. */
module fpisa_shift_right #(parameter R = 32) (
	input  wire [R - 1:0] m,
	input  wire [5:0]     by,
	output wire [R - 1:0] y,
	output wire           lost
);
	wire [2 * R - 1:0] wide = $signed({m, {R{1'b0}}}) >>> by;

	assign y = wide[2 * R - 1:R];
	assign lost = |wide[R - 1:0];
endmodule

/* MAU3 aligns the incoming mantissa. A left shift (fpisa-a) is exact. */
module fpisa_mau3_align #(parameter R = 32, MODE = 1) (
	input  wire signed [6:0] in,
	input  wire [R - 1:0]    m,
	output wire [R - 1:0]    m_out,
	output wire              rounded,
	output wire              left_shifted
);
	wire [5:0] right = in[6] & MODE == 2 ? 6'd0 : in[5:0];
	wire [R - 1:0] y;

	fpisa_shift_right #(R) shift(m, right, y, rounded);
	generate
		if (MODE == 2) begin : fpisa_a
			wire [4:0] left = in[6] ? -in[4:0] : 5'd0;

			assign m_out = y << left;
			assign left_shifted = in[6];
		end else begin : fpisa
			assign m_out = y;
			assign left_shifted = 0;
		end
	endgenerate
endmodule

/* The sum of two R-bit mantissas, saturated to [-2^(R-1), 2^(R-1) - 1]. */
module fpisa_saturating_add #(parameter R = 32) (
	input  wire [R - 1:0] a,
	input  wire [R - 1:0] b,
	output wire [R - 1:0] y,
	output wire           overflowed
);
	wire [R - 1:0] sum = a + b;

	assign overflowed = (a[R - 1] ^ sum[R - 1]) & (b[R - 1] ^ sum[R - 1]);
	assign y = overflowed ? {a[R - 1], {R - 1{~a[R - 1]}}} : sum;
endmodule

/*
 * MAU4 aligns the stored mantissa and adds, which is the paper's shift-and-add
 * on one register. In fpisa-a the stored mantissa is kept or discarded, and is
 * never shifted. The first contribution of a round replaces the stored mantissa
 * without an event.
 */
module fpisa_mau4_add #(parameter R = 32, MODE = 1) (
	input  wire           first,
	input  wire [7:0]     st,
	input  wire [R - 1:0] m,
	input  wire [R - 1:0] stored,
	output wire [R - 1:0] m_out,
	output wire           rounded,
	output wire           overwritten,
	output wire           overflowed
);
	wire [R - 1:0] aligned;

	generate
		if (MODE == 2) begin : fpisa_a
			assign aligned = st[7] ? 0 : stored;
			assign rounded = 0;
			assign overwritten = st[7] & ~first & |stored;
		end else begin : fpisa
			wire [R - 1:0] kept = st[7] ? 0 : stored;

			fpisa_shift_right #(R) shift(kept, st[5:0], aligned, rounded);
			assign overwritten = 0;
		end
	endgenerate
	fpisa_saturating_add #(R) add(aligned, m, m_out, overflowed);
endmodule

/* MAU5 finds the sign and magnitude of the sum. The magnitude may be 2^(R-1). */
module fpisa_mau5_sign #(parameter R = 32) (
	input  wire [R - 1:0] m,
	output wire           sign,
	output wire [R - 1:0] magnitude
);
	assign sign = m[R - 1];
	assign magnitude = sign ? -m : m;
endmodule

/* The match of MAU6 finds the number of leading zeros of 32 bits, 0..32, by binary search. */
module fpisa_clz32 (
	input  wire [31:0] x,
	output wire [5:0]  lz
);
	wire n5 = ~|x;
	wire n4 = ~|x[31:16];
	wire [31:0] a = n4 ? {x[15:0], 16'b0} : x;
	wire n3 = ~|a[31:24];
	wire [31:0] b = n3 ? {a[23:0], 8'b0} : a;
	wire n2 = ~|b[31:28];
	wire [31:0] c = n2 ? {b[27:0], 4'b0} : b;
	wire n1 = ~|c[31:30];
	wire n0 = n1 ? ~c[29] : ~c[31];

	assign lz = n5 ? 6'd32 : {1'b0, n4, n3, n2, n1, n0};
endmodule

/*
 * MAU6: the leading one to bit M + 2; what falls off the right stays as a
 * sticky bit. Zero stays zero.
 */
module fpisa_mau6_normalise #(parameter M = 23, R = 32) (
	input  wire [R - 1:0] magnitude,
	output wire [5:0]     lz,
	output wire [M + 2:0] m
);
	localparam DROP = R - 1 - M - 2;
	wire [R - 1:0] top = magnitude << lz[4:0];

	fpisa_clz32 match(magnitude, lz);
	assign m = {top[R - 1:DROP + 1], |top[DROP:0]};
endmodule

/*
 * MAU7: the exponent of the leading one, as the field to pack less the
 * implied one: max(E, 1) - 1. Below the normal range the mantissa moves right
 * by dn and the field stays 0.
 */
module fpisa_mau7_exponent #(parameter E = 8, M = 23, R = 32) (
	input  wire [E - 1:0] e,
	input  wire [5:0]     lz,
	output wire [E:0]     e_out,
	output wire [4:0]     dn
);
	/* Less the implied one already, so that the sign says it all. */
	wire signed [E + 2:0] less = $signed({3'b0, e}) + R - 2 - M - $signed({{E - 3{1'b0}}, lz});
	wire [E + 2:0] below = less < 0 ? -less : 0;

	assign e_out = less < 0 ? 0 : less[E:0];
	assign dn = below > M + 3 ? M + 3 : below[4:0];
endmodule

/*
 * MAU8: round once, assemble. `down` adds one to a negative magnitude that
 * lost bits; `nearest` ties to even; a carry runs into the exponent. Beyond
 * the range: the signed infinity. Every zero is +0. Specials win.
 */
module fpisa_mau8_assemble #(parameter E = 8, M = 23, ROUNDING = 1) (
	input  wire           sign,
	input  wire [E:0]     e,
	input  wire [2:0]     sticky,
	input  wire [4:0]     dn,
	input  wire [M + 2:0] m,
	output wire [E + M:0] word,
	output wire [4:0]     flags
);
	localparam [E + M - 1:0] BEYOND = {{E{1'b1}}, {M{1'b0}}};

	/* The kept bits, then the round bit, then M + 4 bits that matter by being nonzero. */
	wire [2 * M + 5:0] shifted = {m, {M + 3{1'b0}}} >> dn;
	wire [M:0] kept = shifted[2 * M + 5:M + 5];
	wire half = shifted[M + 4];
	wire rest = |shifted[M + 3:0];
	wire inexact = half | rest;
	wire up = ROUNDING == 2 ? half & (rest | kept[0]) : sign & inexact;

	wire [E + M + 1:0] sum = {1'b0, e, {M{1'b0}}} + kept + up;
	wire [E + M + 1:0] magnitude = |m ? sum : 0;
	wire overflow = magnitude >= BEYOND;
	wire special = |sticky;
	wire nan = sticky[0] | (sticky[1] & sticky[2]);

	wire [E + M - 1:0] finite = overflow ? BEYOND : magnitude[E + M - 1:0];
	wire [E + M:0] of_special = nan ? {1'b0, BEYOND | 1'b1 << (M - 1)} : {sticky[2], BEYOND};

	assign word = special ? of_special : {sign & |finite, finite};
	assign flags = special ? {~nan, nan, 3'b0} : {overflow, 2'b0, inexact | overflow, overflow};
endmodule

/* The units and their registers. A register moves when the next register moves, so all move together. */
module fpisa_pipeline #(parameter E = 8, M = 23, MODE = 1, ROUNDING = 1) (
	input  wire           clk,
	input  wire           reset,
	input  wire           in_valid,
	output wire           in_ready,
	input  wire           in_first,
	input  wire [E + M:0] in_word,
	output wire           out_valid,
	input  wire           out_ready,
	output wire [E + M:0] out_word,
	output wire [4:0]     out_flags,
	output wire [3:0]     out_events
);
	localparam R = 32;

	reg [8:0] valid;
	wire go = out_ready | ~valid[8];

	assign in_ready = go;
	always @(posedge clk)
		if (reset)
			valid <= 0;
		else if (go)
			valid <= {valid[7:0], in_valid};

	/* MAU0 extract */
	wire sign_0;
	wire [E - 1:0] e_0;
	wire [M - 1:0] frac_0;
	reg first0, sign0;
	reg [E - 1:0] e0;
	reg [M - 1:0] frac0;

	fpisa_mau0_extract #(E, M) mau0(in_word, sign_0, e_0, frac_0);
	always @(posedge clk)
		if (go) begin
			first0 <= in_first;
			sign0 <= sign_0;
			e0 <= e_0;
			frac0 <= frac_0;
		end

	/* MAU1 implied one */
	wire [E - 1:0] e_1;
	wire [2:0] sticky_1;
	wire [R - 1:0] m_1;
	reg first1;
	reg [E - 1:0] e1;
	reg [2:0] sticky1;
	reg [R - 1:0] m1;

	fpisa_mau1_implied_one #(E, M, R) mau1(sign0, e0, frac0, e_1, sticky_1, m_1);
	always @(posedge clk)
		if (go) begin
			first1 <= first0;
			e1 <= e_1;
			sticky1 <= sticky_1;
			m1 <= m_1;
		end

	/* MAU2 exponent; its register is the slot's exponent, which later units read */
	wire signed [6:0] in_2;
	wire [7:0] st_2;
	wire [E - 1:0] e_2;
	wire [2:0] sticky_2;
	reg first2;
	reg signed [6:0] in2;
	reg [7:0] st2;
	reg [E - 1:0] e2;
	reg [2:0] sticky2;
	reg [R - 1:0] m2;

	fpisa_mau2_exponent #(E, M, R, MODE) mau2(first1, e1, sticky1, e2, sticky2, in_2, st_2, e_2, sticky_2);
	always @(posedge clk)
		if (go) begin
			first2 <= first1;
			in2 <= in_2;
			st2 <= st_2;
			m2 <= m1;
			if (valid[1]) begin
				e2 <= e_2;
				sticky2 <= sticky_2;
			end
		end

	/* MAU3 align incoming */
	wire rounded_3, left_shifted_3;
	wire [R - 1:0] m_3;
	reg first3, rounded3, left_shifted3;
	reg [7:0] st3;
	reg [E - 1:0] e3;
	reg [2:0] sticky3;
	reg [R - 1:0] m3;

	fpisa_mau3_align #(R, MODE) mau3(in2, m2, m_3, rounded_3, left_shifted_3);
	always @(posedge clk)
		if (go) begin
			first3 <= first2;
			rounded3 <= rounded_3;
			left_shifted3 <= left_shifted_3;
			st3 <= st2;
			e3 <= e2;
			sticky3 <= sticky2;
			m3 <= m_3;
		end

	/* MAU4 align, add; its register is the slot's mantissa, which MAU5 reads */
	wire rounded_4, overwritten_4, overflowed_4;
	wire [R - 1:0] m_4;
	reg [3:0] events4;
	reg [E - 1:0] e4;
	reg [2:0] sticky4;
	reg [R - 1:0] m4;

	fpisa_mau4_add #(R, MODE) mau4(first3, st3, m3, m4, m_4, rounded_4, overwritten_4, overflowed_4);
	always @(posedge clk)
		if (go) begin
			events4 <= {overflowed_4, left_shifted3, overwritten_4, rounded3 | rounded_4};
			e4 <= e3;
			sticky4 <= sticky3;
			if (valid[3])
				m4 <= m_4;
		end

	/* MAU5 sign */
	wire sign_5;
	wire [R - 1:0] m_5;
	reg sign5;
	reg [3:0] events5;
	reg [E - 1:0] e5;
	reg [2:0] sticky5;
	reg [R - 1:0] m5;

	fpisa_mau5_sign #(R) mau5(m4, sign_5, m_5);
	always @(posedge clk)
		if (go) begin
			sign5 <= sign_5;
			events5 <= events4;
			e5 <= e4;
			sticky5 <= sticky4;
			m5 <= m_5;
		end

	/* MAU6 normalise */
	wire [5:0] lz_6;
	wire [M + 2:0] m_6;
	reg sign6;
	reg [3:0] events6;
	reg [E - 1:0] e6;
	reg [2:0] sticky6;
	reg [5:0] lz6;
	reg [M + 2:0] m6;

	fpisa_mau6_normalise #(M, R) mau6(m5, lz_6, m_6);
	always @(posedge clk)
		if (go) begin
			sign6 <= sign5;
			events6 <= events5;
			e6 <= e5;
			sticky6 <= sticky5;
			lz6 <= lz_6;
			m6 <= m_6;
		end

	/* MAU7 exponent */
	wire [E:0] e_7;
	wire [4:0] dn_7;
	reg sign7;
	reg [3:0] events7;
	reg [E:0] e7;
	reg [2:0] sticky7;
	reg [4:0] dn7;
	reg [M + 2:0] m7;

	fpisa_mau7_exponent #(E, M, R) mau7(e6, lz6, e_7, dn_7);
	always @(posedge clk)
		if (go) begin
			sign7 <= sign6;
			events7 <= events6;
			e7 <= e_7;
			sticky7 <= sticky6;
			dn7 <= dn_7;
			m7 <= m6;
		end

	/* MAU8 assemble */
	wire [E + M:0] word_8;
	wire [4:0] flags_8;
	reg [3:0] events8;
	reg [E + M:0] word8;
	reg [4:0] flags8;

	fpisa_mau8_assemble #(E, M, ROUNDING) mau8(sign7, e7, sticky7, dn7, m7, word_8, flags_8);
	always @(posedge clk)
		if (go) begin
			events8 <= events7;
			word8 <= word_8;
			flags8 <= flags_8;
		end

	assign out_valid = valid[8];
	assign out_word = word8;
	assign out_flags = flags8;
	assign out_events = events8;
endmodule

`default_nettype wire

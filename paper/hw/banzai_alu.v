/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * This stateless ALU is modelled on Banzai's. The ALU supports arithmetic, logic,
 * relations, conditions and shifts on packet fields. A constant may replace any of the
 * fields. Operands and result are registered. Banzai's own Verilog is not published, so
 * this code follows its description. The parameter SHIFT selects the distance of the
 * shifter, which is the paper's extension (section 4.2, "2-operand shift instruction"):
 *
 * 	SHIFT	0 no shifter
 * 		1 by an immediate, the low 5 bits of the constant (the paper's default)
 * 		2 by the low 5 bits of the second operand, which is a field or the constant
 * 		3 by a field in a separate 5-bit register
 * 		4 by a field in a separate 32-bit register; 32 and more shift everything out
 * 	ARITHMETIC	1 if there is a right shift that keeps the sign
 * 	FPU	additional units: 0 none, 1 an FP32 adder, 2 an adder and a multiplier
 */
`default_nettype none

/* One shifter for both directions. A left shift is a right shift of the mirrored operand. */
module banzai_shifter #(parameter DISTANCE = 5, ARITHMETIC = 0) (
	input  wire [31:0]             a,
	input  wire [DISTANCE - 1:0]   by,
	input  wire                    left,
	input  wire                    arithmetic,
	output wire [31:0]             y
);
	wire fill = ARITHMETIC != 0 & arithmetic & ~left & a[31];
	wire [31:0] in, shifted, out;
	genvar i;

	generate
		for (i = 0; i < 32; i = i + 1) begin : mirror
			assign in[i] = left ? a[31 - i] : a[i];
			assign y[i] = left ? out[31 - i] : out[i];
		end
		if (DISTANCE > 5) begin : beyond
			assign out = |by[DISTANCE - 1:5] ? {32{fill}} : shifted;
		end else begin : five_bits
			assign out = shifted;
		end
	endgenerate
	assign shifted = $signed({fill, in}) >>> by[4:0];
endmodule

module banzai_alu #(parameter SHIFT = 1, ARITHMETIC = 0, FPU = 0) (
	input  wire        clk,
	input  wire [31:0] pkt_0,
	input  wire [31:0] pkt_1,
	input  wire [31:0] pkt_2,
	input  wire [31:0] constant,
	input  wire [31:0] distance,
	input  wire [3:0]  opcode,
	input  wire [9:0]  select,
	input  wire [1:0]  fp,
	output wire [31:0] result
);
	localparam ADD = 0, SUB = 1, AND = 2, XOR = 3, OR = 4, EQ = 5, NE = 6, GE = 7, LT = 8, COND = 9,
		   SHL = 10, SHR = 11, SAR = 12;

	reg [31:0] p0, p1, p2, c, y;
	reg [3:0] op;
	reg [9:0] sel;

	always @(posedge clk) begin
		p0 <= pkt_0;
		p1 <= pkt_1;
		p2 <= pkt_2;
		c <= constant;
		op <= opcode;
		sel <= select;
		y <= out;
	end

	/* There are three sources for each of two operands, and four for the three operands of the condition. */
	wire [31:0] a = sel[1] ? c : sel[0] ? p1 : p0;
	wire [31:0] b = sel[3] ? c : sel[2] ? p1 : p0;
	wire [31:0] test = sel[5] ? sel[4] ? c : p2 : sel[4] ? p1 : p0;
	wire [31:0] yes = sel[7] ? sel[6] ? c : p2 : sel[6] ? p1 : p0;
	wire [31:0] no = sel[9] ? sel[8] ? c : p2 : sel[8] ? p1 : p0;

	/* One adder for addition, subtraction and comparison. */
	wire minus = op != ADD;
	wire [32:0] sum = {1'b0, a} + {1'b0, b ^ {32{minus}}} + minus;
	wire ge = sum[32], eq = a == b;

	wire [31:0] shifted;
	generate
		if (SHIFT == 0) begin : no_shifter
			assign shifted = 0;
		end else if (SHIFT == 4) begin : stored_32
			reg [31:0] d;

			always @(posedge clk)
				d <= distance;
			banzai_shifter #(32, ARITHMETIC) shifter(a, d, op == SHL, op == SAR, shifted);
		end else if (SHIFT == 3) begin : stored_5
			reg [4:0] d;

			always @(posedge clk)
				d <= distance[4:0];
			banzai_shifter #(5, ARITHMETIC) shifter(a, d, op == SHL, op == SAR, shifted);
		end else begin : at_hand
			wire [31:0] d = SHIFT == 2 ? b : c;

			banzai_shifter #(5, ARITHMETIC) shifter(a, d[4:0], op == SHL, op == SAR, shifted);
		end
	endgenerate

	reg [31:0] out;
	always @*
		case (op)
		ADD, SUB: out = sum[31:0];
		AND: out = a & b;
		XOR: out = a ^ b;
		OR: out = a | b;
		EQ: out = {31'b0, eq};
		NE: out = {31'b0, ~eq};
		GE: out = {31'b0, ge};
		LT: out = {31'b0, ~ge};
		COND: out = |test ? yes : no;
		SHL, SHR: out = SHIFT != 0 ? shifted : sum[31:0];
		SAR: out = SHIFT != 0 & ARITHMETIC != 0 ? shifted : sum[31:0];
		default: out = sum[31:0];
		endcase

	generate
		if (FPU == 0) begin : integer_only
			assign result = y;
		end else begin : with_fpu
			wire [31:0] added, multiplied;
			reg [1:0] unit, unit_y;
			reg [31:0] fp_y;

			fp32_add add(a, b, added);
			if (FPU == 2) begin : with_multiplier
				fp_mul #(8, 23) mul(a, b, multiplied);
			end else begin : adder_only
				assign multiplied = added;
			end
			always @(posedge clk) begin
				unit <= fp;
				unit_y <= unit;
				fp_y <= unit[1] ? multiplied : added;
			end
			assign result = |unit_y ? fp_y : y;
		end
	endgenerate
endmodule

`default_nettype wire

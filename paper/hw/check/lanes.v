/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The modules that pipeline.cpp and units.cpp drive. The first module has a pipeline
 * for each format, mode and rounding. The pipelines share their handshake, and
 * each takes a word. Lane i has format i / 4, mode i / 2 % 2 and rounding i %
 * 2. The second module has every variant of the other units. Their area is compared
 * with that of the pipeline, so they must be correct.
 */
module lanes (
	input              clk,
	input              reset,
	input              in_valid,
	output             in_ready,
	input              in_first,
	input [12*32-1:0]  in_word,
	output             out_valid,
	input              out_ready,
	output [12*32-1:0] out_word,
	output [12*16-1:0] out_says
);
	wire [11:0] ready, valid;
	genvar i;

	assign in_ready = ready[0];
	assign out_valid = valid[0];
	generate
		for (i = 0; i < 12; i = i + 1) begin : lane
			localparam E = i / 4 == 1 ? 5 : 8;
			localparam M = i / 4 == 0 ? 23 : i / 4 == 1 ? 10 : 7;
			wire [E + M:0] word;

			fpisa_pipeline #(E, M, 1 + i / 2 % 2, 1 + i % 2) p(clk, reset, in_valid, ready[i], in_first,
				in_word[32 * i + E + M:32 * i], valid[i], out_ready, word,
				out_says[16 * i + 4:16 * i], out_says[16 * i + 8:16 * i + 5]);
			assign out_word[32 * i + 31:32 * i] = {{31 - E - M{1'b0}}, word};
			assign out_says[16 * i + 15:16 * i + 9] = {valid[i] != valid[0] || ready[i] != ready[0], 6'b0};
		end
	endgenerate
endmodule

module units (
	input               clk,
	input [31:0]        a,
	input [31:0]        b,
	input [31:0]        c,
	input [31:0]        constant_0,
	input [31:0]        constant_1,
	input [31:0]        distance,
	input               left,
	input [3:0]         opcode,
	input [9:0]         select,
	output [10*32-1:0]  alu,
	output [32*2-1:0]   fpu,
	output [8*32-1:0]   raw,
	output [31:0]       sum,
	output [31:0]       product_fp32,
	output [15:0]       product_fp16,
	output [15:0]       product_bf16
);
	genvar i;

	/* ALU i has SHIFT i / 2 and ARITHMETIC i % 2. Atom i has PREDICATED i / 4 and SHIFT i % 4. */
	generate
		for (i = 0; i < 10; i = i + 1) begin : alus
			banzai_alu #(i / 2, i % 2, 0) u(clk, a, b, c, constant_0, distance, opcode, select, 2'b0,
				alu[32 * i + 31:32 * i]);
		end
		for (i = 0; i < 8; i = i + 1) begin : atoms
			banzai_raw #(i % 4, i / 4) u(clk, a, b, constant_0, constant_1, distance[5:0], left, select[7:0],
				raw[32 * i + 31:32 * i]);
		end
		for (i = 0; i < 2; i = i + 1) begin : fpus
			banzai_alu #(1, 0, i + 1) u(clk, a, b, c, constant_0, distance, opcode, select, left ? 2'd1 << i : 2'd0,
				fpu[32 * i + 31:32 * i]);
		end
	endgenerate

	fp32_add add(a, b, sum);
	fp_mul #(8, 23) mul32(a, b, product_fp32);
	fp_mul #(5, 10) mul16(a[15:0], b[15:0], product_fp16);
	fp_mul #(8, 7) mulb16(a[15:0], b[15:0], product_bf16);
endmodule

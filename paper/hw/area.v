/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Variants of the units for the measurements of paper/hw/area.py. */
`default_nettype none

/* The pipeline as in a switch, where the output is always ready. */
module fpisa_stream #(parameter E = 8, M = 23, MODE = 1, ROUNDING = 1) (
	input  wire           clk,
	input  wire           reset,
	input  wire           in_valid,
	input  wire           in_first,
	input  wire [E + M:0] in_word,
	output wire           out_valid,
	output wire [E + M:0] out_word,
	output wire [4:0]     out_flags,
	output wire [3:0]     out_events
);
	wire in_ready;

	fpisa_pipeline #(E, M, MODE, ROUNDING) p(clk, reset, in_valid, in_ready, in_first, in_word, out_valid, 1'b1,
						 out_word, out_flags, out_events);
endmodule

/* A hard FP32 accumulator: the adder on a register, as RAW is an integer adder on one. */
module fp32_accumulate (
	input  wire        clk,
	input  wire        in_valid,
	input  wire        in_first,
	input  wire [31:0] in_word,
	output wire [31:0] out_word
);
	reg valid, first;
	reg [31:0] word, state;
	wire [31:0] sum;

	fp32_add add(state, word, sum);
	always @(posedge clk) begin
		valid <= in_valid;
		first <= in_first;
		word <= in_word;
		if (valid)
			state <= first ? word : sum;
	end
	assign out_word = state;
endmodule

`default_nettype wire

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stateful units modelled on Banzai's atoms. These are read-add-write (RAW), in
 * the predicated form that the paper starts from, and the paper's
 * read-shift-add-write (RSAW, section 4.2), which shifts the state before the
 * addition:
 *
 * 	if (rel_op(Opt(state), Mux3(pkt_0, pkt_1, constant)))
 * 		state = shift(Opt(state), distance) + Mux3(pkt_0, pkt_1, constant)
 *
 * Opt(x) is x or 0. The state is read, shifted, added to and written within one
 * cycle, because the next packet may need it.
 *
 * 	PREDICATED	0 the plain atom without a condition
 * 	SHIFT		0 RAW
 * 			1 RSAW, arithmetic right by the low 5 bits of pkt_1
 * 			2 right by a separate distance, 0..32
 * 			3 the same in both directions
 */
`default_nettype none

module banzai_raw #(parameter SHIFT = 0, PREDICATED = 1) (
	input  wire        clk,
	input  wire [31:0] pkt_0,
	input  wire [31:0] pkt_1,
	input  wire [31:0] constant_0,
	input  wire [31:0] constant_1,
	input  wire [5:0]  distance,
	input  wire        left,
	input  wire [7:0]  select,
	output wire [31:0] result
);
	reg [31:0] state, p0, p1, c0, c1;
	reg [7:0] sel;

	always @(posedge clk) begin
		p0 <= pkt_0;
		p1 <= pkt_1;
		c0 <= constant_0;
		c1 <= constant_1;
		sel <= select;
		state <= next;
	end

	/* The condition compares the state or 0 with an operand by !=, <, > or ==. */
	wire holds;
	generate
		if (PREDICATED != 0) begin : predicated
			wire [31:0] of = sel[0] ? 0 : state;
			wire [31:0] with_what = sel[2] ? c0 : sel[1] ? p1 : p0;
			wire eq = of == with_what, lt = of < with_what;

			assign holds = sel[7] ? sel[6] ? eq : ~lt & ~eq : sel[6] ? lt : ~eq;
		end else begin : always_so
			assign holds = 1;
		end
	endgenerate

	wire [31:0] shifted;
	generate
		if (SHIFT == 0) begin : raw
			assign shifted = state;
		end else if (SHIFT == 1) begin : by_field
			banzai_shifter #(5, 1) shifter(state, p1[4:0], 1'b0, 1'b1, shifted);
		end else begin : by_its_own
			reg [5:0] d;
			reg to_left;

			always @(posedge clk) begin
				d <= distance;
				to_left <= left;
			end
			banzai_shifter #(6, 1) shifter(state, d, SHIFT == 3 & to_left, 1'b1, shifted);
		end
	endgenerate

	wire [31:0] addend = sel[5] ? c1 : sel[4] ? p1 : p0;
	wire [31:0] next = holds ? (sel[3] ? 0 : shifted) + addend : state;

	assign result = state;
endmodule

`default_nettype wire

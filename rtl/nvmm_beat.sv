// The offset in its line of the beat after the one at `at`.
module nvmm_beat #(
    parameter int LINE_W = 6
) (
    input logic [LINE_W-1:0] at,
    input logic [7:0] len,
    input logic [2:0] size,
    input logic wrap,
    output logic [LINE_W-1:0] next
);
  logic [LINE_W-1:0] step, container, plain;
  assign step = LINE_W'(1) << size;
  assign container = LINE_W'({8'd0, len} << size) | (step - LINE_W'(1));
  assign plain = (at & ~(step - LINE_W'(1))) + step;
  assign next = wrap ? (at & ~container) | (plain & container) : plain;
endmodule

// A queue whose head is visible without a clock in between. Pushing into a full queue and popping
// an empty one are errors of the surroundings.
module nvmm_fifo #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 8,
    parameter int COUNT_W = $clog2(DEPTH + 1)
) (
    input logic clk,
    input logic rst,
    input logic push,
    input logic [WIDTH-1:0] in,
    input logic pop,
    output logic [WIDTH-1:0] head,
    output logic valid,
    output logic [COUNT_W-1:0] count
);
  localparam int PLACE_W = DEPTH > 1 ? $clog2(DEPTH) : 1;
  logic [WIDTH-1:0] places[0:DEPTH-1];
  logic [PLACE_W-1:0] first, next;

  function automatic logic [PLACE_W-1:0] after(input logic [PLACE_W-1:0] place);
    after = (place == PLACE_W'(DEPTH - 1)) ? '0 : place + PLACE_W'(1);
  endfunction

  assign head = places[first];
  assign valid = count != '0;

  always_ff @(posedge clk) begin
    if (push) begin
      places[next] <= in;
      next <= after(next);
    end
    if (pop) first <= after(first);
    if (push && !pop) count <= count + COUNT_W'(1);
    if (pop && !push) count <= count - COUNT_W'(1);
    if (rst) begin
      first <= '0;
      next <= '0;
      count <= '0;
    end
  end

`ifdef FORMAL
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!(push && !pop && count == COUNT_W'(DEPTH)));
      assert (!(pop && !valid));
      assert (count <= COUNT_W'(DEPTH));
      assert (32'(next) == (32'(first) + 32'(count)) % DEPTH);
    end
  end
`endif
endmodule

// The coarse method: holds the request at the head of a channel for a number of clocks, counted
// from the clock in which it came there. 0 clocks hold nothing: `open` is high in that same clock.
module nvmm_hold #(
    parameter int TIMER_W = 22
) (
    input logic clk,
    input logic rst,
    input logic valid,                // There is a head.
    input logic taken,                // It leaves in this clock.
    input logic [TIMER_W-1:0] clocks, // Of this head; looked at in its first clock only.
    output logic open
);
  logic fresh;  // A head that is valid now came in this clock.
  logic [TIMER_W-1:0] left;

  assign open = fresh ? clocks == '0 : left == '0;

  always_ff @(posedge clk) begin
    fresh <= !valid || taken;
    if (fresh) left <= (clocks == '0) ? '0 : clocks - TIMER_W'(1);
    else if (left != '0) left <= left - TIMER_W'(1);
    if (rst) begin
      fresh <= 1'b1;
      left <= '0;
    end
  end
endmodule

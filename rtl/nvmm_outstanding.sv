// Counts transactions under way, and tells whether one more may begin.
module nvmm_outstanding #(
    parameter int MAX = 16  // 0: any number, and nothing is counted.
) (
    input logic clk,
    input logic rst,
    input logic begins,
    input logic ends,
    output logic room
);
  generate
    if (MAX == 0) begin : unlimited
      assign room = 1'b1;
      logic unused;
      assign unused = &{1'b0, clk, rst, begins, ends};
    end else begin : limited
      localparam int COUNT_W = $clog2(MAX + 1);
      logic [COUNT_W-1:0] count;
      assign room = count != COUNT_W'(MAX);
      always_ff @(posedge clk) begin
        if (begins && !ends) count <= count + COUNT_W'(1);
        if (ends && !begins) count <= count - COUNT_W'(1);
        if (rst) count <= '0;
      end
    end
  endgenerate
endmodule

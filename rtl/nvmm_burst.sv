// What a burst asks of one line of memory. A burst is served if all of it is in one line: INCR
// and WRAP of any size up to the bus' width, or a single beat. Others are `bad`.
module nvmm_burst #(
    parameter int ADDR_W = 32,
    parameter int OFFSET_W = 32,
    parameter logic [ADDR_W-1:0] MEMORY_BASE = '0,
    parameter int DATA_W = 64,
    parameter int LINE_BYTES = 64,
    parameter int LINE_W = $clog2(LINE_BYTES)
) (
    input logic [ADDR_W-1:0] addr,
    input logic [7:0] len,
    input logic [2:0] size,
    input logic [1:0] burst,
    output logic [OFFSET_W-LINE_W-1:0] line,
    output logic [LINE_W-1:0] start,
    output logic [LINE_W:0] bytes,
    output logic bad
);
  localparam int MAX_SIZE = $clog2(DATA_W / 8);
  // Wide enough for 256 beats of 128 bytes, and for the end of a burst.
  localparam int SUM_W = 17;

  logic [ADDR_W-1:0] offset;
  logic [SUM_W-1:0] length, from, mask;
  logic outside;
  assign offset = addr - MEMORY_BASE;
  assign line = offset[OFFSET_W-1:LINE_W];
  assign start = offset[LINE_W-1:0];
  assign length = (SUM_W'(len) + SUM_W'(1)) << size;
  assign mask = (SUM_W'(1) << size) - SUM_W'(1);
  assign from = SUM_W'(start) & ~mask;
  assign bytes = length[LINE_W:0];
  generate
    if (ADDR_W > OFFSET_W) begin : checked
      // Addresses below the memory wrap around, and have high bits set, too.
      assign outside = offset[ADDR_W-1:OFFSET_W] != '0;
    end else begin : whole
      assign outside = 1'b0;
    end
  endgenerate
  assign bad = outside || size > 3'(MAX_SIZE) || burst == 2'b11
               || (burst == 2'b00 && len != 8'd0)
               || length > SUM_W'(LINE_BYTES)
               || (burst != 2'b10 && from + length > SUM_W'(LINE_BYTES));
endmodule

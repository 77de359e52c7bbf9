// A table of each kind, one of which `which` selects.
module io_map_top (
    input logic clk,
    input logic rst,
    input logic [2:0] which,
    input logic valid,
    input logic [1:0] vm,
    input logic [31:0] addr,
    input logic write,
    output logic answer,
    output logic hit,
    output logic denied,
    output logic miss,
    output logic [31:0] to,
    input logic put,
    input logic put_valid,
    input logic put_choose,
    input logic [2:0] put_place,
    input logic [1:0] put_vm,
    input logic [31:0] put_from,
    input logic [31:0] put_to,
    input logic [4:0] put_size,
    input logic put_read,
    input logic put_write,
    output logic put_done,
    output logic [2:0] put_at,
    output logic [31:0] misses,
    output logic [1:0] miss_vm,
    output logic [31:0] miss_addr,
    input logic [2:0] count_place,
    output logic [31:0] count_hits,
    output logic [31:0] count_denied
);
  localparam int TABLES = 6;
  localparam int OUT_W = 4 + 32 + 1 + 3 + 32 + 2 + 32 + 32 + 32;
  // bench prints the same entries: vm, from, to, size, write, read.
  localparam logic [8*73-1:0] CONSTANT = {
    {2'd3, 32'h0000_0000, 32'h0000_0040, 5'd4, 1'b0, 1'b0},
    {2'd2, 32'h0000_0040, 32'h0000_0020, 5'd5, 1'b1, 1'b0},
    {2'd2, 32'h0000_0000, 32'h0000_0000, 5'd6, 1'b1, 1'b1},
    {2'd1, 32'h0000_0024, 32'h0000_0010, 5'd2, 1'b1, 1'b1},
    {2'd1, 32'h0000_0020, 32'h0000_0000, 5'd2, 1'b0, 1'b1},
    {2'd0, 32'h0000_0060, 32'h9000_0000, 5'd5, 1'b1, 1'b1},
    {2'd0, 32'h0000_0010, 32'h8000_0010, 5'd4, 1'b0, 1'b1},
    {2'd0, 32'h0000_0000, 32'h8000_0000, 5'd3, 1'b1, 1'b1}
  };
  logic [TABLES*OUT_W-1:0] outs;
  genvar t;
  generate
    for (t = 0; t < TABLES; t++) begin : tables
      logic a, h, d, m, p;
      logic [31:0] o, c, ca, ch, cd;
      logic [2:0] at;
      logic [1:0] cv;
      // Constant, full, small by software, LRU, FIFO, random.
      io_map #(
          .ENTRIES(8),
          .KIND(t == 0 ? 0 : t <= 2 ? 1 : 2),
          .REPLACE(t <= 2 ? 0 : t - 3),
          .LATENCY(t == 2 ? 1 : 0),
          .CONSTANT(CONSTANT)
      ) table_of_kind (
          .clk, .rst,
          .valid(valid && which == 3'(t)), .vm, .addr, .write,
          .answer(a), .hit(h), .denied(d), .miss(m), .to(o),
          .put(put && which == 3'(t)), .put_valid, .put_choose, .put_place, .put_vm, .put_from,
          .put_to, .put_size, .put_read, .put_write, .put_done(p), .put_at(at),
          .misses(c), .miss_vm(cv), .miss_addr(ca),
          .count_place, .count_hits(ch), .count_denied(cd)
      );
      assign outs[t*OUT_W+:OUT_W] = {a, h, d, m, o, p, at, c, cv, ca, ch, cd};
    end
  endgenerate
  assign {answer, hit, denied, miss, to, put_done, put_at, misses, miss_vm, miss_addr, count_hits,
          count_denied} = outs[which*OUT_W+:OUT_W];
endmodule

// The I/O table under arbitrary writes and lookups.
module fv_io_map #(
    parameter int ADDR_W = 5,
    parameter int VM_W = 1,
    parameter int ENTRIES = 4,
    parameter int KIND = 2,
    parameter int REPLACE = 0
) (
    input logic clk,
    input logic rst,
    input logic valid,
    input logic [VM_W-1:0] vm,
    input logic [ADDR_W-1:0] addr,
    input logic write,
    input logic put,
    input logic put_valid,
    input logic put_choose,
    input logic [1:0] put_place,
    input logic [VM_W-1:0] put_vm,
    input logic [ADDR_W-1:0] put_from,
    input logic [ADDR_W-1:0] put_to,
    input logic [2:0] put_size,
    input logic put_read,
    input logic put_write
);
  logic answer, hit, denied, miss, put_done;
  logic [ADDR_W-1:0] to, miss_addr;
  logic [1:0] put_at;
  logic [VM_W-1:0] miss_vm;
  logic [3:0] misses, count_hits, count_denied;
  io_map #(
      .ADDR_W(ADDR_W), .VM_W(VM_W), .ENTRIES(ENTRIES), .KIND(KIND), .REPLACE(REPLACE),
      .COUNTERS(1'b0), .COUNT_W(4)
  ) dut (.count_place(2'd0), .*);

  logic began;
  initial began = 1'b0;
  always_ff @(posedge clk) begin
    began <= 1'b1;
    if (!began) assume (rst);
  end

  // One arbitrary address of one arbitrary VM: what is known of it from the writes alone.
  (* anyconst *) logic [ADDR_W-1:0] a;
  (* anyconst *) logic [VM_W-1:0] v;
  logic known, right_read, right_write;
  logic [ADDR_W-1:0] known_to, mask;
  logic [1:0] known_at;
  logic covers;
  assign mask = (ADDR_W'(1) << put_size) - ADDR_W'(1);
  assign covers = put_vm == v && ((a ^ put_from) & ~mask) == '0;
  always_ff @(posedge clk) begin
    if (put_done) begin
      // Whatever was at that place is gone.
      if (known && known_at == put_at) known <= 1'b0;
      if (put_valid && covers) begin
        known <= 1'b1;
        known_at <= put_at;
        known_to <= put_to + (a - put_from);
        {right_read, right_write} <= {put_read, put_write};
      end
    end
    if (rst) known <= 1'b0;
    else begin
      if (valid && addr == a && vm == v) begin
        assert (answer && hit + denied + miss == 1);
        assert (miss == !known);
        if (known) assert (hit == (write ? right_write : right_read));
        if (hit) assert (to == known_to);
      end
      // An address is never covered twice.
      if (put_done && put_valid && covers) assert (!known || put_at == known_at);
      if (!put) assert (!put_done);
      cover (hit && to != addr);
      cover (put_done && put_choose && known && put_at == known_at);
    end
  end
endmodule

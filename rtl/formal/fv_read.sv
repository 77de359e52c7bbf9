// The read channels between a master that keeps the rules of AXI and a memory that may take any
// time, and serve requests in any order: every read is answered once, in the order of its ID, with
// as many beats as it asked for, and with the bytes of its line.
module fv_read #(
    parameter int ADDR_W = 3,
    parameter int ID_W = 1,
    parameter int DATA_W = 8
) (
    input logic clk,
    input logic rst,
    input logic s_arvalid,
    input logic [ID_W-1:0] s_arid,
    input logic [ADDR_W-1:0] s_araddr,
    input logic [1:0] len,  // Four beats at most, so that lengths have two bits for the solver.
    input logic [2:0] s_arsize,
    input logic [1:0] s_arburst,
    input logic s_rready,
    input logic pop,
    input logic issued,
    input logic issued_slot,
    input logic line_valid,
    input logic [15:0] line
);
  logic s_arready, s_rvalid, s_rlast, req_valid, req_slot, pushed, pushed_place, req_place;
  logic [ID_W-1:0] s_rid;
  logic [DATA_W-1:0] s_rdata;
  logic [1:0] s_rresp, req_line, req_bytes;
  logic req_pop;
  logic [7:0] s_arlen;
  assign s_arlen = {6'd0, len};
  assign req_pop = pop && req_valid;
  nvmm_axi_read #(
      .ADDR_W(ADDR_W), .OFFSET_W(3), .ID_W(ID_W), .DATA_W(DATA_W), .LINE_BYTES(2), .DEPTH(2),
      .SLOTS(2)
  ) dut (.*);
  // Offers stay. The master's are assumed to, these are shown to; read_rules.sv has the rest.
  logic ar_waits, r_waits;
  logic [ID_W+ADDR_W+6:0] ar_was;
  logic [ID_W+2:0] r_was;
  always_ff @(posedge clk) begin
    ar_waits <= !rst && s_arvalid && !s_arready;
    r_waits <= !rst && s_rvalid && !s_rready;
    ar_was <= {s_arid, s_araddr, len, s_arsize, s_arburst};
    r_was <= {s_rid, s_rresp, s_rlast};
    if (!rst) begin
      if (ar_waits) assume (s_arvalid && ar_was == {s_arid, s_araddr, len, s_arsize, s_arburst});
      if (r_waits) assert (s_rvalid && r_was == {s_rid, s_rresp, s_rlast});
    end
  end

  logic began;
  initial began = 1'b0;
  always_ff @(posedge clk) begin
    began <= 1'b1;
    if (!began) assume (rst);
  end
endmodule

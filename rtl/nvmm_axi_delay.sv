// The coarse method in front of any memory: AXI4 passes through, and the addresses of requests to
// NVMM are held back. There are no registers on the way: a request that is not held is not delayed.
// Outputs depend on inputs of the same clock (valid on valid, ready on ready, both on the address),
// and no output of one side on the answer to itself, so there is no loop.
module nvmm_axi_delay #(
    parameter int ADDR_W = 33,
    parameter int ID_W = 4,
    parameter int DATA_W = 64,
    parameter int TIMER_W = 22,
    parameter int MAX_READS = 16,   // Outstanding reads that are let through; 0: any number.
    parameter int MAX_WRITES = 16
) (
    input logic clk,
    input logic rst,
    // Settings hold for the addresses that come from this clock on.
    input logic enable,
    input logic [ADDR_W-1:0] nvmm_base,  // This address and all above it are NVMM.
    input logic [TIMER_W-1:0] delay_read,
    input logic [TIMER_W-1:0] delay_write,

    input logic s_awvalid,
    output logic s_awready,
    input logic [ID_W-1:0] s_awid,
    input logic [ADDR_W-1:0] s_awaddr,
    input logic [7:0] s_awlen,
    input logic [2:0] s_awsize,
    input logic [1:0] s_awburst,
    input logic s_wvalid,
    output logic s_wready,
    input logic [DATA_W-1:0] s_wdata,
    input logic [DATA_W/8-1:0] s_wstrb,
    input logic s_wlast,
    output logic s_bvalid,
    input logic s_bready,
    output logic [ID_W-1:0] s_bid,
    output logic [1:0] s_bresp,
    input logic s_arvalid,
    output logic s_arready,
    input logic [ID_W-1:0] s_arid,
    input logic [ADDR_W-1:0] s_araddr,
    input logic [7:0] s_arlen,
    input logic [2:0] s_arsize,
    input logic [1:0] s_arburst,
    output logic s_rvalid,
    input logic s_rready,
    output logic [ID_W-1:0] s_rid,
    output logic [DATA_W-1:0] s_rdata,
    output logic [1:0] s_rresp,
    output logic s_rlast,

    output logic m_awvalid,
    input logic m_awready,
    output logic [ID_W-1:0] m_awid,
    output logic [ADDR_W-1:0] m_awaddr,
    output logic [7:0] m_awlen,
    output logic [2:0] m_awsize,
    output logic [1:0] m_awburst,
    output logic m_wvalid,
    input logic m_wready,
    output logic [DATA_W-1:0] m_wdata,
    output logic [DATA_W/8-1:0] m_wstrb,
    output logic m_wlast,
    input logic m_bvalid,
    output logic m_bready,
    input logic [ID_W-1:0] m_bid,
    input logic [1:0] m_bresp,
    output logic m_arvalid,
    input logic m_arready,
    output logic [ID_W-1:0] m_arid,
    output logic [ADDR_W-1:0] m_araddr,
    output logic [7:0] m_arlen,
    output logic [2:0] m_arsize,
    output logic [1:0] m_arburst,
    input logic m_rvalid,
    output logic m_rready,
    input logic [ID_W-1:0] m_rid,
    input logic [DATA_W-1:0] m_rdata,
    input logic [1:0] m_rresp,
    input logic m_rlast
);
  logic ar_open, aw_open, ar_room, aw_room;

  nvmm_hold #(.TIMER_W(TIMER_W)) hold_read (
      .clk, .rst,
      .valid(s_arvalid),
      .taken(m_arvalid && m_arready),
      .clocks((enable && s_araddr >= nvmm_base) ? delay_read : '0),
      .open(ar_open)
  );
  nvmm_hold #(.TIMER_W(TIMER_W)) hold_write (
      .clk, .rst,
      .valid(s_awvalid),
      .taken(m_awvalid && m_awready),
      .clocks((enable && s_awaddr >= nvmm_base) ? delay_write : '0),
      .open(aw_open)
  );
  nvmm_outstanding #(.MAX(MAX_READS)) reads (
      .clk, .rst,
      .begins(m_arvalid && m_arready),
      .ends(m_rvalid && m_rready && m_rlast),
      .room(ar_room)
  );
  nvmm_outstanding #(.MAX(MAX_WRITES)) writes (
      .clk, .rst,
      .begins(m_awvalid && m_awready),
      .ends(m_bvalid && m_bready),
      .room(aw_room)
  );

  assign m_arvalid = s_arvalid && ar_open && ar_room;
  assign s_arready = m_arready && ar_open && ar_room;
  assign m_awvalid = s_awvalid && aw_open && aw_room;
  assign s_awready = m_awready && aw_open && aw_room;

  // Everything else passes.
  assign {m_arid, m_araddr, m_arlen, m_arsize, m_arburst} =
      {s_arid, s_araddr, s_arlen, s_arsize, s_arburst};
  assign {m_awid, m_awaddr, m_awlen, m_awsize, m_awburst} =
      {s_awid, s_awaddr, s_awlen, s_awsize, s_awburst};
  assign {m_wvalid, m_wdata, m_wstrb, m_wlast} = {s_wvalid, s_wdata, s_wstrb, s_wlast};
  assign s_wready = m_wready;
  assign {s_bvalid, s_bid, s_bresp} = {m_bvalid, m_bid, m_bresp};
  assign m_bready = s_bready;
  assign {s_rvalid, s_rid, s_rdata, s_rresp, s_rlast} =
      {m_rvalid, m_rid, m_rdata, m_rresp, m_rlast};
  assign m_rready = s_rready;
endmodule

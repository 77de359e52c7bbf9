// What the testbench drives: nvmm_axi_delay in front of nvmm_bank_controller, with the rules of AXI
// checked on both sides of the former.
module bench_top #(
    parameter int ADDR_W = 33,
    parameter int ID_W = 2,
    parameter int DATA_W = 64,
    parameter int ROW_W = 16
) (
    input logic clk,
    input logic rst,
    input logic d_enable,
    input logic [ADDR_W-1:0] d_nvmm_base,
    input logic [21:0] d_read,
    input logic [21:0] d_write,

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

    // The controller's handshakes.
    output logic m_arvalid,
    output logic m_arready,
    output logic [ADDR_W-1:0] m_araddr,
    output logic m_awvalid,
    output logic m_awready,
    output logic [ADDR_W-1:0] m_awaddr,

    input logic c_awvalid,
    output logic c_awready,
    input logic [15:0] c_awaddr,
    input logic c_wvalid,
    output logic c_wready,
    input logic [63:0] c_wdata,
    input logic [7:0] c_wstrb,
    output logic c_bvalid,
    input logic c_bready,
    output logic [1:0] c_bresp,
    input logic c_arvalid,
    output logic c_arready,
    input logic [15:0] c_araddr,
    output logic c_rvalid,
    input logic c_rready,
    output logic [63:0] c_rdata,
    output logic [1:0] c_rresp,

    output logic phy_act,
    output logic [2:0] phy_act_bank,
    output logic [ROW_W-1:0] phy_act_row,
    output logic phy_pre,
    output logic [2:0] phy_pre_bank,
    output logic phy_rd,
    output logic phy_wr,
    output logic [2:0] phy_col_bank,
    output logic [ROW_W-1:0] phy_col_row,
    output logic [6:0] phy_col,
    output logic phy_ref,
    output logic [511:0] phy_wr_data,
    output logic [63:0] phy_wr_strb,
    input logic phy_rd_valid,
    input logic [511:0] phy_rd_data,
    output logic seen_accept,
    output logic seen_accept_write,
    output logic [2:0] seen_accept_bank,
    output logic [ROW_W-1:0] seen_accept_row,
    output logic seen_accept_hit
);
  logic [ID_W-1:0] m_awid, m_bid, m_arid, m_rid;
  logic [7:0] m_awlen, m_arlen;
  logic [2:0] m_awsize, m_arsize;
  logic [1:0] m_awburst, m_arburst, m_bresp, m_rresp;
  logic [DATA_W-1:0] m_wdata, m_rdata;
  logic [DATA_W/8-1:0] m_wstrb;
  logic m_wvalid, m_wready, m_wlast, m_bvalid, m_bready, m_rvalid, m_rready, m_rlast;

  nvmm_axi_delay #(
      .ADDR_W(ADDR_W), .ID_W(ID_W), .DATA_W(DATA_W), .MAX_READS(16), .MAX_WRITES(16)
  ) front (
      .clk, .rst,
      .enable(d_enable), .nvmm_base(d_nvmm_base), .delay_read(d_read), .delay_write(d_write),
      .*
  );
  nvmm_bank_controller #(
      .ADDR_W(ADDR_W), .MEMORY_BASE(33'h8000_0000), .ID_W(ID_W), .DATA_W(DATA_W), .ROW_W(ROW_W)
  ) controller (
      .clk, .rst,
      .s_awvalid(m_awvalid), .s_awready(m_awready), .s_awid(m_awid), .s_awaddr(m_awaddr),
      .s_awlen(m_awlen), .s_awsize(m_awsize), .s_awburst(m_awburst),
      .s_wvalid(m_wvalid), .s_wready(m_wready), .s_wdata(m_wdata), .s_wstrb(m_wstrb),
      .s_wlast(m_wlast),
      .s_bvalid(m_bvalid), .s_bready(m_bready), .s_bid(m_bid), .s_bresp(m_bresp),
      .s_arvalid(m_arvalid), .s_arready(m_arready), .s_arid(m_arid), .s_araddr(m_araddr),
      .s_arlen(m_arlen), .s_arsize(m_arsize), .s_arburst(m_arburst),
      .s_rvalid(m_rvalid), .s_rready(m_rready), .s_rid(m_rid), .s_rdata(m_rdata),
      .s_rresp(m_rresp), .s_rlast(m_rlast),
      .*
  );

  // The rules between commands, in the clock in which they are decided.
  command_rules #(.ROW_W(ROW_W)) rules (
      .clk, .rst,
      .t_rcd(controller.t_rcd), .t_ras(controller.t_ras), .t_rtp(controller.t_rtp),
      .t_wtp(controller.t_wtp), .t_rp(controller.t_rp),
      .add_rcd(controller.fine ? controller.added_rcd : '0),
      .add_ras(controller.extended ? controller.added_ras : '0),
      .add_rp(controller.fine ? controller.added_rp : '0),
      .t_duration(controller.t_duration), .first_nvmm(controller.first_nvmm),
      .accept(controller.accept), .accept_bank(controller.req_bank),
      .act(controller.act), .act_bank(controller.act_bank), .act_row(controller.act_row),
      .col(controller.col), .col_write(controller.col_write), .col_bank(controller.col_bank),
      .col_row(controller.col_row), .pre(controller.pre), .pre_bank(controller.pre_bank),
      .pulse(controller.core.pulse), .refresh(controller.refresh)
  );

  axi_checker #(.ADDR_W(ADDR_W), .ID_W(ID_W), .DATA_W(DATA_W)) at_master (
      .clk, .rst,
      .awvalid(s_awvalid), .awready(s_awready), .awid(s_awid), .awaddr(s_awaddr),
      .awlen(s_awlen), .awsize(s_awsize), .awburst(s_awburst),
      .wvalid(s_wvalid), .wready(s_wready), .wdata(s_wdata), .wstrb(s_wstrb), .wlast(s_wlast),
      .bvalid(s_bvalid), .bready(s_bready), .bid(s_bid), .bresp(s_bresp),
      .arvalid(s_arvalid), .arready(s_arready), .arid(s_arid), .araddr(s_araddr),
      .arlen(s_arlen), .arsize(s_arsize), .arburst(s_arburst),
      .rvalid(s_rvalid), .rready(s_rready), .rid(s_rid), .rdata(s_rdata), .rresp(s_rresp),
      .rlast(s_rlast)
  );
endmodule

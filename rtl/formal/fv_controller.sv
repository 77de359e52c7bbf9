// The whole controller between a master that keeps the rules of AXI and a memory: no beat and no
// response is lost or doubled, whatever stalls; sizes are the smallest with all parts in use.
module fv_controller #(
    parameter int ADDR_W = 4,
    parameter int ID_W = 1,
    parameter int DATA_W = 8,
    parameter int BOUND = 0  // Clocks in which a read or write is answered; 0: not proved.
) (
    input logic clk,
    input logic rst,
    input logic s_awvalid,
    input logic [ID_W-1:0] s_awid,
    input logic [ADDR_W-1:0] s_awaddr,
    input logic [1:0] awlen,  // Short bursts, with few bits for the solver; bad ones among them.
    input logic [2:0] s_awsize,
    input logic [1:0] s_awburst,
    input logic s_wvalid,
    input logic [DATA_W-1:0] s_wdata,
    input logic [DATA_W/8-1:0] s_wstrb,
    input logic s_wlast,
    input logic s_bready,
    input logic s_arvalid,
    input logic [ID_W-1:0] s_arid,
    input logic [ADDR_W-1:0] s_araddr,
    input logic [1:0] arlen,
    input logic [2:0] s_arsize,
    input logic [1:0] s_arburst,
    input logic s_rready,
    input logic [15:0] phy_rd_data
);
  logic [7:0] s_awlen, s_arlen;
  assign s_awlen = {6'd0, awlen};
  assign s_arlen = {6'd0, arlen};
  logic s_awready, s_wready, s_bvalid, s_arready, s_rvalid, s_rlast;
  logic [ID_W-1:0] s_bid, s_rid;
  logic [1:0] s_bresp, s_rresp;
  logic [DATA_W-1:0] s_rdata;
  logic phy_act, phy_pre, phy_rd, phy_wr, phy_ref, phy_rd_valid;
  logic phy_act_bank, phy_act_row, phy_pre_bank, phy_col_bank, phy_col_row, phy_col;
  logic [15:0] phy_wr_data;
  logic [1:0] phy_wr_strb;
  logic seen_accept, seen_accept_write, seen_accept_bank, seen_accept_row, seen_accept_hit;
  logic c_awready, c_wready, c_bvalid, c_arready, c_rvalid;
  logic [1:0] c_bresp, c_rresp;
  logic [63:0] c_rdata;
  nvmm_bank_controller #(
      .ADDR_W(ADDR_W), .ID_W(ID_W), .DATA_W(DATA_W), .LINE_BYTES(2), .BANK_W(1), .ROW_W(1),
      .COL_W(2), .MACHINES(2), .DEPTH(2), .READ_SLOTS(2), .RESPONSES(2), .TIMER_W(4),
      .STATISTICS(1'b0), .REFRESH(1'b0), .FIRST_NVMM(1),
      .BASE_WAIT(1), .BASE_RCD(1), .BASE_RAS(2), .BASE_RTP(1), .BASE_WTP(1), .BASE_RP(1)
  ) dut (
      // The control block rests: the settings after reset are in force.
      .c_awvalid(1'b0), .c_awaddr('0), .c_wvalid(1'b0), .c_wdata('0), .c_wstrb('0),
      .c_bready(1'b1), .c_arvalid(1'b0), .c_araddr('0), .c_rready(1'b1),
      .*
  );
  axi_checker #(.ADDR_W(ADDR_W), .ID_W(ID_W), .DATA_W(DATA_W), .MAX(4)) checker_of_axi (
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
  always_ff @(posedge clk) phy_rd_valid <= phy_rd && !rst;

  logic began;
  initial began = 1'b0;
  always_ff @(posedge clk) begin
    began <= 1'b1;
    assume (rst == !began);
  end

  // Requests and answers balance.
  logic [4:0] reads, writes;
  logic [6:0] idle_r, idle_b;
  always_ff @(posedge clk) begin
    reads <= reads + 5'(s_arvalid && s_arready) - 5'(s_rvalid && s_rready && s_rlast);
    writes <= writes + 5'(s_wvalid && s_wready && s_wlast) - 5'(s_bvalid && s_bready);
    idle_r <= (reads == '0 || (s_rvalid && s_rready)) ? '0 : idle_r + 7'd1;
    idle_b <= (writes == '0 || (s_bvalid && s_bready)) ? '0 : idle_b + 7'd1;
    if (rst) begin
      reads <= '0;
      writes <= '0;
      idle_r <= '0;
      idle_b <= '0;
    end else begin
      assert (reads <= 5'd2 && writes <= 5'd2);
      if (BOUND != 0) begin
        // The master takes answers at once.
        assume (s_rready && s_bready);
        assert (idle_r < 7'(BOUND) && idle_b < 7'(BOUND));
      end
      cover (s_rvalid && s_rready && s_rlast && s_rresp == 2'b00);
      cover (s_bvalid && s_bready && s_bresp == 2'b00);
    end
  end
endmodule

// nvmm_axi_delay between a master and a slave that keep the rules of AXI.
module fv_delay #(
    parameter int TIMER_W = 3,
    parameter int ADDR_W = 2,
    parameter int ID_W = 1,
    parameter int DATA_W = 8,
    parameter int MAX = 2
) (
    input logic clk,
    input logic rst,
    input logic enable,
    input logic [ADDR_W-1:0] nvmm_base,
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
    input logic m_awready,
    input logic m_wready,
    input logic m_bvalid,
    input logic [ID_W-1:0] m_bid,
    input logic [1:0] m_bresp,
    input logic m_arready,
    input logic m_rvalid,
    input logic [ID_W-1:0] m_rid,
    input logic [DATA_W-1:0] m_rdata,
    input logic [1:0] m_rresp,
    input logic m_rlast
);
  logic m_awvalid, m_wvalid, m_wlast, m_bready, m_arvalid, m_rready;
  logic [ID_W-1:0] m_awid, m_arid;
  logic [ADDR_W-1:0] m_awaddr, m_araddr;
  logic [7:0] m_awlen, m_arlen;
  logic [2:0] m_awsize, m_arsize;
  logic [1:0] m_awburst, m_arburst;
  logic [DATA_W-1:0] m_wdata;
  logic [DATA_W/8-1:0] m_wstrb;
  nvmm_axi_delay #(
      .ADDR_W(ADDR_W), .ID_W(ID_W), .DATA_W(DATA_W), .TIMER_W(TIMER_W), .MAX_READS(MAX),
      .MAX_WRITES(MAX)
  ) dut (.*);

  logic began;
  initial began = 1'b0;
  always_ff @(posedge clk) begin
    began <= 1'b1;
    if (!began) assume (rst);
  end

  // Both channels of addresses obey the rules of one.
  fv_delay_channel #(.TIMER_W(TIMER_W)) reads (
      .clk, .rst, .s_valid(s_arvalid), .s_ready(s_arready), .m_valid(m_arvalid),
      .m_ready(m_arready), .held(enable && s_araddr >= nvmm_base), .delay(delay_read),
      .ends(m_rvalid && m_rready && m_rlast), .max(3'(MAX)));
  fv_delay_channel #(.TIMER_W(TIMER_W)) writes (
      .clk, .rst, .s_valid(s_awvalid), .s_ready(s_awready), .m_valid(m_awvalid),
      .m_ready(m_awready), .held(enable && s_awaddr >= nvmm_base), .delay(delay_write),
      .ends(m_bvalid && m_bready), .max(3'(MAX)));

  // What passes is what came; data and answers are wires.
  logic [ID_W+ADDR_W+12:0] ar_was, aw_was;
  logic ar_waits, aw_waits;
  always_ff @(posedge clk) begin
    ar_waits <= !rst && s_arvalid && !s_arready;
    aw_waits <= !rst && s_awvalid && !s_awready;
    ar_was <= {s_arid, s_araddr, s_arlen, s_arsize, s_arburst};
    aw_was <= {s_awid, s_awaddr, s_awlen, s_awsize, s_awburst};
    if (!rst) begin
      // Masters keep what they offer.
      if (ar_waits) assume (s_arvalid && ar_was == {s_arid, s_araddr, s_arlen, s_arsize, s_arburst});
      if (aw_waits) assume (s_awvalid && aw_was == {s_awid, s_awaddr, s_awlen, s_awsize, s_awburst});
      assert ({m_arid, m_araddr, m_arlen, m_arsize, m_arburst}
              == {s_arid, s_araddr, s_arlen, s_arsize, s_arburst});
      assert ({m_awid, m_awaddr, m_awlen, m_awsize, m_awburst}
              == {s_awid, s_awaddr, s_awlen, s_awsize, s_awburst});
      assert ({m_wvalid, m_wdata, m_wstrb, m_wlast, s_wready}
              == {s_wvalid, s_wdata, s_wstrb, s_wlast, m_wready});
      assert ({s_bvalid, s_bid, s_bresp, m_bready} == {m_bvalid, m_bid, m_bresp, s_bready});
      assert ({s_rvalid, s_rid, s_rdata, s_rresp, s_rlast, m_rready}
              == {m_rvalid, m_rid, m_rdata, m_rresp, m_rlast, s_rready});
    end
  end
endmodule

module fv_delay_channel #(
    parameter int TIMER_W = 3
) (
    input logic clk,
    input logic rst,
    input logic s_valid,
    input logic s_ready,
    input logic m_valid,
    input logic m_ready,
    input logic held,
    input logic [TIMER_W-1:0] delay,
    input logic ends,
    input logic [2:0] max
);
  // The head: how long it has been there, and what it was given when it came.
  logic there, m_waited;
  logic [TIMER_W-1:0] given, mine;
  logic [TIMER_W:0] age, now;
  logic [2:0] under_way;
  assign mine = there ? given : (held ? delay : '0);
  assign now = there ? age : '0;
  always_ff @(posedge clk) begin
    there <= s_valid && !s_ready;
    given <= mine;
    age <= (now == '1) ? now : now + (TIMER_W + 1)'(1);
    m_waited <= !rst && m_valid && !m_ready;
    under_way <= under_way + 3'(m_valid && m_ready) - 3'(ends);
    if (rst) begin
      there <= 1'b0;
      under_way <= '0;
    end else begin
      // The slave answers only what was asked.
      if (under_way == '0) assume (!ends);
      // No address is lost, doubled or taken back.
      assert ((s_valid && s_ready) == (m_valid && m_ready));
      assert (!m_valid || s_valid);
      if (m_waited) assert (m_valid);
      // Held for exactly its delay; 0 is none; then it passes as soon as there is room.
      if (s_valid) assert (m_valid == (now >= {1'b0, mine} && under_way != max));
      assert (under_way <= max);
      cover (s_valid && s_ready && mine == '0 && !there);
      cover (s_valid && s_ready && mine == TIMER_W'(3) && now == (TIMER_W + 1)'(3));
      cover (under_way == max && s_valid);
    end
  end
endmodule

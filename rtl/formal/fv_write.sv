// The write channels between a master that keeps the rules of AXI and bank machines that may take
// any time: every write is answered once, behind its last beat; no queue overflows or runs dry.
module fv_write #(
    parameter int ADDR_W = 3,
    parameter int ID_W = 1,
    parameter int DATA_W = 8
) (
    input logic clk,
    input logic rst,
    input logic s_awvalid,
    input logic [ID_W-1:0] s_awid,
    input logic [ADDR_W-1:0] s_awaddr,
    input logic [1:0] len,  // Four beats at most, so that lengths have two bits for the solver.
    input logic [2:0] s_awsize,
    input logic [1:0] s_awburst,
    input logic s_wvalid,
    input logic [DATA_W-1:0] s_wdata,
    input logic [DATA_W/8-1:0] s_wstrb,
    input logic s_wlast,
    input logic s_bready,
    input logic take,
    input logic issue
);
  logic s_awready, s_wready, s_bvalid, req_valid, req_pop, req_bad, data_pop;
  logic [ID_W-1:0] s_bid;
  logic [1:0] s_bresp, req_line, req_bytes, req_count, strb;
  logic [15:0] data;
  logic [1:0] accepted;  // By a machine, without its write command.
  logic [7:0] s_awlen;
  assign s_awlen = {6'd0, len};
  assign req_pop = req_valid && (req_bad || (take && accepted != 2'd2));
  assign data_pop = issue && accepted != 2'd0;
  nvmm_axi_write #(
      .ADDR_W(ADDR_W), .OFFSET_W(3), .ID_W(ID_W), .DATA_W(DATA_W), .LINE_BYTES(2), .DEPTH(2),
      .MACHINES(2), .RESPONSES(3)
  ) dut (.*);
  axi_checker #(.ADDR_W(ADDR_W), .ID_W(ID_W), .DATA_W(DATA_W), .MAX(4)) checker_of_axi (
      .clk, .rst,
      .awvalid(s_awvalid), .awready(s_awready), .awid(s_awid), .awaddr(s_awaddr),
      .awlen(s_awlen), .awsize(s_awsize), .awburst(s_awburst),
      .wvalid(s_wvalid), .wready(s_wready), .wdata(s_wdata), .wstrb(s_wstrb), .wlast(s_wlast),
      .bvalid(s_bvalid), .bready(s_bready), .bid(s_bid), .bresp(s_bresp),
      .arvalid(1'b0), .arready(1'b0), .arid('0), .araddr('0), .arlen('0), .arsize('0),
      .arburst('0), .rvalid(1'b0), .rready(1'b0), .rid('0), .rdata('0), .rresp('0), .rlast(1'b0)
  );
  logic began;
  initial began = 1'b0;
  always_ff @(posedge clk) begin
    began <= 1'b1;
    if (!began) assume (rst);
    accepted <= accepted + 2'(req_pop && !req_bad) - 2'(data_pop);
    if (rst) accepted <= '0;
    else begin
      cover (s_bvalid && s_bready && s_bresp == 2'b00);
      cover (data_pop && strb == 2'b11);
      cover (s_bvalid && s_bresp == 2'b10);
    end
  end

  // Never more complete writes without their response than there is room for.
  logic [3:0] came, went, begun;
  // With machines and a master that never wait there is a bound for the next answer.
  (* anyconst *) logic prompt;
  logic [4:0] silent;
  always_ff @(posedge clk) begin
    if (s_awvalid && s_awready) begun <= begun + 4'd1;
    silent <= (begun == went || (s_bvalid && s_bready)) ? '0 : silent + 5'd1;
    if (!rst && prompt) begin
      assume (s_bready && take && (issue || accepted == '0) && (s_wvalid || begun == came));
      assert (silent < 5'd7);
    end
    if (s_wvalid && s_wready && s_wlast) came <= came + 4'd1;
    if (s_bvalid && s_bready) went <= went + 4'd1;
    if (rst) begin
      begun <= '0;
      silent <= '0;
      came <= '0;
      went <= '0;
    end else begin
      assert (came - went <= 4'd3);
      // No deadlock: an address waits only while there are writes, and while there are, data are
      // taken, or something is offered to the machines or to the master. Each write passes these
      // stages once.
      assert (s_awready || begun != went);
      assert (begun == went || s_wready || req_valid || s_bvalid);
    end
  end
endmodule

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
    input logic [7:0] s_arlen,
    input logic [2:0] s_arsize,
    input logic [1:0] s_arburst,
    input logic s_rready,
    input logic pop,
    input logic issued,
    input logic issued_slot,
    input logic line_valid,
    input logic watch
);
  logic s_arready, s_rvalid, s_rlast, req_valid, req_slot, pushed, pushed_place, req_place;
  logic [ID_W-1:0] s_rid;
  logic [DATA_W-1:0] s_rdata;
  logic [1:0] s_rresp, req_line, req_bytes;
  logic [15:0] line;
  logic req_pop;
  assign req_pop = pop && req_valid;
  nvmm_axi_read #(
      .ADDR_W(ADDR_W), .OFFSET_W(3), .ID_W(ID_W), .DATA_W(DATA_W), .LINE_BYTES(2), .DEPTH(2),
      .SLOTS(2)
  ) dut (.*);
  axi_checker #(.ADDR_W(ADDR_W), .ID_W(ID_W), .DATA_W(DATA_W), .MAX(2)) checker_of_axi (
      .clk, .rst,
      .awvalid(1'b0), .awready(1'b0), .awid('0), .awaddr('0), .awlen('0), .awsize('0),
      .awburst('0), .wvalid(1'b0), .wready(1'b0), .wdata('0), .wstrb('0), .wlast(1'b0),
      .bvalid(1'b0), .bready(1'b0), .bid('0), .bresp('0),
      .arvalid(s_arvalid), .arready(s_arready), .arid(s_arid), .araddr(s_araddr),
      .arlen(s_arlen), .arsize(s_arsize), .arburst(s_arburst),
      .rvalid(s_rvalid), .rready(s_rready), .rid(s_rid), .rdata(s_rdata), .rresp(s_rresp),
      .rlast(s_rlast)
  );

  // The memory: a line's bytes are made of its number.
  logic [1:0] pending;            // Slots that were taken and not served.
  logic [3:0] lines;              // Their lines.
  logic [1:0] count;              // Served and not returned, oldest first.
  logic [3:0] queue;
  function automatic logic [15:0] content(input logic [1:0] l);
    content = {6'd5, l, 6'd10, l};
  endfunction
  assign line = content(queue[1:0]);

  logic began;
  initial began = 1'b0;
  always_ff @(posedge clk) begin
    began <= 1'b1;
    if (!began) assume (rst);
    assume (s_arlen <= 8'd3);
    if (req_pop) begin
      pending[req_slot] <= 1'b1;
      lines[req_slot*2+:2] <= req_line;
    end
    if (issued) pending[issued_slot] <= 1'b0;
    count <= count + 2'(issued) - 2'(line_valid);
    if (line_valid) queue[1:0] <= queue[3:2];
    if (issued) begin
      if (count - 2'(line_valid) == 2'd0) queue[1:0] <= lines[issued_slot*2+:2];
      else queue[3:2] <= lines[issued_slot*2+:2];
    end
    if (rst) begin
      pending <= '0;
      count <= '0;
    end else begin
      if (issued) assume (pending[issued_slot]);
      if (line_valid) assume (count != 2'd0);
      // No slot is given out twice.
      if (req_pop) assert (!pending[req_slot]);
      assert (count <= 2'd2);
    end
  end

  // One arbitrary read.
  logic watched;
  logic [ID_W-1:0] w_id;
  logic [ADDR_W-1:0] w_addr;
  logic [1:0] w_burst;
  logic [7:0] w_len;
  logic [2:0] w_size;
  logic [1:0] ahead, mine;        // Reads with its ID in front of it.
  logic [3:0] under_way;          // Reads by ID.
  logic [7:0] beat;
  logic good;
  assign good = w_size == 3'd0 && w_burst != 2'b11 && (w_burst != 2'b00 || w_len == 8'd0)
                && (w_burst == 2'b10 ? w_len <= 8'd1 : {7'd0, w_addr[0]} + w_len <= 8'd1);
  assign mine = under_way[s_arid*2+:2];
  always_ff @(posedge clk) begin
    for (int i = 0; i < 2; i++) begin
      under_way[i*2+:2] <= under_way[i*2+:2] + 2'(s_arvalid && s_arready && s_arid == 1'(i))
          - 2'(s_rvalid && s_rready && s_rlast && s_rid == 1'(i));
    end
    if (s_arvalid && s_arready && watch && !watched) begin
      watched <= 1'b1;
      {w_id, w_addr, w_burst, w_len, w_size} <= {s_arid, s_araddr, s_arburst, s_arlen, s_arsize};
      ahead <= mine - 2'(s_rvalid && s_rready && s_rlast && s_rid == s_arid);
      beat <= '0;
    end else if (watched && s_rvalid && s_rready && s_rid == w_id) begin
      if (ahead == 2'd0) beat <= beat + 8'd1;
      if (s_rlast) begin
        if (ahead == 2'd0) watched <= 1'b0;
        else ahead <= ahead - 2'd1;
      end
    end
    if (rst) begin
      watched <= 1'b0;
      under_way <= '0;
    end else if (watched && s_rvalid && s_rid == w_id && ahead == 2'd0) begin
      assert ((s_rresp == 2'b00) == good);
      assert (s_rlast == (beat == w_len));
      if (good) assert (s_rdata == {(w_addr[0] ^ beat[0]) ? 6'd5 : 6'd10, w_addr[2:1]});
      cover (good && beat == 8'd1 && w_burst == 2'b10);
      cover (!good && s_rlast);
    end
  end
endmodule

// The write channels of the controller: AW and W to a queue of requests with their data, responses
// to B. A request enters the queue with its last beat; its response is due when a bank machine has
// accepted it. Data leave in the order of the requests, as the write commands do.
module nvmm_axi_write #(
    parameter int ADDR_W = 32,
    parameter int OFFSET_W = 32,
    parameter logic [ADDR_W-1:0] MEMORY_BASE = '0,
    parameter int ID_W = 4,
    parameter int DATA_W = 64,
    parameter int LINE_BYTES = 64,
    parameter int DEPTH = 8,       // Requests that wait for a bank machine.
    parameter int MACHINES = 8,    // Those that have one still need their data.
    parameter int RESPONSES = 16,  // From the address handshake to the response.
    parameter int LINE_W = $clog2(LINE_BYTES)
) (
    input logic clk,
    input logic rst,

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

    output logic req_valid,
    input logic req_pop,             // Accepted by a bank machine, or refused.
    output logic req_bad,            // Not for the memory: to be refused.
    output logic [OFFSET_W-LINE_W-1:0] req_line,
    output logic [LINE_W:0] req_bytes,
    output logic [$clog2(DEPTH+1)-1:0] req_count,

    input logic data_pop,
    output logic [LINE_BYTES*8-1:0] data,
    output logic [LINE_BYTES-1:0] strb
);
  localparam int WORDS = LINE_BYTES * 8 / DATA_W;
  localparam int WORD_LOW = $clog2(DATA_W / 8);
  localparam int COUNT_W = $clog2(DEPTH + 1);
  localparam int OWED_W = $clog2(RESPONSES + 1);

  // AW: two addresses, so that the next one can come while data of this one do.
  logic [OFFSET_W-LINE_W-1:0] aw_line, line;
  logic [LINE_W-1:0] aw_start, start;
  logic [LINE_W:0] aw_bytes, bytes;
  logic aw_bad, bad, wrap, aw_taken, aw_some, last, w_taken;
  logic [ID_W-1:0] id;
  logic [7:0] len;
  logic [2:0] size;
  logic [1:0] aw_count;
  logic [OWED_W-1:0] owed;
  nvmm_burst #(
      .ADDR_W(ADDR_W), .OFFSET_W(OFFSET_W), .MEMORY_BASE(MEMORY_BASE), .DATA_W(DATA_W),
      .LINE_BYTES(LINE_BYTES)
  ) aw_burst (
      .addr(s_awaddr), .len(s_awlen), .size(s_awsize), .burst(s_awburst),
      .line(aw_line), .start(aw_start), .bytes(aw_bytes), .bad(aw_bad)
  );
  assign s_awready = aw_count != 2'd2 && owed != OWED_W'(RESPONSES);
  assign aw_taken = s_awvalid && s_awready;
  nvmm_fifo #(.WIDTH(OFFSET_W + LINE_W + 1 + 1 + ID_W + 8 + 3 + 1), .DEPTH(2)) addresses (
      .clk, .rst,
      .push(aw_taken),
      .in({aw_line, aw_start, aw_bytes, aw_bad, s_awid, s_awlen, s_awsize, s_awburst[1]}),
      .pop(last),
      .head({line, start, bytes, bad, id, len, size, wrap}),
      .valid(aw_some),
      .count(aw_count)
  );

  // W: beats are gathered into a line.
  logic gathering;
  logic [LINE_W-1:0] offset, at, next;
  logic [LINE_BYTES*8-1:0] gathered, merged;
  logic [LINE_BYTES-1:0] gathered_strb, merged_strb;
  assign at = gathering ? offset : start;
  nvmm_beat #(.LINE_W(LINE_W)) stepping (.at, .len, .size, .wrap, .next);
  assign s_wready = aw_some && req_count != COUNT_W'(DEPTH);
  assign w_taken = s_wvalid && s_wready;
  assign last = w_taken && s_wlast;
  always_comb begin
    merged = gathered;
    merged_strb = gathering ? gathered_strb : '0;
    for (int w = 0; w < WORDS; w++) begin
      for (int b = 0; b < DATA_W / 8; b++) begin
        if ((at >> WORD_LOW) == LINE_W'(w) && s_wstrb[b]) begin
          merged[w*DATA_W+b*8+:8] = s_wdata[b*8+:8];
          merged_strb[w*DATA_W/8+b] = 1'b1;
        end
      end
    end
  end
  always_ff @(posedge clk) begin
    if (w_taken) begin
      gathering <= !s_wlast;
      offset <= next;
      gathered <= merged;
      gathered_strb <= merged_strb;
    end
    if (rst) gathering <= 1'b0;
  end

  logic [ID_W-1:0] req_id;
  nvmm_fifo #(.WIDTH(OFFSET_W - LINE_W + LINE_W + 1 + ID_W + 1), .DEPTH(DEPTH)) requests (
      .clk, .rst,
      .push(last), .in({line, bytes, id, bad}),
      .pop(req_pop), .head({req_line, req_bytes, req_id, req_bad}),
      .valid(req_valid), .count(req_count)
  );
  /* verilator lint_off PINCONNECTEMPTY */
  nvmm_fifo #(.WIDTH(LINE_BYTES * 9), .DEPTH(DEPTH + MACHINES)) lines (
      .clk, .rst,
      .push(last && !bad), .in({merged, merged_strb}),
      .pop(data_pop), .head({data, strb}),
      .valid(), .count()
  );

  // B: there is room for every response that is owed.
  logic b_bad;
  nvmm_fifo #(.WIDTH(ID_W + 1), .DEPTH(RESPONSES)) responses (
      .clk, .rst,
      .push(req_pop), .in({req_id, req_bad}),
      .pop(s_bvalid && s_bready), .head({s_bid, b_bad}),
      .valid(s_bvalid), .count()
  );
  /* verilator lint_on PINCONNECTEMPTY */
  assign s_bresp = b_bad ? 2'b10 : 2'b00;
  always_ff @(posedge clk) begin
    if (aw_taken && !(s_bvalid && s_bready)) owed <= owed + OWED_W'(1);
    if (!aw_taken && s_bvalid && s_bready) owed <= owed - OWED_W'(1);
    if (rst) owed <= '0;
  end
endmodule

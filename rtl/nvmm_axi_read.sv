// The read channels of the controller: AR to a queue of requests, lines from the memory to R.
//
// Every request has a slot for its line from the address handshake on, so the memory is never kept
// waiting by R. Reads with one ID are answered in order, others in the order of their completion.
module nvmm_axi_read #(
    parameter int ADDR_W = 32,
    parameter int OFFSET_W = 32,   // Offset in the memory, from its first byte.
    parameter logic [ADDR_W-1:0] MEMORY_BASE = '0,
    parameter int ID_W = 4,
    parameter int DATA_W = 64,
    parameter int LINE_BYTES = 64,
    parameter int DEPTH = 8,       // Requests that wait for a bank machine.
    parameter int SLOTS = 16,      // Requests under way.
    parameter int SLOT_W = $clog2(SLOTS),
    parameter int LINE_W = $clog2(LINE_BYTES)
) (
    input logic clk,
    input logic rst,

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

    // The head of the queue of requests.
    output logic req_valid,
    input logic req_pop,
    output logic [OFFSET_W-LINE_W-1:0] req_line,
    output logic [SLOT_W-1:0] req_slot,
    output logic [LINE_W:0] req_bytes,
    // It has been pushed in this clock; for the order between reads and writes.
    output logic pushed,
    output logic [$clog2(DEPTH)-1:0] pushed_place,
    output logic [$clog2(DEPTH)-1:0] req_place,

    // Read commands and lines, in the same order.
    input logic issued,
    input logic [SLOT_W-1:0] issued_slot,
    input logic line_valid,
    input logic [LINE_BYTES*8-1:0] line
);
  localparam int WORDS = LINE_BYTES * 8 / DATA_W;
  localparam int WORD_LOW = $clog2(DATA_W / 8);
  localparam int PLACE_W = $clog2(DEPTH);
  localparam int COUNT_W = $clog2(DEPTH + 1);

  // AR.
  logic [OFFSET_W-LINE_W-1:0] ar_line;
  logic [LINE_W-1:0] ar_start;
  logic [LINE_W:0] ar_bytes;
  logic ar_bad, ar_taken;
  nvmm_burst #(
      .ADDR_W(ADDR_W), .OFFSET_W(OFFSET_W), .MEMORY_BASE(MEMORY_BASE), .DATA_W(DATA_W),
      .LINE_BYTES(LINE_BYTES)
  ) ar_burst (
      .addr(s_araddr), .len(s_arlen), .size(s_arsize), .burst(s_arburst),
      .line(ar_line), .start(ar_start), .bytes(ar_bytes), .bad(ar_bad)
  );

  logic [SLOTS-1:0] used, full, bad;
  logic [SLOT_W-1:0] next_slot;
  logic [COUNT_W-1:0] waiting;
  assign s_arready = waiting != COUNT_W'(DEPTH) && !used[next_slot];
  assign ar_taken = s_arvalid && s_arready;
  assign pushed = ar_taken && !ar_bad;

  nvmm_fifo #(.WIDTH(OFFSET_W - LINE_W + SLOT_W + LINE_W + 1), .DEPTH(DEPTH)) requests (
      .clk, .rst,
      .push(pushed),
      .in({ar_line, next_slot, ar_bytes}),
      .pop(req_pop),
      .head({req_line, req_slot, req_bytes}),
      .valid(req_valid),
      .count(waiting)
  );

  always_ff @(posedge clk) begin
    if (pushed) pushed_place <= pushed_place + PLACE_W'(1);
    if (req_pop) req_place <= req_place + PLACE_W'(1);
    if (rst) begin
      pushed_place <= '0;
      req_place <= '0;
    end
  end

  // What a slot needs to know of its burst.
  localparam int INFO_W = ID_W + 8 + 3 + 1 + LINE_W;
  logic [INFO_W-1:0] infos[0:SLOTS-1];
  logic [SLOTS*ID_W-1:0] ids;
  logic [SLOTS*SLOTS-1:0] waits_for;  // Older reads with the same ID that are not answered yet.
  logic [LINE_BYTES*8-1:0] lines[0:SLOTS-1];

  // Lines come in the order of the read commands.
  logic [SLOT_W-1:0] line_slot;
  /* verilator lint_off PINCONNECTEMPTY */
  nvmm_fifo #(.WIDTH(SLOT_W), .DEPTH(SLOTS)) order (
      .clk, .rst,
      .push(issued), .in(issued_slot), .pop(line_valid),
      .head(line_slot), .valid(), .count()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // R: the oldest slot that may be answered; from its first beat to its last it stays chosen.
  // Slots are given out in turn, so `next_slot` is the oldest, and those after it are younger.
  logic [SLOTS-1:0] may_answer, later, choice;
  logic active, first_found;
  logic [SLOT_W-1:0] active_slot, found, slot;
  always_comb begin
    for (int i = 0; i < SLOTS; i++) begin
      may_answer[i] = full[i] && waits_for[i*SLOTS+:SLOTS] == '0;
      later[i] = may_answer[i] && SLOT_W'(i) >= next_slot;
    end
    choice = (later != '0) ? later : may_answer;
    found = '0;
    first_found = 1'b0;
    for (int i = 0; i < SLOTS; i++) begin
      if (choice[i] && !first_found) begin
        found = SLOT_W'(i);
        first_found = 1'b1;
      end
    end
  end
  assign slot = active ? active_slot : found;

  logic [ID_W-1:0] r_id;
  logic [7:0] r_len, beat, r_beat;
  logic [2:0] r_size;
  logic r_wrap;
  logic [LINE_W-1:0] r_start, r_next, offset, r_offset;
  assign {r_id, r_len, r_size, r_wrap, r_start} = infos[slot];
  assign r_beat = active ? beat : 8'd0;
  assign r_offset = active ? offset : r_start;
  nvmm_beat #(.LINE_W(LINE_W)) stepping (
      .at(r_offset), .len(r_len), .size(r_size), .wrap(r_wrap), .next(r_next));

  logic [LINE_BYTES*8-1:0] r_line;
  logic ends;
  assign r_line = lines[slot];
  generate
    if (WORDS > 1) begin : several
      logic [LINE_W-WORD_LOW-1:0] word;
      assign word = r_offset[LINE_W-1:WORD_LOW];
      assign s_rdata = r_line[word*DATA_W+:DATA_W];
    end else begin : single
      assign s_rdata = r_line;
    end
  endgenerate
  assign s_rvalid = active || may_answer != '0;
  assign s_rid = r_id;
  assign s_rresp = bad[slot] ? 2'b10 : 2'b00;
  assign s_rlast = r_beat == r_len;
  assign ends = s_rvalid && s_rready && s_rlast;

  logic [SLOTS-1:0] ended, same_id;
  assign ended = ends ? SLOTS'(1) << slot : '0;
  always_comb begin
    for (int i = 0; i < SLOTS; i++) begin
      same_id[i] = used[i] && !ended[i] && ids[i*ID_W+:ID_W] == s_arid;
    end
  end

  always_ff @(posedge clk) begin
    used <= used & ~ended;
    full <= full & ~ended;
    active <= s_rvalid && !ends;
    active_slot <= slot;
    if (s_rvalid && s_rready) begin
      beat <= r_beat + 8'd1;
      offset <= r_next;
    end else begin
      beat <= r_beat;
      offset <= r_offset;
    end
    for (int i = 0; i < SLOTS; i++) begin
      waits_for[i*SLOTS+:SLOTS] <= waits_for[i*SLOTS+:SLOTS] & ~ended;
    end
    if (line_valid) begin
      lines[line_slot] <= line;
      full[line_slot] <= 1'b1;
    end
    if (ar_taken) begin
      next_slot <= (next_slot == SLOT_W'(SLOTS - 1)) ? '0 : next_slot + SLOT_W'(1);
      infos[next_slot] <= {s_arid, s_arlen, s_arsize, s_arburst[1], ar_start};
      for (int i = 0; i < SLOTS; i++) begin
        if (next_slot == SLOT_W'(i)) begin
          used[i] <= 1'b1;
          bad[i] <= ar_bad;
          full[i] <= ar_bad;
          ids[i*ID_W+:ID_W] <= s_arid;
          waits_for[i*SLOTS+:SLOTS] <= same_id;
        end
      end
    end
    if (rst) begin
      used <= '0;
      full <= '0;
      bad <= '0;
      next_slot <= '0;
      waits_for <= '0;
      active <= 1'b0;
    end
  end

`ifdef PROOF_fv_read
  read_rules rules (.*);
`endif
endmodule

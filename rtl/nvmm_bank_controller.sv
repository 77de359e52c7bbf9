// The board's memory controller: AXI4 in, DRAM commands out, control block on AXI4-Lite.
//
// A request arrives in the clock after its last handshake (AR, or the last beat of W), and commands
// leave one clock after they are decided; in between every rule acts in the clock that docs/rtl.md
// and the reference model say.
module nvmm_bank_controller #(
    parameter int ADDR_W = 33,
    parameter logic [ADDR_W-1:0] MEMORY_BASE = '0,
    parameter int ID_W = 4,
    parameter int DATA_W = 64,
    parameter int LINE_BYTES = 64,
    // An offset in the memory is bank, row, byte in the row, from the highest bit down.
    parameter int BANK_W = 3,
    parameter int ROW_W = 16,
    parameter int COL_W = 13,
    parameter int MACHINES = 8,
    parameter int DEPTH = 8,         // Requests that wait in each channel.
    parameter int READ_SLOTS = 16,   // Reads under way.
    parameter int RESPONSES = 16,    // Writes whose response is owed.
    parameter int TIMER_W = 22,
    parameter int STAT_W = 64,
    parameter bit STATISTICS = 1'b1,
    parameter bit OWN_BANK = 1'b0,
    parameter bit REFRESH = 1'b1,
    parameter int FIRST_TICK = 1480,
    parameter int BEGIN_DELAY = 3,
    parameter int PULSE = 4,
    parameter int RAS_LIMIT = 5,
    parameter int RTP_LIMIT = 2,
    parameter int FIRST_NVMM = 2,
    // Settings after reset, in clocks.
    parameter int BASE_WAIT = 5,
    parameter int BASE_RCD = 8,
    parameter int BASE_RAS = 7,
    parameter int BASE_RTP = 3,
    parameter int BASE_WTP = 3,
    parameter int BASE_RP = 4,
    parameter int CLOCK_PS = 5000,
    parameter int HARTS = 0,
    parameter int CORE_HZ = 0,
    parameter int LINE_W = $clog2(LINE_BYTES)
) (
    input logic clk,
    input logic rst,

    // AXI4, requests.
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

    // AXI4-Lite, control block.
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

    // The memory's side: each kind of command has a slot of its own in every clock.
    output logic phy_act,
    output logic [BANK_W-1:0] phy_act_bank,
    output logic [ROW_W-1:0] phy_act_row,
    output logic phy_pre,
    output logic [BANK_W-1:0] phy_pre_bank,
    output logic phy_rd,
    output logic phy_wr,
    output logic [BANK_W-1:0] phy_col_bank,
    output logic [ROW_W-1:0] phy_col_row,
    output logic [COL_W-LINE_W-1:0] phy_col,  // Line in the row.
    output logic phy_ref,
    output logic [LINE_BYTES*8-1:0] phy_wr_data,
    output logic [LINE_BYTES-1:0] phy_wr_strb,
    // Lines come back in the order of the reads.
    input logic phy_rd_valid,
    input logic [LINE_BYTES*8-1:0] phy_rd_data,

    // For an observer: acceptances, one clock after they happen, as the commands.
    output logic seen_accept,
    output logic seen_accept_write,
    output logic [BANK_W-1:0] seen_accept_bank,
    output logic [ROW_W-1:0] seen_accept_row,
    output logic seen_accept_hit
);
  localparam int OFFSET_W = BANK_W + ROW_W + COL_W;
  localparam int COLUMN_W = COL_W - LINE_W;
  localparam int SLOT_W = $clog2(READ_SLOTS);
  localparam int TAG_W = COLUMN_W + SLOT_W;
  localparam int COUNT_W = $clog2(DEPTH + 1);
  localparam int PLACE_W = $clog2(DEPTH);

  // Settings.
  logic [1:0] method;
  logic [BANK_W:0] first_nvmm;
  logic [TIMER_W-1:0] coarse_read, coarse_write, added_rcd, added_rp, added_ras;
  logic [TIMER_W-1:0] t_wait, t_rcd, t_ras, t_rtp, t_wtp, t_rp, t_interval, t_duration;
  logic coarse, fine, extended;
  assign coarse = method == nvmm_regs_pkg::METHOD_COARSE[1:0];
  assign extended = method == nvmm_regs_pkg::METHOD_EXTENDED[1:0];
  assign fine = method == nvmm_regs_pkg::METHOD_FINE[1:0] || extended;

  // Requests.
  logic r_valid, r_pop, r_pushed, r_open, r_ready, w_valid, w_pop, w_bad, w_open, w_ready;
  logic [OFFSET_W-LINE_W-1:0] r_line, w_line, line;
  logic [SLOT_W-1:0] r_slot;
  logic [LINE_W:0] r_bytes, w_bytes;
  logic [PLACE_W-1:0] r_pushed_place, r_place;
  logic [COUNT_W-1:0] w_count;
  logic issued, write_issued;
  logic [TAG_W-1:0] col_tag;
  logic [LINE_BYTES*8-1:0] wr_data;
  logic [LINE_BYTES-1:0] wr_strb;

  nvmm_axi_read #(
      .ADDR_W(ADDR_W), .OFFSET_W(OFFSET_W), .MEMORY_BASE(MEMORY_BASE), .ID_W(ID_W),
      .DATA_W(DATA_W), .LINE_BYTES(LINE_BYTES), .DEPTH(DEPTH), .SLOTS(READ_SLOTS)
  ) reads (
      .clk, .rst,
      .s_arvalid, .s_arready, .s_arid, .s_araddr, .s_arlen, .s_arsize, .s_arburst,
      .s_rvalid, .s_rready, .s_rid, .s_rdata, .s_rresp, .s_rlast,
      .req_valid(r_valid), .req_pop(r_pop), .req_line(r_line), .req_slot(r_slot),
      .req_bytes(r_bytes), .pushed(r_pushed), .pushed_place(r_pushed_place), .req_place(r_place),
      .issued, .issued_slot(col_tag[SLOT_W-1:0]),
      .line_valid(phy_rd_valid), .line(phy_rd_data)
  );
  nvmm_axi_write #(
      .ADDR_W(ADDR_W), .OFFSET_W(OFFSET_W), .MEMORY_BASE(MEMORY_BASE), .ID_W(ID_W),
      .DATA_W(DATA_W), .LINE_BYTES(LINE_BYTES), .DEPTH(DEPTH), .MACHINES(MACHINES),
      .RESPONSES(RESPONSES)
  ) writes (
      .clk, .rst,
      .s_awvalid, .s_awready, .s_awid, .s_awaddr, .s_awlen, .s_awsize, .s_awburst,
      .s_wvalid, .s_wready, .s_wdata, .s_wstrb, .s_wlast,
      .s_bvalid, .s_bready, .s_bid, .s_bresp,
      .req_valid(w_valid), .req_pop(w_pop), .req_bad(w_bad), .req_line(w_line),
      .req_bytes(w_bytes), .req_count(w_count),
      .data_pop(write_issued), .data(wr_data), .strb(wr_strb)
  );

  // The coarse method holds the heads.
  logic r_nvmm, w_nvmm;
  assign r_nvmm = {1'b0, r_line[OFFSET_W-LINE_W-1-:BANK_W]} >= first_nvmm;
  assign w_nvmm = {1'b0, w_line[OFFSET_W-LINE_W-1-:BANK_W]} >= first_nvmm;
  nvmm_hold #(.TIMER_W(TIMER_W)) hold_read (
      .clk, .rst, .valid(r_valid), .taken(r_pop),
      .clocks((coarse && r_nvmm) ? coarse_read : '0), .open(r_open));
  nvmm_hold #(.TIMER_W(TIMER_W)) hold_write (
      .clk, .rst, .valid(w_valid), .taken(w_pop),
      .clocks((coarse && w_nvmm && !w_bad) ? coarse_write : '0), .open(w_open));
  assign r_ready = r_valid && r_open;
  assign w_ready = w_valid && w_open && !w_bad;

  // Which head is older: for every read, the number of writes that came before it and still wait.
  // Of a read and a write that come in one clock the read is older.
  logic [DEPTH*COUNT_W-1:0] writes_before;
  logic read_older;
  assign read_older = writes_before[r_place*COUNT_W+:COUNT_W] == '0;
  always_ff @(posedge clk) begin
    for (int i = 0; i < DEPTH; i++) begin
      if (w_pop && writes_before[i*COUNT_W+:COUNT_W] != '0) begin
        writes_before[i*COUNT_W+:COUNT_W] <= writes_before[i*COUNT_W+:COUNT_W] - COUNT_W'(1);
      end
      if (r_pushed && r_pushed_place == PLACE_W'(i)) begin
        writes_before[i*COUNT_W+:COUNT_W] <= w_count - COUNT_W'(w_pop);
      end
    end
    if (rst) writes_before <= '0;
  end

  logic req_valid, req_write, req_ready, req_hit, accept;
  logic [LINE_W:0] req_bytes;
  assign req_valid = r_ready || w_ready;
  assign req_write = !(r_ready && (read_older || !w_ready));
  assign accept = req_valid && req_ready;
  assign r_pop = accept && !req_write;
  assign w_pop = (accept && req_write) || (w_valid && w_bad);
  assign line = req_write ? w_line : r_line;
  assign req_bytes = req_write ? w_bytes : r_bytes;

  logic [BANK_W-1:0] req_bank, act_bank, pre_bank, col_bank;
  logic [ROW_W-1:0] req_row, act_row, col_row;
  logic [COLUMN_W-1:0] req_column;
  assign {req_bank, req_row, req_column} = line;

  logic act, pre, pre_dirty, col, col_write, refresh, tick_lost;
  assign issued = col && !col_write;
  assign write_issued = col && col_write;
  /* verilator lint_off PINCONNECTEMPTY */
  nvmm_bank_core #(
      .MACHINES(MACHINES), .BANK_W(BANK_W), .ROW_W(ROW_W), .TAG_W(TAG_W), .TIMER_W(TIMER_W),
      .OWN_BANK(OWN_BANK), .REFRESH(REFRESH), .FIRST_TICK(FIRST_TICK),
      .BEGIN_DELAY(BEGIN_DELAY), .PULSE(PULSE), .RAS_LIMIT(RAS_LIMIT), .RTP_LIMIT(RTP_LIMIT)
  ) core (
      .clk, .rst, .t_wait, .t_rcd, .t_ras, .t_rtp, .t_wtp, .t_rp,
      .add_rcd(fine ? added_rcd : '0),
      .add_ras(extended ? added_ras : '0),
      .add_rp(fine ? added_rp : '0),
      .t_interval, .t_duration, .first_nvmm,
      .req_valid, .req_write, .req_bank, .req_row, .req_tag({req_column, r_slot}),
      .req_ready, .req_hit,
      .act, .act_bank, .act_row, .col, .col_write, .col_bank, .col_row, .col_tag,
      .pre, .pre_bank, .pre_dirty, .refresh, .tick_lost, .pulse(), .idle()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  always_ff @(posedge clk) begin
    phy_act <= act;
    phy_act_bank <= act_bank;
    phy_act_row <= act_row;
    phy_pre <= pre;
    phy_pre_bank <= pre_bank;
    phy_rd <= issued;
    phy_wr <= write_issued;
    phy_col_bank <= col_bank;
    phy_col_row <= col_row;
    phy_col <= col_tag[TAG_W-1-:COLUMN_W];
    phy_ref <= refresh;
    phy_wr_data <= wr_data;
    phy_wr_strb <= wr_strb;
    seen_accept <= accept;
    seen_accept_write <= req_write;
    seen_accept_bank <= req_bank;
    seen_accept_row <= req_row;
    seen_accept_hit <= req_hit;
    if (rst) begin
      phy_act <= 1'b0;
      phy_pre <= 1'b0;
      phy_rd <= 1'b0;
      phy_wr <= 1'b0;
      phy_ref <= 1'b0;
      seen_accept <= 1'b0;
    end
  end

  // Control block and statistics.
  logic stats_clear, stats_region;
  logic [3:0] stats_number;
  logic [7:0] stats_stat;
  logic [63:0] stats_value, refreshes, ticks_lost;
  nvmm_ctl #(
      .ADDR_W(ADDR_W), .BANK_W(BANK_W), .BANK_LOW(ROW_W + COL_W), .MEMORY_BASE(MEMORY_BASE),
      .TIMER_W(TIMER_W), .FIRST_NVMM(FIRST_NVMM), .REFRESH_BUSY(BEGIN_DELAY + PULSE),
      .MAX_BASE(TIMER_W >= 22 ? 1_000_000 : (1 << (TIMER_W - 2)) - 1),
      // 10 ms, as in the model.
      .MAX_DELAY(TIMER_W >= 22 && CLOCK_PS >= 4000 ? 1_000_000_000 / (CLOCK_PS / 10)
                 : (1 << (TIMER_W - 1)) - 1),
      .BASE_WAIT(BASE_WAIT), .BASE_RCD(BASE_RCD), .BASE_RAS(BASE_RAS), .BASE_RTP(BASE_RTP),
      .BASE_WTP(BASE_WTP), .BASE_RP(BASE_RP),
      .CLOCK_PS(CLOCK_PS), .HARTS(HARTS), .CORE_HZ(CORE_HZ)
  ) control (
      .clk, .rst,
      .s_awvalid(c_awvalid), .s_awready(c_awready), .s_awaddr(c_awaddr),
      .s_wvalid(c_wvalid), .s_wready(c_wready), .s_wdata(c_wdata), .s_wstrb(c_wstrb),
      .s_bvalid(c_bvalid), .s_bready(c_bready), .s_bresp(c_bresp),
      .s_arvalid(c_arvalid), .s_arready(c_arready), .s_araddr(c_araddr),
      .s_rvalid(c_rvalid), .s_rready(c_rready), .s_rdata(c_rdata), .s_rresp(c_rresp),
      .method, .first_nvmm, .coarse_read, .coarse_write, .added_rcd, .added_rp, .added_ras,
      .t_wait, .t_rcd, .t_ras, .t_rtp, .t_wtp, .t_rp, .t_interval, .t_duration,
      .stats_clear, .stats_region, .stats_number, .stats_stat, .stats_value, .refreshes,
      .ticks_lost
  );
  generate
    if (STATISTICS) begin : counted
      logic [STAT_W-1:0] value, all, lost;
      nvmm_stats #(.BANK_W(BANK_W), .BYTES_W(LINE_W + 1), .STAT_W(STAT_W)) statistics (
          .clk, .rst, .clear(stats_clear), .first_nvmm,
          .accept, .accept_write(req_write), .accept_bank(req_bank), .accept_bytes(req_bytes),
          .accept_hit(req_hit),
          .act, .act_bank, .pre, .pre_bank, .pre_dirty, .refresh, .tick_lost,
          .at_region(stats_region), .number(stats_number), .stat(stats_stat),
          .value, .refreshes(all), .ticks_lost(lost)
      );
      assign stats_value = 64'(value);
      assign refreshes = 64'(all);
      assign ticks_lost = 64'(lost);
    end else begin : uncounted
      assign stats_value = 64'd0;
      assign refreshes = 64'd0;
      assign ticks_lost = 64'd0;
    end
  endgenerate
endmodule

// The bank machines with their arbiters and refresh: one request in, at most one command of each
// kind out, in every clock. Everything here belongs to the clock in which it is decided; registers
// for the memory's side are the controller's.
module nvmm_bank_core #(
    parameter int MACHINES = 8,
    parameter int BANK_W = 3,
    parameter int ROW_W = 16,
    parameter int TAG_W = 12,
    parameter int TIMER_W = 22,
    parameter bit OWN_BANK = 1'b0,  // Which bank is tested for the longer tRP: the own one, or
                                    // that of the newest accepted request.
    parameter bit REFRESH = 1'b1,
    parameter int FIRST_TICK = 1480,
    parameter int BEGIN_DELAY = 3,
    parameter int PULSE = 4,
    parameter int RAS_LIMIT = 5,
    parameter int RTP_LIMIT = 2
) (
    input logic clk,
    input logic rst,

    // Timing in clocks; `add_*` are those of the method in force, and 0 if it adds none.
    input logic [TIMER_W-1:0] t_wait,
    input logic [TIMER_W-1:0] t_rcd,
    input logic [TIMER_W-1:0] t_ras,
    input logic [TIMER_W-1:0] t_rtp,
    input logic [TIMER_W-1:0] t_wtp,
    input logic [TIMER_W-1:0] t_rp,
    input logic [TIMER_W-1:0] add_rcd,
    input logic [TIMER_W-1:0] add_ras,
    input logic [TIMER_W-1:0] add_rp,
    input logic [TIMER_W-1:0] t_interval,
    input logic [TIMER_W-1:0] t_duration,
    input logic [BANK_W:0] first_nvmm,  // This bank and those after it are NVMM.

    // A request is accepted in a clock in which both are high.
    input logic req_valid,
    input logic req_write,
    input logic [BANK_W-1:0] req_bank,
    input logic [ROW_W-1:0] req_row,
    input logic [TAG_W-1:0] req_tag,
    output logic req_ready,
    output logic req_hit,

    // Commands.
    output logic act,
    output logic [BANK_W-1:0] act_bank,
    output logic [ROW_W-1:0] act_row,
    output logic col,
    output logic col_write,
    output logic [BANK_W-1:0] col_bank,
    output logic [ROW_W-1:0] col_row,
    output logic [TAG_W-1:0] col_tag,
    output logic pre,
    output logic [BANK_W-1:0] pre_bank,
    output logic pre_dirty,             // The row was written since its activation.
    output logic refresh,
    output logic tick_lost,
    output logic pulse,
    output logic idle
);
  localparam int BANKS = 1 << BANK_W;

  logic [MACHINES-1:0] busy, wants_column, wants_precharge, wants_activate, write_waits;
  logic [MACHINES-1:0] row_is_open, hands_early, frees_early, passes, was_marked, is_marked, write;
  logic [MACHINES*MACHINES-1:0] older;
  logic [MACHINES*BANK_W-1:0] bank;
  logic [MACHINES*ROW_W-1:0] row;
  logic [MACHINES*TAG_W-1:0] tag;

  logic [MACHINES-1:0] grant_column, grant_precharge, grant_activate, accept, pass_to_newcomer;
  logic [MACHINES-1:0] hand_late, released;
  assign hand_late = grant_column & passes;
  assign released = frees_early | hand_late;

  logic release_held, mark, under_way;
  nvmm_refresh #(
      .REFRESH(REFRESH),
      .TIMER_W(TIMER_W),
      .FIRST_TICK(FIRST_TICK),
      .BEGIN_DELAY(BEGIN_DELAY),
      .PULSE(PULSE)
  ) refresher (
      .clk, .rst, .t_interval, .t_duration,
      .any_busy(|busy),
      .any_marked(|was_marked),
      .release_held, .mark, .pulse, .under_way, .refresh, .tick_lost
  );

  // Rule 6: reads may pass writes; a write waits for all older writes.
  logic [MACHINES-1:0] first_write, may_column;
  nvmm_oldest #(.MACHINES(MACHINES)) pick_write (.from(write_waits), .older, .oldest(first_write));
  assign may_column = wants_column & (~write | first_write);
  nvmm_oldest #(.MACHINES(MACHINES)) pick_column (.from(may_column), .older, .oldest(grant_column));
  nvmm_oldest #(.MACHINES(MACHINES)) pick_precharge (
      .from(wants_precharge), .older, .oldest(grant_precharge));
  nvmm_oldest #(.MACHINES(MACHINES)) pick_activate (
      .from(wants_activate), .older, .oldest(grant_activate));

  always_comb begin
    col_bank = '0;
    col_row = '0;
    col_tag = '0;
    pre_bank = '0;
    act_bank = '0;
    act_row = '0;
    for (int i = 0; i < MACHINES; i++) begin
      if (grant_column[i]) begin
        col_bank = col_bank | bank[i*BANK_W+:BANK_W];
        col_row = col_row | row[i*ROW_W+:ROW_W];
        col_tag = col_tag | tag[i*TAG_W+:TAG_W];
      end
      if (grant_precharge[i]) pre_bank = pre_bank | bank[i*BANK_W+:BANK_W];
      if (grant_activate[i]) begin
        act_bank = act_bank | bank[i*BANK_W+:BANK_W];
        act_row = act_row | row[i*ROW_W+:ROW_W];
      end
    end
  end
  assign col = |grant_column;
  assign col_write = |(grant_column & write);
  assign pre = |grant_precharge;
  assign act = |grant_activate;
  assign idle = busy == '0;

  // Dirty rows: a write column makes the row of its bank dirty, an activation makes it clean.
  logic [BANKS-1:0] dirty, dirty_now;
  logic [BANK_W-1:0] newest_bank, tested;
  logic slow_precharge, nvmm_act;
  assign dirty_now = dirty | ((col && col_write) ? BANKS'(1) << col_bank : '0);
  assign tested = OWN_BANK ? pre_bank : newest_bank;
  assign slow_precharge = {1'b0, tested} >= first_nvmm && dirty_now[tested];
  assign pre_dirty = dirty_now[pre_bank];
  assign nvmm_act = {1'b0, act_bank} >= first_nvmm;

  // tRAS belongs to the row, whichever machine serves it, so it is counted by bank; the pulse cuts it.
  logic [BANKS*TIMER_W-1:0] ras, ras_now;
  logic [BANKS-1:0] ras_over;
  logic [TIMER_W-1:0] ras_less;
  always_comb begin
    ras_less = '0;
    for (int b = 0; b < BANKS; b++) begin
      ras_less = (ras[b*TIMER_W+:TIMER_W] == '0) ? '0 : ras[b*TIMER_W+:TIMER_W] - TIMER_W'(1);
      ras_now[b*TIMER_W+:TIMER_W] =
          (pulse && ras_less > TIMER_W'(RAS_LIMIT)) ? TIMER_W'(RAS_LIMIT) : ras_less;
      ras_over[b] = ras_now[b*TIMER_W+:TIMER_W] == '0;
    end
  end
  always_ff @(posedge clk) begin
    for (int b = 0; b < BANKS; b++) begin
      ras[b*TIMER_W+:TIMER_W] <= (act && act_bank == BANK_W'(b))
          ? (nvmm_act ? t_ras + add_ras : t_ras) : ras_now[b*TIMER_W+:TIMER_W];
    end
    if (rst) ras <= '0;
  end

  // Behind a column command the row stays until the command's own time or, if that is later, one
  // clock before the end of tRAS.
  logic [TIMER_W-1:0] own_stay, ras_left, ras_rest, t_stay;
  assign own_stay = col_write ? t_wtp : t_rtp;
  always_comb begin
    // As a sum of products; an index times TIMER_W would take a multiplier.
    ras_left = '0;
    for (int b = 0; b < BANKS; b++) begin
      if (col_bank == BANK_W'(b)) ras_left = ras_left | ras_now[b*TIMER_W+:TIMER_W];
    end
  end
  assign ras_rest = (ras_left == '0) ? '0 : ras_left - TIMER_W'(1);
  assign t_stay = (own_stay > ras_rest) ? own_stay : ras_rest;

  // Rule 9: acceptance by the first idle machine. The newest machine of the bank passes its row on
  // if the newcomer has the same one.
  logic [MACHINES-1:0] stays, newest, same_bank, same_row;
  assign stays = busy & ~released;
  assign req_ready = stays != '1;
  always_comb begin
    accept = '0;
    for (int i = MACHINES - 1; i >= 0; i--) begin
      if (!stays[i]) accept = MACHINES'(1) << i;
    end
    if (!req_valid) accept = '0;
    for (int i = 0; i < MACHINES; i++) begin
      same_bank[i] = stays[i] && newest[i] && bank[i*BANK_W+:BANK_W] == req_bank;
      same_row[i] = row[i*ROW_W+:ROW_W] == req_row;
    end
  end
  logic [MACHINES-1:0] can_pass;
  assign can_pass = same_bank & same_row & row_is_open & ~is_marked;
  assign req_hit = |can_pass;
  assign pass_to_newcomer = (accept != '0) ? can_pass : '0;

  always_ff @(posedge clk) begin
    dirty <= dirty_now & ~(act ? BANKS'(1) << act_bank : '0);
    newest <= (newest & ~released & ~((accept != '0) ? same_bank : '0)) | accept;
    if (accept != '0) newest_bank <= req_bank;
    if (rst) begin
      dirty <= '0;
      newest <= '0;
      newest_bank <= '0;
    end
  end

  genvar i;
  generate
    for (i = 0; i < MACHINES; i++) begin : machines
      nvmm_bank_machine #(
          .MACHINES(MACHINES),
          .BANK_W(BANK_W),
          .ROW_W(ROW_W),
          .TAG_W(TAG_W),
          .TIMER_W(TIMER_W)
      ) machine (
          .clk, .rst, .t_wait, .t_stay,
          .t_rcd(nvmm_act ? t_rcd + add_rcd : t_rcd),
          .t_rp(slow_precharge ? t_rp + add_rp : t_rp),
          .release_held, .mark, .pulse,
          .rtp_limit(TIMER_W'(RTP_LIMIT)),
          .accept(accept[i]),
          .a_write(req_write),
          .a_bank(req_bank),
          .a_row(req_row),
          .a_tag(req_tag),
          .a_hit(req_hit),
          .a_held(under_way),
          .a_pred(same_bank),
          .a_older(stays),
          .accept_other(accept),
          .pass_to_newcomer(pass_to_newcomer[i]),
          .released_early(frees_early),
          .released,
          .hand_early(hands_early),
          .hand_late,
          .ras_over,
          .grant_column(grant_column[i]),
          .grant_precharge(grant_precharge[i]),
          .grant_activate(grant_activate[i]),
          .busy(busy[i]),
          .wants_column(wants_column[i]),
          .wants_precharge(wants_precharge[i]),
          .wants_activate(wants_activate[i]),
          .write_waits(write_waits[i]),
          .row_is_open(row_is_open[i]),
          .hands_early(hands_early[i]),
          .frees_early(frees_early[i]),
          .passes(passes[i]),
          .was_marked(was_marked[i]),
          .is_marked(is_marked[i]),
          .older(older[i*MACHINES+:MACHINES]),
          .write(write[i]),
          .bank(bank[i*BANK_W+:BANK_W]),
          .row(row[i*ROW_W+:ROW_W]),
          .tag(tag[i*TAG_W+:TAG_W])
      );
    end
  endgenerate

endmodule

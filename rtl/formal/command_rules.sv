// The rules of timing between commands, by bank, without any knowledge of bank machines: a command
// that comes one clock too early is an error. In simulation and proofs.
//
// tRTP and tWTP are counted from the last column command of a row: earlier ones of other machines
// are not guarded by the controller, and need not be if tRTP and tWTP are equal, as on the board.
module command_rules #(
    parameter int BANK_W = 3,
    parameter int ROW_W = 16,
    parameter int TIMER_W = 22,
    parameter bit OWN_BANK = 1'b0,
    parameter int RAS_LIMIT = 5,
    parameter int RTP_LIMIT = 2
) (
    input logic clk,
    input logic rst,
    input logic [TIMER_W-1:0] t_rcd,
    input logic [TIMER_W-1:0] t_ras,
    input logic [TIMER_W-1:0] t_rtp,
    input logic [TIMER_W-1:0] t_wtp,
    input logic [TIMER_W-1:0] t_rp,
    input logic [TIMER_W-1:0] add_rcd,
    input logic [TIMER_W-1:0] add_ras,
    input logic [TIMER_W-1:0] add_rp,
    input logic [TIMER_W-1:0] t_duration,
    input logic [BANK_W:0] first_nvmm,
    input logic accept,
    input logic [BANK_W-1:0] accept_bank,
    input logic act,
    input logic [BANK_W-1:0] act_bank,
    input logic [ROW_W-1:0] act_row,
    input logic col,
    input logic col_write,
    input logic [BANK_W-1:0] col_bank,
    input logic [ROW_W-1:0] col_row,
    input logic pre,
    input logic [BANK_W-1:0] pre_bank,
    input logic pulse,
    input logic refresh
);
  localparam int BANKS = 1 << BANK_W;

  // A timer of n that is loaded in clock c permits from clock c + n on: it is then 1 or 0.
  logic [BANKS-1:0] open, dirty;
  logic [BANKS*ROW_W-1:0] row;
  logic [BANKS*TIMER_W-1:0] to_col, to_pre_ras, to_pre_col, to_act;
  logic [TIMER_W-1:0] to_end;
  logic [BANK_W-1:0] newest;

  function automatic logic [TIMER_W-1:0] less(input logic [TIMER_W-1:0] t);
    less = (t == '0) ? '0 : t - TIMER_W'(1);
  endfunction
  function automatic logic [TIMER_W-1:0] cut(input logic [TIMER_W-1:0] t, input logic on,
                                             input logic [TIMER_W-1:0] limit);
    cut = (on && t > limit) ? limit : t;
  endfunction
  function automatic logic over(input logic [TIMER_W-1:0] t);
    over = t <= TIMER_W'(1);
  endfunction

  logic act_nvmm, slow;
  logic [BANK_W-1:0] tested;
  logic [BANKS-1:0] dirty_now;
  assign act_nvmm = {1'b0, act_bank} >= first_nvmm;
  assign tested = OWN_BANK ? pre_bank : newest;
  assign dirty_now = dirty | ((col && col_write) ? BANKS'(1) << col_bank : '0);
  assign slow = {1'b0, tested} >= first_nvmm && dirty_now[tested];

  always_ff @(posedge clk) begin
    for (int b = 0; b < BANKS; b++) begin
      to_col[b*TIMER_W+:TIMER_W] <= less(to_col[b*TIMER_W+:TIMER_W]);
      to_pre_ras[b*TIMER_W+:TIMER_W] <=
          cut(less(to_pre_ras[b*TIMER_W+:TIMER_W]), pulse, TIMER_W'(RAS_LIMIT));
      to_pre_col[b*TIMER_W+:TIMER_W] <=
          cut(less(to_pre_col[b*TIMER_W+:TIMER_W]), pulse, TIMER_W'(RTP_LIMIT));
      to_act[b*TIMER_W+:TIMER_W] <= less(to_act[b*TIMER_W+:TIMER_W]);
      if (act && act_bank == BANK_W'(b)) begin
        open[b] <= 1'b1;
        row[b*ROW_W+:ROW_W] <= act_row;
        to_col[b*TIMER_W+:TIMER_W] <= t_rcd + (act_nvmm ? add_rcd : '0);
        to_pre_ras[b*TIMER_W+:TIMER_W] <= t_ras + (act_nvmm ? add_ras : '0);
      end
      if (col && col_bank == BANK_W'(b)) to_pre_col[b*TIMER_W+:TIMER_W] <= col_write ? t_wtp : t_rtp;
      if (pre && pre_bank == BANK_W'(b)) begin
        open[b] <= 1'b0;
        to_act[b*TIMER_W+:TIMER_W] <= t_rp + (slow ? add_rp : '0);
      end
    end
    to_end <= refresh ? t_duration : less(to_end);
    dirty <= dirty_now & ~(act ? BANKS'(1) << act_bank : '0);
    if (accept) newest <= accept_bank;
    if (rst) begin
      open <= '0;
      dirty <= '0;
      to_col <= '0;
      to_pre_ras <= '0;
      to_pre_col <= '0;
      to_act <= '0;
      to_end <= '0;
      newest <= '0;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst) begin
      if (act) begin
        assert (!open[act_bank]);
        assert (over(to_act[act_bank*TIMER_W+:TIMER_W]));
        assert (over(to_end));
      end
      if (col) begin
        assert (open[col_bank]);
        assert (row[col_bank*ROW_W+:ROW_W] == col_row);
        assert (over(to_col[col_bank*TIMER_W+:TIMER_W]));
      end
      if (pre) begin
        assert (open[pre_bank]);
        assert (over(to_pre_ras[pre_bank*TIMER_W+:TIMER_W]));
        assert (over(to_pre_col[pre_bank*TIMER_W+:TIMER_W]));
      end
      if (refresh) begin
        assert (open == '0);
        assert (over(to_end));
        for (int b = 0; b < BANKS; b++) assert (over(to_act[b*TIMER_W+:TIMER_W]));
      end
    end
  end

`ifdef FORMAL
  // The rules are exact: each command comes in the very clock in which it is permitted.
  always_ff @(posedge clk) begin
    if (!rst) begin
      cover (act && to_act[act_bank*TIMER_W+:TIMER_W] == TIMER_W'(1));
      cover (col && to_col[col_bank*TIMER_W+:TIMER_W] == TIMER_W'(1));
      cover (pre && to_pre_ras[pre_bank*TIMER_W+:TIMER_W] == TIMER_W'(1));
      cover (pre && to_pre_col[pre_bank*TIMER_W+:TIMER_W] == TIMER_W'(1));
      cover (act && to_end == TIMER_W'(1));
      cover (refresh);
    end
  end
`endif
endmodule

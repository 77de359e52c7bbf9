// Bank machines under arbitrary requests, and settings that may change in every clock.
module fv_core #(
    parameter int MACHINES = 2,
    parameter int BANK_W = 1,
    parameter int ROW_W = 1,
    parameter int TAG_W = 2,
    parameter int TIMER_W = 4,
    parameter bit REFRESH = 1'b1,
    parameter int REST = 0  // Clocks without any command while there is a request; 0: not proved.
) (
    input logic clk,
    input logic rst,
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
    input logic [BANK_W:0] first_nvmm,
    input logic req_valid,
    input logic req_write,
    input logic [BANK_W-1:0] req_bank,
    input logic [ROW_W-1:0] req_row,
    input logic [TAG_W-1:0] req_tag,
    input logic watch
);
  logic req_ready, req_hit, act, col, col_write, pre, pre_dirty, refresh, tick_lost, pulse, idle;
  logic [BANK_W-1:0] act_bank, col_bank, pre_bank;
  logic [ROW_W-1:0] act_row, col_row;
  logic [TAG_W-1:0] col_tag;
  nvmm_bank_core #(
      .MACHINES(MACHINES), .BANK_W(BANK_W), .ROW_W(ROW_W), .TAG_W(TAG_W), .TIMER_W(TIMER_W),
      .REFRESH(REFRESH), .FIRST_TICK(4), .BEGIN_DELAY(2), .PULSE(2), .RAS_LIMIT(2), .RTP_LIMIT(1)
  ) core (.*);
  command_rules #(
      .BANK_W(BANK_W), .ROW_W(ROW_W), .TIMER_W(TIMER_W), .RAS_LIMIT(2), .RTP_LIMIT(1)
  ) rules (
      .accept(req_valid && req_ready), .accept_bank(req_bank), .*
  );

  logic began;
  initial began = 1'b0;
  always_ff @(posedge clk) begin
    began <= 1'b1;
    // Reset comes first, and may come again.
    if (!began) assume (rst);
    // The control block refuses zeros; the limits here keep sums in the timers.
    assume (t_wait != '0 && t_wait <= TIMER_W'(2));
    assume (t_rcd != '0 && t_rcd <= TIMER_W'(3));
    assume (t_ras != '0 && t_ras <= TIMER_W'(4));
    assume (t_rtp != '0 && t_rtp <= TIMER_W'(3));
    assume (t_wtp != '0 && t_wtp <= TIMER_W'(3));
    assume (t_rp != '0 && t_rp <= TIMER_W'(3));
    assume (add_rcd <= TIMER_W'(2) && add_ras <= TIMER_W'(4) && add_rp <= TIMER_W'(2));
    assume (t_duration != '0 && t_duration <= TIMER_W'(3));
    assume (t_interval > TIMER_W'(8));
  end

  // No deadlock: as long as there are requests, commands are issued. A request needs three at most,
  // and older ones come first.
  logic [5:0] quiet;
  always_ff @(posedge clk) begin
    quiet <= (idle || act || col || pre || refresh) ? '0 : quiet + 6'd1;
    if (rst) quiet <= '0;
    else if (REST != 0) assert (quiet < 6'(REST));
  end

  // One arbitrary request: it has at most one column command, and that is its own.
  logic watched, done;
  logic w_write;
  logic [BANK_W-1:0] w_bank;
  logic [ROW_W-1:0] w_row;
  logic [TAG_W-1:0] w_tag;
  logic takes;
  assign takes = req_valid && req_ready && watch && !watched;
  always_ff @(posedge clk) begin
    if (takes) begin
      watched <= 1'b1;
      done <= 1'b0;
      {w_write, w_bank, w_row, w_tag} <= {req_write, req_bank, req_row, req_tag};
    end
    if (watched && !done && col && col_tag == w_tag) done <= 1'b1;
    if (rst) begin
      watched <= 1'b0;
      done <= 1'b0;
    end
    if (!rst) begin
      // The tag is this request's alone: nobody else has it before or behind.
      if (req_valid && !takes) assume (req_tag == '0);
      if (takes) assume (req_tag != '0);
      if (col && col_tag != '0) begin
        assert (watched && !done && col_tag == w_tag);
        assert ({col_write, col_bank, col_row} == {w_write, w_bank, w_row});
      end
      cover (done);
      cover (done && tick_lost);
    end
  end
endmodule

// One bank machine: it serves one request, from its acceptance to the precharge of its row, or
// until it passes the row on to the next request for the same bank.
//
// All rules of a clock are evaluated combinationally, in the order of docs/rtl.md; the outputs
// `is_*` are the state after the timers of this clock.
module nvmm_bank_machine #(
    parameter int MACHINES = 8,
    parameter int BANK_W = 3,
    parameter int ROW_W = 16,
    parameter int TAG_W = 12,
    parameter int TIMER_W = 22
) (
    input logic clk,
    input logic rst,

    // Timing, in clocks. The values that depend on bank, kind and method are resolved outside.
    input logic [TIMER_W-1:0] t_wait,
    input logic [TIMER_W-1:0] t_rcd,
    input logic [TIMER_W-1:0] t_stay,  // From the column command of this clock to the precharge.
    input logic [TIMER_W-1:0] t_rp,

    // Refresh.
    input logic release_held,  // The refresh is over: held requests may activate.
    input logic mark,          // Maintenance begins: busy machines have to become idle first.
    input logic pulse,         // Long timers are cut.
    input logic [TIMER_W-1:0] rtp_limit,

    // Acceptance of a request in this clock.
    input logic accept,
    input logic a_write,
    input logic [BANK_W-1:0] a_bank,
    input logic [ROW_W-1:0] a_row,
    input logic [TAG_W-1:0] a_tag,
    input logic a_hit,                  // It gets the row of the machine before it.
    input logic a_held,
    input logic [MACHINES-1:0] a_pred,  // The newest machine of the same bank, one-hot.
    input logic [MACHINES-1:0] a_older, // All machines that stay busy.

    // Another machine is loaded in this clock.
    input logic [MACHINES-1:0] accept_other,
    input logic pass_to_newcomer,       // The newcomer gets this machine's row.

    // What the other machines do in this clock.
    input logic [MACHINES-1:0] released_early,  // Idle again before the column command.
    input logic [MACHINES-1:0] released,        // Idle again at the end of the clock.
    input logic [MACHINES-1:0] hand_early,      // Hand their row over before the column command.
    input logic [MACHINES-1:0] hand_late,       // Hand it over with their column command.
    input logic [(1<<BANK_W)-1:0] ras_over,     // Banks whose tRAS is over after this clock's timers.

    // Choices of the arbiters.
    input logic grant_column,
    input logic grant_precharge,
    input logic grant_activate,

    output logic busy,          // After the timers.
    output logic wants_column,
    output logic wants_precharge,
    output logic wants_activate,
    output logic write_waits,   // A write without its column command.
    output logic row_is_open,   // A newcomer may take the row over.
    output logic hands_early,
    output logic frees_early,   // Idle by the end of tRP or by handing over.
    output logic passes,        // The row will be handed over.
    output logic was_marked,    // By an earlier clock.
    output logic is_marked,     // By this clock.
    output logic [MACHINES-1:0] older,
    output logic write,
    output logic [BANK_W-1:0] bank,
    output logic [ROW_W-1:0] row,
    output logic [TAG_W-1:0] tag
);
  localparam logic [2:0] IDLE = 3'd0;
  localparam logic [2:0] WAIT = 3'd1;       // Until activation, also while queued or held.
  localparam logic [2:0] RCD = 3'd2;        // tRCD runs.
  localparam logic [2:0] COLUMN = 3'd3;     // The column command may be issued.
  localparam logic [2:0] RTP = 3'd4;        // tRTP or tWTP runs.
  localparam logic [2:0] PRECHARGE = 3'd5;  // Waits for tRAS and for the command slot.
  localparam logic [2:0] RP = 3'd6;         // tRP runs.

  logic [2:0] state;
  logic [TIMER_W-1:0] timer;
  logic column_done, pass, hit, held, marked;
  logic [MACHINES-1:0] pred;

  // Rule 1: timers.
  logic [TIMER_W-1:0] timer_less, timer_now;
  logic over, takes_early, takes_late, in_rtp, is_precharge;

  assign over = timer <= TIMER_W'(1);
  assign timer_less = (timer == '0) ? '0 : timer - TIMER_W'(1);
  assign hands_early = state == RTP && pass;
  assign frees_early = hands_early || (state == RP && over);
  assign takes_early = |(pred & hand_early);
  assign takes_late = |(pred & hand_late);
  assign in_rtp = state == RTP && !pass && !over;
  assign is_precharge = state == PRECHARGE || (state == RTP && !pass && over);
  assign busy = state != IDLE && !frees_early;

  // Rule 4: the pulse cuts what is left of tRTP and tWTP; tRAS is the bank's.
  assign timer_now = (pulse && in_rtp && timer_less > rtp_limit) ? rtp_limit : timer_less;
  assign was_marked = marked && busy;
  assign is_marked = (mark || marked) && busy;

  // Rules 6 to 8: what the machine can do in this clock.
  assign wants_column = state == COLUMN || (state == RCD && over) || takes_early;
  assign wants_precharge = is_precharge && ras_over[bank];
  assign wants_activate = state == WAIT && over && !hit && !(held && !release_held)
                          && (pred & ~released_early) == '0;
  assign write_waits = busy && write && !column_done;
  assign row_is_open = busy && !is_precharge && state != RP;
  assign passes = pass;

  always_ff @(posedge clk) begin
    pred <= pred & ~released;
    older <= older & ~released & ~accept_other;
    marked <= is_marked;
    held <= held && !release_held;
    timer <= timer_now;
    if (pass_to_newcomer) pass <= 1'b1;

    if (accept) begin
      state <= WAIT;
      timer <= t_wait;
      column_done <= 1'b0;
      pass <= 1'b0;
      hit <= a_hit;
      held <= a_held;
      marked <= 1'b0;
      pred <= a_pred;
      older <= a_older;
      write <= a_write;
      bank <= a_bank;
      row <= a_row;
      tag <= a_tag;
    end else if (frees_early || (grant_column && pass)) begin
      state <= IDLE;
      pass <= 1'b0;
      marked <= 1'b0;
    end else if (grant_column) begin
      state <= RTP;
      column_done <= 1'b1;
      timer <= t_stay;
    end else if (grant_precharge) begin
      state <= RP;
      timer <= t_rp;
    end else if (grant_activate) begin
      state <= RCD;
      timer <= t_rcd;
    end else if (takes_late || wants_column) begin
      state <= COLUMN;
    end else if (is_precharge) begin
      state <= PRECHARGE;
    end

    if (rst) begin
      state <= IDLE;
      timer <= '0;
      column_done <= 1'b0;
      pass <= 1'b0;
      hit <= 1'b0;
      held <= 1'b0;
      marked <= 1'b0;
      pred <= '0;
      older <= '0;
      write <= 1'b0;
      bank <= '0;
      row <= '0;
      tag <= '0;
    end
  end

endmodule

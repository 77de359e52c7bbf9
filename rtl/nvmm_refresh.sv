// Refresh: ticks, the one flag that requests a refresh, maintenance with its pulse, the refresh.
module nvmm_refresh #(
    parameter bit REFRESH = 1'b1,
    parameter int TIMER_W = 22,
    parameter int FIRST_TICK = 1480,
    parameter int BEGIN_DELAY = 3,  // From the request to the beginning of maintenance.
    parameter int PULSE = 4         // Clocks of the pulse with which maintenance begins.
) (
    input logic clk,
    input logic rst,
    input logic [TIMER_W-1:0] t_interval,
    input logic [TIMER_W-1:0] t_duration,
    input logic any_busy,           // Some machine is busy after the timers of this clock.
    input logic any_marked,         // Some machine is marked since an earlier clock.
    output logic release_held,
    output logic mark,
    output logic pulse,
    output logic under_way,         // Maintenance: newcomers are held.
    output logic refresh,           // REF is issued.
    output logic tick_lost
);
  localparam int DELAY_W = $clog2(BEGIN_DELAY + 2);
  localparam int PULSE_W = $clog2(PULSE + 1);

  logic [TIMER_W-1:0] to_tick, left;
  logic [DELAY_W-1:0] to_begin;  // 0: no beginning is due.
  logic [PULSE_W-1:0] pulse_left;
  logic requested, maintenance;

  logic tick, requested_now, stays, begins;
  always_comb begin
    // Rule 2: the refresh ends.
    release_held = left == TIMER_W'(1);
    stays = maintenance && !release_held;
    // Rule 3: a tick sets the flag.
    tick = REFRESH && to_tick == '0;
    tick_lost = tick && requested;
    requested_now = requested || tick;
    // Rule 4: maintenance begins some clocks after the flag is seen with none under way.
    begins = (BEGIN_DELAY == 0) ? (requested_now && !stays) : (to_begin == DELAY_W'(1));
    mark = begins;
    under_way = stays || begins;
    pulse = begins || pulse_left != '0;
    // Rule 5: the refresh is issued when no marked machine is busy.
    refresh = (begins && !any_busy) || (stays && left == '0 && !any_marked);
  end

  always_ff @(posedge clk) begin
    to_tick <= tick ? t_interval - TIMER_W'(1) : to_tick - TIMER_W'(1);
    if (refresh) left <= t_duration;
    else if (left != '0) left <= left - TIMER_W'(1);
    maintenance <= under_way;
    requested <= requested_now && !refresh;
    if (to_begin != '0) to_begin <= to_begin - DELAY_W'(1);
    else if (requested_now && !stays && !begins) to_begin <= DELAY_W'(BEGIN_DELAY);
    if (begins) pulse_left <= PULSE_W'(PULSE - 1);
    else if (pulse_left != '0) pulse_left <= pulse_left - PULSE_W'(1);
    if (rst) begin
      to_tick <= TIMER_W'(FIRST_TICK);
      left <= '0;
      maintenance <= 1'b0;
      requested <= 1'b0;
      to_begin <= '0;
      pulse_left <= '0;
    end
  end
endmodule

// Event counters of a set of places (banks or regions), in memories with a flag for each place that
// tells whether it has been counted since the last reset of the statistics.
module nvmm_stat_set #(
    parameter int PLACES = 8,
    parameter int PLACE_W = PLACES > 1 ? $clog2(PLACES) : 1,
    parameter int BYTES_W = 7,
    parameter int STAT_W = 64
) (
    input logic clk,
    input logic clear,
    input logic accept,
    input logic [PLACE_W-1:0] accept_place,
    input logic accept_write,
    input logic [BYTES_W-1:0] accept_bytes,
    input logic accept_hit,
    input logic accept_switch,
    input logic act,
    input logic [PLACE_W-1:0] act_place,
    input logic pre,
    input logic [PLACE_W-1:0] pre_place,
    input logic pre_dirty,
    input logic [PLACE_W-1:0] at,  // The place that is read.
    output logic [STAT_W-1:0] reads,
    output logic [STAT_W-1:0] writes,
    output logic [STAT_W-1:0] read_bytes,
    output logic [STAT_W-1:0] write_bytes,
    output logic [STAT_W-1:0] row_hits,
    output logic [STAT_W-1:0] bank_switches,
    output logic [STAT_W-1:0] activations,
    output logic [STAT_W-1:0] precharges_clean,
    output logic [STAT_W-1:0] precharges_dirty
);
  logic [6*STAT_W-1:0] accepts[0:PLACES-1];
  logic [STAT_W-1:0] acts[0:PLACES-1];
  logic [2*STAT_W-1:0] pres[0:PLACES-1];
  logic [PLACES-1:0] accepted, activated, precharged;

  logic [STAT_W-1:0] a_reads, a_writes, a_read_bytes, a_write_bytes, a_hits, a_switches;
  logic [STAT_W-1:0] p_clean, p_dirty, a_acts;
  assign {a_reads, a_writes, a_read_bytes, a_write_bytes, a_hits, a_switches} =
      accepted[accept_place] ? accepts[accept_place] : '0;
  assign a_acts = activated[act_place] ? acts[act_place] : '0;
  assign {p_clean, p_dirty} = precharged[pre_place] ? pres[pre_place] : '0;

  always_ff @(posedge clk) begin
    if (accept) begin
      accepts[accept_place] <= {
        a_reads + STAT_W'(!accept_write),
        a_writes + STAT_W'(accept_write),
        a_read_bytes + (accept_write ? '0 : STAT_W'(accept_bytes)),
        a_write_bytes + (accept_write ? STAT_W'(accept_bytes) : '0),
        a_hits + STAT_W'(accept_hit),
        a_switches + STAT_W'(accept_switch)
      };
      accepted[accept_place] <= 1'b1;
    end
    if (act) begin
      acts[act_place] <= a_acts + STAT_W'(1);
      activated[act_place] <= 1'b1;
    end
    if (pre) begin
      pres[pre_place] <= {p_clean + STAT_W'(!pre_dirty), p_dirty + STAT_W'(pre_dirty)};
      precharged[pre_place] <= 1'b1;
    end
    if (clear) begin
      accepted <= '0;
      activated <= '0;
      precharged <= '0;
    end
  end

  assign {reads, writes, read_bytes, write_bytes, row_hits, bank_switches} =
      accepted[at] ? accepts[at] : '0;
  assign activations = activated[at] ? acts[at] : '0;
  assign {precharges_clean, precharges_dirty} = precharged[at] ? pres[at] : '0;
endmodule

// Statistics of the controller: by bank, by region, and of refreshes.
module nvmm_stats #(
    parameter int BANK_W = 3,
    parameter int BYTES_W = 7,
    parameter int STAT_W = 64
) (
    input logic clk,
    input logic rst,
    input logic clear,  // Takes effect with the next clock, as settings do.
    input logic [BANK_W:0] first_nvmm,
    input logic accept,
    input logic accept_write,
    input logic [BANK_W-1:0] accept_bank,
    input logic [BYTES_W-1:0] accept_bytes,
    input logic accept_hit,
    input logic act,
    input logic [BANK_W-1:0] act_bank,
    input logic pre,
    input logic [BANK_W-1:0] pre_bank,
    input logic pre_dirty,
    input logic refresh,
    input logic tick_lost,
    // Reading.
    input logic at_region,          // Else a bank.
    input logic [3:0] number,
    input logic [7:0] stat,         // Offset of the register in its block.
    output logic [STAT_W-1:0] value,
    output logic [STAT_W-1:0] refreshes,
    output logic [STAT_W-1:0] ticks_lost
);
  localparam int BANKS = 1 << BANK_W;

  logic [BANK_W-1:0] last_bank;
  logic last_known, switches;
  logic [STAT_W-1:0] dram_refreshes, nvmm_refreshes;
  assign switches = last_known && last_bank != accept_bank;
  always_ff @(posedge clk) begin
    if (accept) begin
      last_bank <= accept_bank;
      last_known <= 1'b1;
    end
    if (refresh) begin
      refreshes <= refreshes + STAT_W'(1);
      // A region without banks has no refreshes.
      if (first_nvmm != '0) dram_refreshes <= dram_refreshes + STAT_W'(1);
      if (first_nvmm != (BANK_W + 1)'(BANKS)) nvmm_refreshes <= nvmm_refreshes + STAT_W'(1);
    end
    if (tick_lost) ticks_lost <= ticks_lost + STAT_W'(1);
    if (clear || rst) begin
      last_bank <= '0;
      last_known <= 1'b0;
      refreshes <= '0;
      dram_refreshes <= '0;
      nvmm_refreshes <= '0;
      ticks_lost <= '0;
    end
  end

  function automatic logic nvmm(input logic [BANK_W-1:0] bank);
    nvmm = {1'b0, bank} >= first_nvmm;
  endfunction

  // The order of the registers in a block.
  logic [9*STAT_W-1:0] of_bank, of_region, chosen;
  nvmm_stat_set #(.PLACES(BANKS), .BYTES_W(BYTES_W), .STAT_W(STAT_W)) banks (
      .clk, .clear(clear || rst),
      .accept, .accept_place(accept_bank), .accept_write, .accept_bytes, .accept_hit,
      .accept_switch(switches),
      .act, .act_place(act_bank),
      .pre, .pre_place(pre_bank), .pre_dirty,
      .at(number[BANK_W-1:0]),
      .reads(of_bank[0+:STAT_W]),
      .writes(of_bank[STAT_W+:STAT_W]),
      .read_bytes(of_bank[2*STAT_W+:STAT_W]),
      .write_bytes(of_bank[3*STAT_W+:STAT_W]),
      .row_hits(of_bank[4*STAT_W+:STAT_W]),
      .bank_switches(of_bank[5*STAT_W+:STAT_W]),
      .activations(of_bank[6*STAT_W+:STAT_W]),
      .precharges_clean(of_bank[7*STAT_W+:STAT_W]),
      .precharges_dirty(of_bank[8*STAT_W+:STAT_W])
  );
  nvmm_stat_set #(.PLACES(2), .BYTES_W(BYTES_W), .STAT_W(STAT_W)) regions (
      .clk, .clear(clear || rst),
      .accept, .accept_place(nvmm(accept_bank)), .accept_write, .accept_bytes, .accept_hit,
      .accept_switch(switches),
      .act, .act_place(nvmm(act_bank)),
      .pre, .pre_place(nvmm(pre_bank)), .pre_dirty,
      .at(number[0]),
      .reads(of_region[0+:STAT_W]),
      .writes(of_region[STAT_W+:STAT_W]),
      .read_bytes(of_region[2*STAT_W+:STAT_W]),
      .write_bytes(of_region[3*STAT_W+:STAT_W]),
      .row_hits(of_region[4*STAT_W+:STAT_W]),
      .bank_switches(of_region[5*STAT_W+:STAT_W]),
      .activations(of_region[6*STAT_W+:STAT_W]),
      .precharges_clean(of_region[7*STAT_W+:STAT_W]),
      .precharges_dirty(of_region[8*STAT_W+:STAT_W])
  );

  logic there;
  assign there = at_region || {1'b0, number} < 5'(BANKS);
  assign chosen = at_region ? of_region : of_bank;
  always_comb begin
    case (stat)
      nvmm_regs_pkg::MEM_READS: value = chosen[0+:STAT_W];
      nvmm_regs_pkg::MEM_WRITES: value = chosen[STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_READ_BYTES: value = chosen[2*STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_WRITE_BYTES: value = chosen[3*STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_ROW_HITS: value = chosen[4*STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_BANK_SWITCHES: value = chosen[5*STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_ACTIVATIONS: value = chosen[6*STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_PRECHARGES_CLEAN: value = chosen[7*STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_PRECHARGES_DIRTY: value = chosen[8*STAT_W+:STAT_W];
      nvmm_regs_pkg::MEM_REFRESHES: begin
        if (!at_region) value = refreshes;
        else value = number[0] ? nvmm_refreshes : dram_refreshes;
      end
      default: value = '0;
    endcase
    if (!there) value = '0;
  end
endmodule

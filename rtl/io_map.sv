// The I/O translation table: from a hart's physical address to an address of the bus, by VM. Put
// between MMU and bus, or, for the other direction, between a device and memory.
//
// A lookup is answered in the same clock (LATENCY 0) or in the next (LATENCY 1). It hits at most one
// entry: writing one that overlaps another entry of the same VM is refused. Three kinds:
// constant, full (the monitor chooses the place of an entry), small (the table chooses it).
module io_map #(
    parameter int ADDR_W = 32,
    parameter int VM_W = 2,
    parameter int ENTRIES = 16,
    parameter int SIZE_W = $clog2(ADDR_W),  // Of the logarithm of an entry's size.
    parameter int KIND = 1,                 // 0 constant, 1 full or small by software, 2 small.
    parameter int REPLACE = 0,              // Small: 0 LRU, 1 FIFO, 2 random.
    parameter int LATENCY = 0,
    parameter bit COUNTERS = 1'b1,
    parameter int COUNT_W = 32,
    // Constant: one entry of {vm, from, to, size, write, read} after the other, the first lowest.
    parameter int ENTRY_W = VM_W + 2 * ADDR_W + SIZE_W + 2,
    parameter logic [ENTRIES*ENTRY_W-1:0] CONSTANT = '0,
    parameter int PLACE_W = ENTRIES > 1 ? $clog2(ENTRIES) : 1
) (
    input logic clk,
    input logic rst,

    // Lookups. `vm` comes from the hart's id register, which only the monitor writes.
    input logic valid,
    input logic [VM_W-1:0] vm,
    input logic [ADDR_W-1:0] addr,
    input logic write,
    output logic answer,
    output logic hit,
    output logic denied,            // There is an entry, but not the right.
    output logic miss,              // There is none: to be trapped.
    output logic [ADDR_W-1:0] to,

    // Writing an entry, by the monitor. Done, or refused, in the same clock.
    input logic put,
    input logic put_valid,          // 0: the entry is emptied.
    input logic put_choose,         // The table chooses the place (kind 2).
    input logic [PLACE_W-1:0] put_place,
    input logic [VM_W-1:0] put_vm,
    input logic [ADDR_W-1:0] put_from,
    input logic [ADDR_W-1:0] put_to,
    input logic [SIZE_W-1:0] put_size,
    input logic put_read,
    input logic put_write,
    output logic put_done,
    output logic [PLACE_W-1:0] put_at,

    // The latest miss, and counters since reset or, for an entry, since it was written.
    output logic [COUNT_W-1:0] misses,
    output logic [VM_W-1:0] miss_vm,
    output logic [ADDR_W-1:0] miss_addr,
    input logic [PLACE_W-1:0] count_place,
    output logic [COUNT_W-1:0] count_hits,
    output logic [COUNT_W-1:0] count_denied
);
  localparam int MIN_SIZE = 2;

  // The entries as vectors. For a constant table they are constants, and what compares with them
  // becomes a few gates.
  logic [ENTRIES-1:0] there, may_read, may_write;
  logic [ENTRIES*VM_W-1:0] vms;
  logic [ENTRIES*ADDR_W-1:0] froms, tos, masks;  // Masks have ones below the size.

  function automatic logic [ADDR_W-1:0] below(input logic [SIZE_W-1:0] size);
    below = (ADDR_W'(1) << size) - ADDR_W'(1);
  endfunction

  // Lookup.
  logic [ENTRIES-1:0] covers;
  logic now_hit, now_denied, now_miss;
  logic [ADDR_W-1:0] now_to;
  always_comb begin
    now_to = '0;
    for (int i = 0; i < ENTRIES; i++) begin
      covers[i] = there[i] && vms[i*VM_W+:VM_W] == vm
                  && ((addr ^ froms[i*ADDR_W+:ADDR_W]) & ~masks[i*ADDR_W+:ADDR_W]) == '0;
      if (covers[i]) begin
        now_to = now_to | tos[i*ADDR_W+:ADDR_W] | (addr & masks[i*ADDR_W+:ADDR_W]);
      end
    end
    now_miss = valid && covers == '0;
    now_hit = valid && |(covers & (write ? may_write : may_read));
    now_denied = valid && !now_miss && !now_hit;
  end
  generate
    if (LATENCY == 0) begin : at_once
      assign answer = valid;
      assign hit = now_hit;
      assign denied = now_denied;
      assign miss = now_miss;
      assign to = now_to;
    end else begin : registered
      always_ff @(posedge clk) begin
        answer <= valid && !rst;
        hit <= now_hit && !rst;
        denied <= now_denied && !rst;
        miss <= now_miss && !rst;
        to <= now_to;
      end
    end
  endgenerate

  // Writing.
  logic [ENTRIES-1:0] overlaps, chosen, replaced;
  logic [ADDR_W-1:0] put_mask;
  logic put_good;
  assign put_mask = below(put_size);
  always_comb begin
    for (int i = 0; i < ENTRIES; i++) begin
      // Two aligned ranges overlap if they are equal above the larger size.
      overlaps[i] = there[i] && vms[i*VM_W+:VM_W] == put_vm
          && ((put_from ^ froms[i*ADDR_W+:ADDR_W]) & ~put_mask & ~masks[i*ADDR_W+:ADDR_W]) == '0;
    end
    put_good = put_size >= SIZE_W'(MIN_SIZE) && 32'(put_size) < ADDR_W
               && ((put_from | put_to) & put_mask) == '0;
  end

  generate
    if (KIND == 0) begin : constant
      genvar i;
      for (i = 0; i < ENTRIES; i++) begin : entry
        localparam logic [ENTRY_W-1:0] ENTRY = CONSTANT[i*ENTRY_W+:ENTRY_W];
        assign there[i] = 1'b1;
        assign may_read[i] = ENTRY[0];
        assign may_write[i] = ENTRY[1];
        assign masks[i*ADDR_W+:ADDR_W] = (ADDR_W'(1) << ENTRY[2+:SIZE_W]) - ADDR_W'(1);
        assign tos[i*ADDR_W+:ADDR_W] = ENTRY[2+SIZE_W+:ADDR_W];
        assign froms[i*ADDR_W+:ADDR_W] = ENTRY[2+SIZE_W+ADDR_W+:ADDR_W];
        assign vms[i*VM_W+:VM_W] = ENTRY[ENTRY_W-1-:VM_W];
      end
      assign chosen = '0;
      assign replaced = '0;
      assign put_done = 1'b0;
      assign put_at = '0;
      logic unused;
      assign unused = &{1'b0, put, put_valid, put_choose, put_place, put_read, put_write, put_good,
                        overlaps, chosen, below('0)};
    end else begin : written
      // The victim: the first free entry, or the one that the policy names.
      logic [ENTRIES-1:0] victim;
      logic takes_free;
      assign takes_free = there != '1 && KIND == 2;
      if (KIND == 2 && REPLACE == 2) begin : random
        logic [15:0] shift;
        logic [PLACE_W-1:0] named;
        assign named = (ENTRIES > 1) ? shift[PLACE_W-1:0] : '0;
        assign victim = takes_free ? ~there & (there + ENTRIES'(1)) : ENTRIES'(1) << named;
        always_ff @(posedge clk) begin
          if (put_done && put_choose && !takes_free) begin
            shift <= {shift[0] ^ shift[2] ^ shift[3] ^ shift[5], shift[15:1]};
          end
          if (rst) shift <= 16'd1;
        end
      end else if (KIND == 2) begin : aged
        // For each entry those that were used, or for FIFO filled, before it.
        logic [ENTRIES*ENTRIES-1:0] older;
        logic [ENTRIES-1:0] oldest, used;
        always_comb begin
          for (int i = 0; i < ENTRIES; i++) oldest[i] = older[i*ENTRIES+:ENTRIES] == '0;
        end
        assign victim = takes_free ? ~there & (there + ENTRIES'(1)) : oldest;
        assign used = (REPLACE == 0 && now_hit) ? covers : '0;
        always_ff @(posedge clk) begin
          for (int i = 0; i < ENTRIES; i++) begin
            // A lookup comes before a write in the same clock.
            if (replaced[i]) older[i*ENTRIES+:ENTRIES] <= ~replaced;
            else if (used[i]) older[i*ENTRIES+:ENTRIES] <= ~used & ~replaced;
            else older[i*ENTRIES+:ENTRIES] <= older[i*ENTRIES+:ENTRIES] & ~used & ~replaced;
            if (rst) older[i*ENTRIES+:ENTRIES] <= (ENTRIES'(1) << i) - ENTRIES'(1);
          end
        end
      end else begin : by_software
        assign victim = takes_free ? '1 : '0;  // Never chosen.
      end

      logic fits;
      assign chosen = put_choose ? victim : ENTRIES'(1) << put_place;
      // An entry may be replaced by one that overlaps it only where the monitor chooses.
      assign fits = put_good && (overlaps & ~(put_choose ? '0 : chosen)) == '0;
      assign put_done = put && (put_choose == (KIND == 2) || !put_valid)
                        && !(put_choose && !put_valid) && (fits || !put_valid)
                        && 32'(put_place) < ENTRIES;
      assign replaced = put_done ? chosen : '0;
      always_comb begin
        put_at = '0;
        for (int i = 0; i < ENTRIES; i++) if (chosen[i]) put_at = PLACE_W'(i);
      end
      always_ff @(posedge clk) begin
        for (int i = 0; i < ENTRIES; i++) begin
          if (replaced[i]) begin
            there[i] <= put_valid;
            may_read[i] <= put_read;
            may_write[i] <= put_write;
            vms[i*VM_W+:VM_W] <= put_vm;
            froms[i*ADDR_W+:ADDR_W] <= put_from;
            tos[i*ADDR_W+:ADDR_W] <= put_to;
            masks[i*ADDR_W+:ADDR_W] <= put_mask;
          end
        end
        if (rst) there <= '0;
      end
    end
  endgenerate

  // Counters.
  always_ff @(posedge clk) begin
    if (now_miss) begin
      miss_vm <= vm;
      miss_addr <= addr;
    end
    if (rst) begin
      miss_vm <= '0;
      miss_addr <= '0;
    end
  end
  generate
    if (COUNTERS) begin : counted
      logic [ENTRIES*COUNT_W-1:0] hits, denials;
      assign count_hits = hits[count_place*COUNT_W+:COUNT_W];
      assign count_denied = denials[count_place*COUNT_W+:COUNT_W];
      always_ff @(posedge clk) begin
        if (now_miss) misses <= misses + COUNT_W'(1);
        for (int i = 0; i < ENTRIES; i++) begin
          if (now_hit && covers[i])
            hits[i*COUNT_W+:COUNT_W] <= hits[i*COUNT_W+:COUNT_W] + COUNT_W'(1);
          if (now_denied && covers[i])
            denials[i*COUNT_W+:COUNT_W] <= denials[i*COUNT_W+:COUNT_W] + COUNT_W'(1);
          if (replaced[i]) begin
            hits[i*COUNT_W+:COUNT_W] <= '0;
            denials[i*COUNT_W+:COUNT_W] <= '0;
          end
        end
        if (rst) begin
          misses <= '0;
          hits <= '0;
          denials <= '0;
        end
      end
    end else begin : uncounted
      assign misses = '0;
      assign count_hits = '0;
      assign count_denied = '0;
      logic unused;
      assign unused = &{1'b0, count_place, replaced};
    end
  endgenerate

endmodule

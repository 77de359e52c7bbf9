// Generated from the register table of crates/platform; do not edit (NAGORI_BLESS=1 writes it).
// What an offset in the control block is.
module nvmm_regs_decode (
    input logic [15:0] offset,      // A multiple of 8.
    output logic known,             // There is a register.
    output logic writable,
    output logic in_hardware,       // Not one of those that belong to the emulator.
    output logic is_region,         // Statistics of region `number`.
    output logic is_bank,           // Statistics of bank `number`.
    output logic [3:0] number
);
  logic is_stat;
  assign number = offset[11:8];
  always_comb begin
    is_stat = 1'b0;
    case (offset[7:0])
      8'h00 /* MEM_READS */,
      8'h08 /* MEM_WRITES */,
      8'h10 /* MEM_READ_BYTES */,
      8'h18 /* MEM_WRITE_BYTES */,
      8'h20 /* MEM_ROW_HITS */,
      8'h28 /* MEM_BANK_SWITCHES */,
      8'h30 /* MEM_ACTIVATIONS */,
      8'h38 /* MEM_PRECHARGES_CLEAN */,
      8'h40 /* MEM_PRECHARGES_DIRTY */,
      8'h48 /* MEM_REFRESHES */: is_stat = 1'b1;
      default: is_stat = 1'b0;
    endcase
  end
  logic is_hart_stat;
  always_comb begin
    case (offset[7:0])
      8'h00 /* HART_INSTRUCTIONS */,
      8'h08 /* HART_CYCLES */,
      8'h10 /* HART_L1D_LOAD_MISSES */,
      8'h18 /* HART_L1D_STORE_MISSES */,
      8'h20 /* HART_L1D_WALK_MISSES */,
      8'h28 /* HART_L1D_UPGRADES */,
      8'h30 /* HART_L1D_WRITEBACKS */,
      8'h38 /* HART_L1D_FLUSHES */,
      8'h40 /* HART_PROBES */,
      8'h48 /* HART_L1I_MISSES */,
      8'h50 /* HART_DTLB_MISSES */,
      8'h58 /* HART_ITLB_MISSES */,
      8'h60 /* HART_MISPREDICTS */,
      8'h68 /* HART_MEMORY_STALL_CYCLES */,
      8'h70 /* HART_EXCEPTIONS */,
      8'h78 /* HART_INTERRUPTS */,
      8'h80 /* HART_IDLE_CYCLES */: is_hart_stat = 1'b1;
      default: is_hart_stat = 1'b0;
    endcase
  end
  assign is_region = is_stat && offset >= 16'h1000 && offset < 16'h1200;
  assign is_bank = is_stat && offset >= 16'h2000 && offset < 16'h3000;
  logic is_hart, is_latency;
  assign is_hart = is_hart_stat && offset >= 16'h4000 && offset < 16'h5000;
  assign is_latency = offset >= 16'h8000 && offset < 16'h8800
      && (offset[8:0] == 9'h0 || offset[8:0] == 9'h8
          || ({1'b0, offset[8:0]} >= 10'h100 && {1'b0, offset[8:0]} < 10'h200));
  always_comb begin
    known = is_region || is_bank || is_hart || is_latency;
    writable = 1'b0;
    in_hardware = 1'b1;
    case (offset)
      nvmm_regs_pkg::CTL_ID,
      nvmm_regs_pkg::CTL_VERSION,
      nvmm_regs_pkg::CTL_ERROR_OFFSET,
      nvmm_regs_pkg::CTL_ERROR_VALUE,
      nvmm_regs_pkg::CTL_ERROR_COUNT,
      nvmm_regs_pkg::CTL_HARTS,
      nvmm_regs_pkg::CTL_BANKS,
      nvmm_regs_pkg::CTL_MEMORY_BASE,
      nvmm_regs_pkg::CTL_MEMORY_SIZE,
      nvmm_regs_pkg::CTL_CLOCK_PS,
      nvmm_regs_pkg::CTL_CORE_HZ,
      nvmm_regs_pkg::CTL_NVMM_SIZE,
      nvmm_regs_pkg::CTL_TIME_NS,
      nvmm_regs_pkg::CTL_STATS_FROM_NS,
      nvmm_regs_pkg::CTL_CLOCKS,
      nvmm_regs_pkg::CTL_REFRESHES,
      nvmm_regs_pkg::CTL_REFRESH_TICKS_LOST: begin
        known = 1'b1;
      end
      nvmm_regs_pkg::CTL_IOMAP_KIND,
      nvmm_regs_pkg::CTL_IOMAP_PLACES,
      nvmm_regs_pkg::CTL_IOMAP_HITS,
      nvmm_regs_pkg::CTL_IOMAP_DENIED,
      nvmm_regs_pkg::CTL_IOMAP_VM_HITS,
      nvmm_regs_pkg::CTL_IOMAP_VM_DENIED,
      nvmm_regs_pkg::CTL_IOMAP_VM_MISSES,
      nvmm_regs_pkg::CTL_IOMAP_MISSES,
      nvmm_regs_pkg::CTL_IOMAP_MISS_VM,
      nvmm_regs_pkg::CTL_IOMAP_MISS_ADDR: begin
        known = 1'b1; in_hardware = 1'b0;
      end
      nvmm_regs_pkg::CTL_ERROR,
      nvmm_regs_pkg::CTL_METHOD,
      nvmm_regs_pkg::CTL_TIMED,
      nvmm_regs_pkg::CTL_NVMM_BASE,
      nvmm_regs_pkg::CTL_COARSE_READ,
      nvmm_regs_pkg::CTL_COARSE_WRITE,
      nvmm_regs_pkg::CTL_ADDED_RCD,
      nvmm_regs_pkg::CTL_ADDED_RP,
      nvmm_regs_pkg::CTL_ADDED_RAS,
      nvmm_regs_pkg::CTL_BASE_WAIT,
      nvmm_regs_pkg::CTL_BASE_RCD,
      nvmm_regs_pkg::CTL_BASE_RAS,
      nvmm_regs_pkg::CTL_BASE_RTP,
      nvmm_regs_pkg::CTL_BASE_WTP,
      nvmm_regs_pkg::CTL_BASE_RP,
      nvmm_regs_pkg::CTL_REFRESH_INTERVAL,
      nvmm_regs_pkg::CTL_REFRESH_DURATION,
      nvmm_regs_pkg::CTL_STATS_CONTROL,
      nvmm_regs_pkg::CTL_LABEL: begin
        known = 1'b1; writable = 1'b1;
      end
      nvmm_regs_pkg::CTL_WARM_UP,
      nvmm_regs_pkg::CTL_HOST_REQUEST,
      nvmm_regs_pkg::CTL_SPACE_NAME,
      nvmm_regs_pkg::CTL_LABEL_TEXT,
      nvmm_regs_pkg::CTL_MEMORY_SET,
      nvmm_regs_pkg::CTL_IOMAP_TABLE,
      nvmm_regs_pkg::CTL_IOMAP_PLACE,
      nvmm_regs_pkg::CTL_IOMAP_VM,
      nvmm_regs_pkg::CTL_IOMAP_FROM,
      nvmm_regs_pkg::CTL_IOMAP_TO,
      nvmm_regs_pkg::CTL_IOMAP_SIZE_LOG2,
      nvmm_regs_pkg::CTL_IOMAP_RIGHTS,
      nvmm_regs_pkg::CTL_IOMAP_COMMAND,
      nvmm_regs_pkg::CTL_IOMAP_HART,
      nvmm_regs_pkg::CTL_IOMAP_HART_VM,
      nvmm_regs_pkg::CTL_IOMAP_DEVICE,
      nvmm_regs_pkg::CTL_IOMAP_DEVICE_VM: begin
        known = 1'b1; writable = 1'b1; in_hardware = 1'b0;
      end
      default: ;
    endcase
  end
endmodule

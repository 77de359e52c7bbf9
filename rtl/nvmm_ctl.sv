// The control block on AXI4-Lite (64 bits): the register map of docs/registers.md. A write holds
// from the clock after it is done; a read shows the clock of its address handshake.
module nvmm_ctl #(
    parameter int ADDR_W = 33,
    parameter int BANK_W = 3,
    parameter int BANK_LOW = 29,            // Bits of an offset in a bank.
    parameter logic [ADDR_W-1:0] MEMORY_BASE = '0,
    parameter int TIMER_W = 22,
    parameter int MAX_BASE = 1_000_000,     // Longest base timing in clocks,
    parameter int MAX_DELAY = 2_000_000,    // and longest delay.
    parameter int REFRESH_BUSY = 7,         // Clocks of a refresh beside its duration.
    parameter int FIRST_NVMM = 2,           // First bank of NVMM after reset.
    parameter int HARTS = 0,
    parameter int CLOCK_PS = 5000,
    parameter int CORE_HZ = 0,
    // After reset: the board.
    parameter int COARSE_READ = 200,
    parameter int COARSE_WRITE = 200,
    parameter int ADDED_RCD = 200,
    parameter int ADDED_RP = 200,
    parameter int ADDED_RAS = 1400,
    parameter int BASE_WAIT = 5,
    parameter int BASE_RCD = 8,
    parameter int BASE_RAS = 7,
    parameter int BASE_RTP = 3,
    parameter int BASE_WTP = 3,
    parameter int BASE_RP = 4,
    parameter int REFRESH_INTERVAL = 1480,
    parameter int REFRESH_DURATION = 52
) (
    input logic clk,
    input logic rst,

    input logic s_awvalid,
    output logic s_awready,
    input logic [15:0] s_awaddr,
    input logic s_wvalid,
    output logic s_wready,
    input logic [63:0] s_wdata,
    input logic [7:0] s_wstrb,
    output logic s_bvalid,
    input logic s_bready,
    output logic [1:0] s_bresp,
    input logic s_arvalid,
    output logic s_arready,
    /* verilator lint_off UNUSEDSIGNAL */  // Registers are 64 bits wide.
    input logic [15:0] s_araddr,
    /* verilator lint_on UNUSEDSIGNAL */
    output logic s_rvalid,
    input logic s_rready,
    output logic [63:0] s_rdata,
    output logic [1:0] s_rresp,

    output logic [1:0] method,
    output logic [BANK_W:0] first_nvmm,
    output logic [TIMER_W-1:0] coarse_read,
    output logic [TIMER_W-1:0] coarse_write,
    output logic [TIMER_W-1:0] added_rcd,
    output logic [TIMER_W-1:0] added_rp,
    output logic [TIMER_W-1:0] added_ras,
    output logic [TIMER_W-1:0] t_wait,
    output logic [TIMER_W-1:0] t_rcd,
    output logic [TIMER_W-1:0] t_ras,
    output logic [TIMER_W-1:0] t_rtp,
    output logic [TIMER_W-1:0] t_wtp,
    output logic [TIMER_W-1:0] t_rp,
    output logic [TIMER_W-1:0] t_interval,
    output logic [TIMER_W-1:0] t_duration,

    output logic stats_clear,
    output logic stats_region,
    output logic [3:0] stats_number,
    output logic [7:0] stats_stat,
    input logic [63:0] stats_value,
    input logic [63:0] refreshes,
    input logic [63:0] ticks_lost
);
  localparam int BANKS = 1 << BANK_W;
  localparam int WHOLE_NS = CLOCK_PS / 1000;
  localparam int REST_PS = CLOCK_PS % 1000;

  // Machine time.
  logic [63:0] clocks, time_ns, from_ns, next_ns;
  logic [9:0] rest_ps;
  logic [10:0] next_ps;
  assign next_ps = {1'b0, rest_ps} + 11'(REST_PS);
  assign next_ns = time_ns + 64'(WHOLE_NS) + 64'(next_ps >= 11'd1000);
  always_ff @(posedge clk) begin
    clocks <= clocks + 64'd1;
    time_ns <= next_ns;
    rest_ps <= (next_ps >= 11'd1000) ? 10'(next_ps - 11'd1000) : next_ps[9:0];
    if (stats_clear) from_ns <= next_ns;
    if (rst) begin
      clocks <= '0;
      time_ns <= '0;
      from_ns <= '0;
      rest_ps <= '0;
    end
  end

  // Address and data of a write are kept until both are there.
  logic aw_full, w_full, write;
  /* verilator lint_off UNUSEDSIGNAL */
  logic [15:0] aw_addr;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [63:0] w_data;
  logic [7:0] w_strb;
  assign s_awready = !aw_full;
  assign s_wready = !w_full;
  assign write = aw_full && w_full && !s_bvalid;

  // What is written where. A write of the lower half sets the whole register.
  logic lower, upper, known, writable, in_hardware;
  logic [15:0] reg_offset, access_offset;
  logic [63:0] value;
  assign lower = w_strb == 8'h0f || w_strb == 8'hff;
  assign upper = w_strb == 8'hf0;
  assign reg_offset = {aw_addr[15:3], 3'b000};
  assign access_offset = upper ? {aw_addr[15:3], 3'b100} : reg_offset;
  always_comb begin
    value = w_data;
    if (w_strb == 8'h0f) value = {32'd0, w_data[31:0]};
    if (upper) value = {32'd0, w_data[63:32]};
  end
  /* verilator lint_off PINCONNECTEMPTY */
  nvmm_regs_decode write_decode (
      .offset(reg_offset), .known, .writable, .in_hardware,
      .is_region(), .is_bank(), .number()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // Whether the value is one that the register accepts.
  logic base_good, delay_good, interval_good, duration_good, nvmm_inside, nvmm_aligned;
  logic [63:0] nvmm_offset;
  logic below_memory;
  assign base_good = value != 64'd0 && value <= 64'(MAX_BASE);
  assign delay_good = value <= 64'(MAX_DELAY);
  assign interval_good = base_good && value > 64'(t_duration) + 64'(REFRESH_BUSY);
  assign duration_good = base_good && 64'(t_interval) > value + 64'(REFRESH_BUSY);
  assign {below_memory, nvmm_offset} = {1'b0, value} - 65'(MEMORY_BASE);
  assign nvmm_inside = !below_memory && nvmm_offset <= 64'(BANKS) << BANK_LOW;
  assign nvmm_aligned = nvmm_offset[BANK_LOW-1:0] == '0;

  logic [63:0] error, error_offset, error_value, error_count, label, problem;
  always_comb begin
    problem = 64'd0;
    if (!known) problem = nvmm_regs_pkg::ERROR_IS_UNKNOWN;
    else if (!writable) problem = nvmm_regs_pkg::ERROR_IS_READ_ONLY;
    else if (upper) problem = nvmm_regs_pkg::ERROR_IS_UPPER_HALF;
    else if (!in_hardware) problem = nvmm_regs_pkg::ERROR_IS_STATE;
    else begin
      case (reg_offset)
        nvmm_regs_pkg::CTL_METHOD:
          if (value > nvmm_regs_pkg::METHOD_EXTENDED) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
        // Hardware is never functional.
        nvmm_regs_pkg::CTL_TIMED:
          if (value > nvmm_regs_pkg::TIMED) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
          else if (value == nvmm_regs_pkg::FUNCTIONAL) problem = nvmm_regs_pkg::ERROR_IS_STATE;
        nvmm_regs_pkg::CTL_NVMM_BASE:
          if (!nvmm_inside) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
          else if (!nvmm_aligned) problem = nvmm_regs_pkg::ERROR_IS_ALIGNMENT;
        nvmm_regs_pkg::CTL_COARSE_READ, nvmm_regs_pkg::CTL_COARSE_WRITE,
        nvmm_regs_pkg::CTL_ADDED_RCD, nvmm_regs_pkg::CTL_ADDED_RP, nvmm_regs_pkg::CTL_ADDED_RAS:
          if (!delay_good) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
        nvmm_regs_pkg::CTL_BASE_WAIT, nvmm_regs_pkg::CTL_BASE_RCD, nvmm_regs_pkg::CTL_BASE_RAS,
        nvmm_regs_pkg::CTL_BASE_RTP, nvmm_regs_pkg::CTL_BASE_WTP, nvmm_regs_pkg::CTL_BASE_RP:
          if (!base_good) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
        nvmm_regs_pkg::CTL_REFRESH_INTERVAL:
          if (!interval_good) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
        nvmm_regs_pkg::CTL_REFRESH_DURATION:
          if (!duration_good) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
        // There is no host to dump statistics.
        nvmm_regs_pkg::CTL_STATS_CONTROL:
          if (value == nvmm_regs_pkg::STATS_DUMP) problem = nvmm_regs_pkg::ERROR_IS_STATE;
          else if (value != nvmm_regs_pkg::STATS_RESET) problem = nvmm_regs_pkg::ERROR_IS_VALUE;
        default: ;
      endcase
    end
  end

  logic set;
  assign set = write && (lower || upper) && problem == 64'd0;
  assign stats_clear = set && reg_offset == nvmm_regs_pkg::CTL_STATS_CONTROL;

  always_ff @(posedge clk) begin
    if (s_awvalid && s_awready) begin
      aw_full <= 1'b1;
      aw_addr <= s_awaddr;
    end
    if (s_wvalid && s_wready) begin
      w_full <= 1'b1;
      w_data <= s_wdata;
      w_strb <= s_wstrb;
    end
    if (s_bvalid && s_bready) s_bvalid <= 1'b0;
    if (write) begin
      aw_full <= 1'b0;
      w_full <= 1'b0;
      s_bvalid <= 1'b1;
      // Registers are written as a whole or by halves; a rejected value is no error of the bus.
      s_bresp <= (lower || upper) ? 2'b00 : 2'b10;
      if ((lower || upper) && problem != 64'd0) begin
        error <= problem;
        error_offset <= {48'd0, access_offset};
        error_value <= value;
        error_count <= error_count + 64'd1;
      end
    end
    if (set) begin
      case (reg_offset)
        nvmm_regs_pkg::CTL_ERROR: begin
          error <= '0;
          error_offset <= '0;
          error_value <= '0;
        end
        nvmm_regs_pkg::CTL_LABEL: label <= value;
        nvmm_regs_pkg::CTL_METHOD: method <= value[1:0];
        nvmm_regs_pkg::CTL_NVMM_BASE: first_nvmm <= nvmm_offset[BANK_LOW+:BANK_W+1];
        nvmm_regs_pkg::CTL_COARSE_READ: coarse_read <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_COARSE_WRITE: coarse_write <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_ADDED_RCD: added_rcd <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_ADDED_RP: added_rp <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_ADDED_RAS: added_ras <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_BASE_WAIT: t_wait <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_BASE_RCD: t_rcd <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_BASE_RAS: t_ras <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_BASE_RTP: t_rtp <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_BASE_WTP: t_wtp <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_BASE_RP: t_rp <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_REFRESH_INTERVAL: t_interval <= value[TIMER_W-1:0];
        nvmm_regs_pkg::CTL_REFRESH_DURATION: t_duration <= value[TIMER_W-1:0];
        default: ;
      endcase
    end
    if (rst) begin
      aw_full <= 1'b0;
      w_full <= 1'b0;
      s_bvalid <= 1'b0;
      error <= '0;
      error_offset <= '0;
      error_value <= '0;
      error_count <= '0;
      label <= '0;
      method <= 2'd0;
      first_nvmm <= (BANK_W + 1)'(FIRST_NVMM);
      coarse_read <= TIMER_W'(COARSE_READ);
      coarse_write <= TIMER_W'(COARSE_WRITE);
      added_rcd <= TIMER_W'(ADDED_RCD);
      added_rp <= TIMER_W'(ADDED_RP);
      added_ras <= TIMER_W'(ADDED_RAS);
      t_wait <= TIMER_W'(BASE_WAIT);
      t_rcd <= TIMER_W'(BASE_RCD);
      t_ras <= TIMER_W'(BASE_RAS);
      t_rtp <= TIMER_W'(BASE_RTP);
      t_wtp <= TIMER_W'(BASE_WTP);
      t_rp <= TIMER_W'(BASE_RP);
      t_interval <= TIMER_W'(REFRESH_INTERVAL);
      t_duration <= TIMER_W'(REFRESH_DURATION);
    end
  end

  // Reading.
  logic is_bank;
  logic [63:0] shown, memory_size, nvmm_at;
  /* verilator lint_off PINCONNECTEMPTY */
  nvmm_regs_decode read_decode (
      .offset({s_araddr[15:3], 3'b000}),
      .known(), .writable(), .in_hardware(),
      .is_region(stats_region), .is_bank, .number(stats_number)
  );
  /* verilator lint_on PINCONNECTEMPTY */
  assign stats_stat = {s_araddr[7:3], 3'b000};
  assign memory_size = 64'(BANKS) << BANK_LOW;
  assign nvmm_at = 64'(first_nvmm) << BANK_LOW;
  always_comb begin
    case ({s_araddr[15:3], 3'b000})
      nvmm_regs_pkg::CTL_ID: shown = nvmm_regs_pkg::ID;
      nvmm_regs_pkg::CTL_VERSION: shown = nvmm_regs_pkg::VERSION;
      nvmm_regs_pkg::CTL_ERROR: shown = error;
      nvmm_regs_pkg::CTL_ERROR_OFFSET: shown = error_offset;
      nvmm_regs_pkg::CTL_ERROR_VALUE: shown = error_value;
      nvmm_regs_pkg::CTL_ERROR_COUNT: shown = error_count;
      nvmm_regs_pkg::CTL_HARTS: shown = 64'(HARTS);
      nvmm_regs_pkg::CTL_BANKS: shown = 64'(BANKS);
      nvmm_regs_pkg::CTL_MEMORY_BASE: shown = 64'(MEMORY_BASE);
      nvmm_regs_pkg::CTL_MEMORY_SIZE: shown = memory_size;
      nvmm_regs_pkg::CTL_CLOCK_PS: shown = 64'(CLOCK_PS);
      nvmm_regs_pkg::CTL_CORE_HZ: shown = 64'(CORE_HZ);
      nvmm_regs_pkg::CTL_METHOD: shown = {62'd0, method};
      nvmm_regs_pkg::CTL_TIMED: shown = nvmm_regs_pkg::TIMED;
      nvmm_regs_pkg::CTL_NVMM_BASE: shown = 64'(MEMORY_BASE) + nvmm_at;
      nvmm_regs_pkg::CTL_NVMM_SIZE: shown = memory_size - nvmm_at;
      nvmm_regs_pkg::CTL_COARSE_READ: shown = 64'(coarse_read);
      nvmm_regs_pkg::CTL_COARSE_WRITE: shown = 64'(coarse_write);
      nvmm_regs_pkg::CTL_ADDED_RCD: shown = 64'(added_rcd);
      nvmm_regs_pkg::CTL_ADDED_RP: shown = 64'(added_rp);
      nvmm_regs_pkg::CTL_ADDED_RAS: shown = 64'(added_ras);
      nvmm_regs_pkg::CTL_BASE_WAIT: shown = 64'(t_wait);
      nvmm_regs_pkg::CTL_BASE_RCD: shown = 64'(t_rcd);
      nvmm_regs_pkg::CTL_BASE_RAS: shown = 64'(t_ras);
      nvmm_regs_pkg::CTL_BASE_RTP: shown = 64'(t_rtp);
      nvmm_regs_pkg::CTL_BASE_WTP: shown = 64'(t_wtp);
      nvmm_regs_pkg::CTL_BASE_RP: shown = 64'(t_rp);
      nvmm_regs_pkg::CTL_REFRESH_INTERVAL: shown = 64'(t_interval);
      nvmm_regs_pkg::CTL_REFRESH_DURATION: shown = 64'(t_duration);
      nvmm_regs_pkg::CTL_LABEL: shown = label;
      nvmm_regs_pkg::CTL_TIME_NS: shown = time_ns;
      nvmm_regs_pkg::CTL_STATS_FROM_NS: shown = from_ns;
      nvmm_regs_pkg::CTL_CLOCKS: shown = clocks;
      nvmm_regs_pkg::CTL_REFRESHES: shown = refreshes;
      nvmm_regs_pkg::CTL_REFRESH_TICKS_LOST: shown = ticks_lost;
      default: shown = (stats_region || is_bank) ? stats_value : 64'd0;
    endcase
  end
  assign s_arready = !s_rvalid;
  assign s_rresp = 2'b00;
  always_ff @(posedge clk) begin
    if (s_rvalid && s_rready) s_rvalid <= 1'b0;
    if (s_arvalid && s_arready) begin
      s_rvalid <= 1'b1;
      s_rdata <= shown;
    end
    if (rst) s_rvalid <= 1'b0;
  end
endmodule

// Rocket's system with the two AXI4 ports that lead out of it, and what its write-back stage does. The ports of the
// debugger and of other masters are tied off, and of four cores the first is observed; the names behind CORE are those
// of the generated Verilog.
`ifndef MEMORY_BYTES
`define MEMORY_BYTES 8
`endif
module rocket_top (
    input  logic        clock, reset,
    // memory: the read channels
    input  logic        mem_ar_ready,
    output logic        mem_ar_valid,
    output logic [3:0]  mem_ar_id,
    output logic [31:0] mem_ar_addr,
    output logic [7:0]  mem_ar_len,
    output logic [2:0]  mem_ar_size,
    output logic        mem_r_ready,
    input  logic        mem_r_valid,
    input  logic [3:0]  mem_r_id,
    input  logic [8*`MEMORY_BYTES-1:0] mem_r_data,
    input  logic        mem_r_last,
    input  logic        mem_aw_ready,
    output logic        mem_aw_valid,
    output logic [3:0]  mem_aw_id,
    output logic [31:0] mem_aw_addr,
    output logic [7:0]  mem_aw_len,
    output logic [2:0]  mem_aw_size,
    input  logic        mem_w_ready,
    output logic        mem_w_valid,
    output logic [8*`MEMORY_BYTES-1:0] mem_w_data,
    output logic [`MEMORY_BYTES-1:0] mem_w_strb,
    output logic        mem_w_last,
    output logic        mem_b_ready,
    input  logic        mem_b_valid,
    input  logic [3:0]  mem_b_id,

    input  logic        io_ar_ready,
    output logic        io_ar_valid,
    output logic [3:0]  io_ar_id,
    output logic [31:0] io_ar_addr,
    output logic [7:0]  io_ar_len,
    output logic [2:0]  io_ar_size,
    output logic        io_r_ready,
    input  logic        io_r_valid,
    input  logic [3:0]  io_r_id,
    input  logic [63:0] io_r_data,
    input  logic        io_r_last,
    input  logic        io_aw_ready,
    output logic        io_aw_valid,
    output logic [3:0]  io_aw_id,
    output logic [31:0] io_aw_addr,
    output logic [7:0]  io_aw_len,
    output logic [2:0]  io_aw_size,
    input  logic        io_w_ready,
    output logic        io_w_valid,
    output logic [63:0] io_w_data,
    output logic [7:0]  io_w_strb,
    output logic        io_w_last,
    output logic        io_b_ready,
    input  logic        io_b_valid,
    input  logic [3:0]  io_b_id,

    output logic        wb_valid, wb_trap, wb_writes,
    output logic [4:0]  wb_rd,
    output logic [31:0] wb_word,
    output logic [63:0] wb_pc, wb_value, wb_rs1, wb_rs2, wb_cause, wb_tval
);
    assign io_ar_addr[31] = 1'b0;
    assign io_aw_addr[31] = 1'b0;

    ExampleRocketSystem dut (
        .clock(clock), .reset(reset),
        .mem_axi4_0_aw_ready(mem_aw_ready), .mem_axi4_0_aw_valid(mem_aw_valid),
        .mem_axi4_0_aw_bits_id(mem_aw_id), .mem_axi4_0_aw_bits_addr(mem_aw_addr),
        .mem_axi4_0_aw_bits_len(mem_aw_len), .mem_axi4_0_aw_bits_size(mem_aw_size),
        .mem_axi4_0_aw_bits_burst(), .mem_axi4_0_aw_bits_lock(), .mem_axi4_0_aw_bits_cache(),
        .mem_axi4_0_aw_bits_prot(), .mem_axi4_0_aw_bits_qos(),
        .mem_axi4_0_w_ready(mem_w_ready), .mem_axi4_0_w_valid(mem_w_valid),
        .mem_axi4_0_w_bits_data(mem_w_data), .mem_axi4_0_w_bits_strb(mem_w_strb),
        .mem_axi4_0_w_bits_last(mem_w_last),
        .mem_axi4_0_b_ready(mem_b_ready), .mem_axi4_0_b_valid(mem_b_valid),
        .mem_axi4_0_b_bits_id(mem_b_id), .mem_axi4_0_b_bits_resp(2'b0),
        .mem_axi4_0_ar_ready(mem_ar_ready), .mem_axi4_0_ar_valid(mem_ar_valid),
        .mem_axi4_0_ar_bits_id(mem_ar_id), .mem_axi4_0_ar_bits_addr(mem_ar_addr),
        .mem_axi4_0_ar_bits_len(mem_ar_len), .mem_axi4_0_ar_bits_size(mem_ar_size),
        .mem_axi4_0_ar_bits_burst(), .mem_axi4_0_ar_bits_lock(), .mem_axi4_0_ar_bits_cache(),
        .mem_axi4_0_ar_bits_prot(), .mem_axi4_0_ar_bits_qos(),
        .mem_axi4_0_r_ready(mem_r_ready), .mem_axi4_0_r_valid(mem_r_valid),
        .mem_axi4_0_r_bits_id(mem_r_id), .mem_axi4_0_r_bits_data(mem_r_data),
        .mem_axi4_0_r_bits_resp(2'b0), .mem_axi4_0_r_bits_last(mem_r_last),

        .mmio_axi4_0_aw_ready(io_aw_ready), .mmio_axi4_0_aw_valid(io_aw_valid),
        .mmio_axi4_0_aw_bits_id(io_aw_id), .mmio_axi4_0_aw_bits_addr(io_aw_addr[30:0]),
        .mmio_axi4_0_aw_bits_len(io_aw_len), .mmio_axi4_0_aw_bits_size(io_aw_size),
        .mmio_axi4_0_aw_bits_burst(), .mmio_axi4_0_aw_bits_lock(), .mmio_axi4_0_aw_bits_cache(),
        .mmio_axi4_0_aw_bits_prot(), .mmio_axi4_0_aw_bits_qos(),
        .mmio_axi4_0_w_ready(io_w_ready), .mmio_axi4_0_w_valid(io_w_valid),
        .mmio_axi4_0_w_bits_data(io_w_data), .mmio_axi4_0_w_bits_strb(io_w_strb),
        .mmio_axi4_0_w_bits_last(io_w_last),
        .mmio_axi4_0_b_ready(io_b_ready), .mmio_axi4_0_b_valid(io_b_valid),
        .mmio_axi4_0_b_bits_id(io_b_id), .mmio_axi4_0_b_bits_resp(2'b0),
        .mmio_axi4_0_ar_ready(io_ar_ready), .mmio_axi4_0_ar_valid(io_ar_valid),
        .mmio_axi4_0_ar_bits_id(io_ar_id), .mmio_axi4_0_ar_bits_addr(io_ar_addr[30:0]),
        .mmio_axi4_0_ar_bits_len(io_ar_len), .mmio_axi4_0_ar_bits_size(io_ar_size),
        .mmio_axi4_0_ar_bits_burst(), .mmio_axi4_0_ar_bits_lock(), .mmio_axi4_0_ar_bits_cache(),
        .mmio_axi4_0_ar_bits_prot(), .mmio_axi4_0_ar_bits_qos(),
        .mmio_axi4_0_r_ready(io_r_ready), .mmio_axi4_0_r_valid(io_r_valid),
        .mmio_axi4_0_r_bits_id(io_r_id), .mmio_axi4_0_r_bits_data(io_r_data),
        .mmio_axi4_0_r_bits_resp(2'b0), .mmio_axi4_0_r_bits_last(io_r_last),

        .l2_frontend_bus_axi4_0_aw_ready(), .l2_frontend_bus_axi4_0_aw_valid(1'b0),
        .l2_frontend_bus_axi4_0_aw_bits_id(8'b0), .l2_frontend_bus_axi4_0_aw_bits_addr(32'b0),
        .l2_frontend_bus_axi4_0_aw_bits_len(8'b0), .l2_frontend_bus_axi4_0_aw_bits_size(3'b0),
        .l2_frontend_bus_axi4_0_aw_bits_burst(2'b0), .l2_frontend_bus_axi4_0_aw_bits_lock(1'b0),
        .l2_frontend_bus_axi4_0_aw_bits_cache(4'b0), .l2_frontend_bus_axi4_0_aw_bits_prot(3'b0),
        .l2_frontend_bus_axi4_0_aw_bits_qos(4'b0),
        .l2_frontend_bus_axi4_0_w_ready(), .l2_frontend_bus_axi4_0_w_valid(1'b0),
        .l2_frontend_bus_axi4_0_w_bits_data(64'b0), .l2_frontend_bus_axi4_0_w_bits_strb(8'b0),
        .l2_frontend_bus_axi4_0_w_bits_last(1'b0),
        .l2_frontend_bus_axi4_0_b_ready(1'b1), .l2_frontend_bus_axi4_0_b_valid(),
        .l2_frontend_bus_axi4_0_b_bits_id(), .l2_frontend_bus_axi4_0_b_bits_resp(),
        .l2_frontend_bus_axi4_0_ar_ready(), .l2_frontend_bus_axi4_0_ar_valid(1'b0),
        .l2_frontend_bus_axi4_0_ar_bits_id(8'b0), .l2_frontend_bus_axi4_0_ar_bits_addr(32'b0),
        .l2_frontend_bus_axi4_0_ar_bits_len(8'b0), .l2_frontend_bus_axi4_0_ar_bits_size(3'b0),
        .l2_frontend_bus_axi4_0_ar_bits_burst(2'b0), .l2_frontend_bus_axi4_0_ar_bits_lock(1'b0),
        .l2_frontend_bus_axi4_0_ar_bits_cache(4'b0), .l2_frontend_bus_axi4_0_ar_bits_prot(3'b0),
        .l2_frontend_bus_axi4_0_ar_bits_qos(4'b0),
        .l2_frontend_bus_axi4_0_r_ready(1'b1), .l2_frontend_bus_axi4_0_r_valid(),
        .l2_frontend_bus_axi4_0_r_bits_id(), .l2_frontend_bus_axi4_0_r_bits_data(),
        .l2_frontend_bus_axi4_0_r_bits_resp(), .l2_frontend_bus_axi4_0_r_bits_last(),

        .resetctrl_hartIsInReset_0(reset),
`ifdef FOUR_CORES
        .resetctrl_hartIsInReset_1(reset), .resetctrl_hartIsInReset_2(reset), .resetctrl_hartIsInReset_3(reset),
`endif
        .debug_clock(1'b0), .debug_reset(1'b1),
        .debug_clockeddmi_dmi_req_ready(), .debug_clockeddmi_dmi_req_valid(1'b0),
        .debug_clockeddmi_dmi_req_bits_addr(7'b0), .debug_clockeddmi_dmi_req_bits_data(32'b0),
        .debug_clockeddmi_dmi_req_bits_op(2'b0),
        .debug_clockeddmi_dmi_resp_ready(1'b1), .debug_clockeddmi_dmi_resp_valid(),
        .debug_clockeddmi_dmi_resp_bits_data(), .debug_clockeddmi_dmi_resp_bits_resp(),
        .debug_clockeddmi_dmiClock(1'b0), .debug_clockeddmi_dmiReset(1'b1),
        .debug_ndreset(), .debug_dmactive(), .debug_dmactiveAck(1'b0),
        .interrupts(8'b0)
    );

`define CORE dut.tile_prci_domain.tile_reset_domain_tile.core
    assign wb_valid  = `CORE.coreMonitorBundle_valid;
    assign wb_trap   = `CORE.csr_io_trace_0_exception;
    assign wb_writes = `CORE.coreMonitorBundle_wrenx;
    assign wb_rd     = `CORE.wb_ctrl_wxd | `CORE.wb_ctrl_wfd ? `CORE.wb_waddr : 5'd0;
    assign wb_word   = `CORE.csr_io_inst_0;
    assign wb_pc     = `CORE.coreMonitorBundle_pc;
    assign wb_value  = `CORE.rf_wdata;
    assign wb_rs1    = `CORE.coreMonitorBundle_rd0val_REG;
    assign wb_rs2    = `CORE.coreMonitorBundle_rd1val_REG;
    assign wb_cause  = `CORE.csr_io_cause;
    assign wb_tval   = {{24{`CORE.csr_io_tval[39]}}, `CORE.csr_io_tval};
endmodule

// Rocket's RTL, with memory and devices behind it that are ours (crates/rtlbus). Arguments: see there.
#include "Vrocket.h"
#include "nagori_rtl.h"

// Messages and waveforms of Verilator would ask for the time; there are none.
double sc_time_stamp() { return 0; }

// Bytes of a beat of the memory port.
#ifndef MEMORY_BYTES
#define MEMORY_BYTES 8
#endif

// A beat is a number in C++ if it has 64 bits, else a list of words of 32 bits.
static uint64_t word(uint64_t data, int i) { return i == 0 ? data : 0; }
template <class Wide> static uint64_t word(const Wide &data, int i)
{
    return data[2 * i] | uint64_t(data[2 * i + 1]) << 32;
}
static void beat(uint64_t &to, const uint64_t *from) { to = from[0]; }
template <class Wide> static void beat(Wide &to, const uint64_t *from)
{
    for (int i = 0; i < 4; i++)
        to[i] = uint32_t(from[i / 2] >> 32 * (i % 2));
}

// Clocks for which reset is held: long enough for every synchroniser.
static const int RESET_CLOCKS = 40;

// The signals of a port have the same names on both sides.
#define SLAVE(port, s)                                                                             \
    m.port##_ar_ready = s.ar_ready, m.port##_aw_ready = s.aw_ready, m.port##_w_ready = s.w_ready;  \
    m.port##_r_valid = s.r_valid, m.port##_r_id = s.r_id, m.port##_r_last = s.r_last;              \
    m.port##_b_valid = s.b_valid, m.port##_b_id = s.b_id, beat(m.port##_r_data, s.r_data)

#define MASTER(port, a)                                                                            \
    a.ar_addr = m.port##_ar_addr, a.aw_addr = m.port##_aw_addr;                                    \
    a.w_data[0] = word(m.port##_w_data, 0), a.w_data[1] = word(m.port##_w_data, 1);                \
    a.ar_valid = m.port##_ar_valid, a.ar_id = m.port##_ar_id, a.ar_len = m.port##_ar_len;          \
    a.ar_size = m.port##_ar_size, a.aw_valid = m.port##_aw_valid, a.aw_id = m.port##_aw_id;        \
    a.aw_len = m.port##_aw_len, a.aw_size = m.port##_aw_size, a.w_valid = m.port##_w_valid;        \
    a.w_strb = m.port##_w_strb, a.w_last = m.port##_w_last, a.r_ready = m.port##_r_ready;          \
    a.b_ready = m.port##_b_ready

int main(int argc, char **argv)
{
    NagoriRtl *rtl = nagori_rtl_create(argc, argv, MEMORY_BYTES);
    if (rtl == nullptr)
        return NAGORI_RTL_USAGE;
    Vrocket m;
    auto edge = [&m] {
        m.clock = 1;
        m.eval();
        m.clock = 0;
    };
    m.clock = 0;
    m.reset = 1;
    for (int i = 0; i < RESET_CLOCKS; i++) {
        m.eval();
        edge();
    }
    m.reset = 0;
    NagoriAxiSlave memory_s, devices_s;
    NagoriAxiMaster memory = {}, devices = {};
    NagoriRtlCommit commit = {};
    // The ports' inputs change with the falling edge; outputs are taken when they have settled, before the rising one.
    while (nagori_rtl_drive(rtl, &memory_s, &devices_s)) {
        SLAVE(mem, memory_s);
        SLAVE(io, devices_s);
        m.eval();
        MASTER(mem, memory);
        MASTER(io, devices);
        commit.valid = m.wb_valid, commit.trap = m.wb_trap;
        if (m.wb_valid || m.wb_trap) {
            commit.pc = m.wb_pc, commit.word = m.wb_word;
            commit.rd = m.wb_rd, commit.writes = m.wb_writes, commit.value = m.wb_value;
            commit.rs1 = m.wb_rs1, commit.rs2 = m.wb_rs2;
            commit.cause = m.wb_cause, commit.tval = m.wb_tval;
        }
        edge();
        nagori_rtl_clock(rtl, &memory, &devices, &commit);
    }
    return nagori_rtl_finish(rtl);
}

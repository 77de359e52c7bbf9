// Rocket's RTL, nvmm_axi_delay and nvmm_bank_controller together: a bare-metal program runs, its data
// pass through the hardware, and what the controller does is written down for nagori-rtlcheck.
//
// rocket --method N [--front] ELF: N is that of the register METHOD. With --front, the delay in front
// of the controller is the coarse method, and the controller has none.
// Lines of the log go to standard output; the cycles of the program's regions to standard error.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <elf.h>
#include <string>
#include <unordered_map>
#include <vector>

#include "Vbench_top.h"
#include "Vrocket.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr uint64_t BASE = 0x80000000u, LINE = 64;
// The core at 50 MHz, the controller at 200 MHz; the bus as [board] of machines/vc707.toml.
constexpr uint64_t CORE_PS = 20000, CLOCK_PS = 5000, RATIO = CORE_PS / CLOCK_PS;
constexpr uint64_t READ_THERE = 85000, READ_BACK = 90000, WRITE_THERE = 101000, WRITE_BACK = 363000;
constexpr int BANK_LOW = 28, ROW_LOW = 13;
constexpr uint64_t FIRST_NVMM = 2;
// The coarse method's delay in clocks.
constexpr unsigned DELAY = 200;
// Where the program ends: the core's map has nothing there, so the store faults.
constexpr uint64_t TEST_DEVICE = 0x100000, STORE_FAULT = 7;
constexpr uint64_t DEVICE_CYCLES = 4;

// The core's memory port has 128 bits.
constexpr unsigned WORDS = 4;
struct Beat {
    uint32_t w[WORDS];
};
struct Line {
    uint8_t b[LINE] = {};
};
struct Address {
    unsigned id, len, size;
    uint64_t addr, at;
};
struct Answer {
    unsigned id;
    uint64_t due;
    std::vector<Beat> data;
    size_t sent = 0;
};

Vrocket core;
Vbench_top top;
std::unordered_map<uint64_t, Line> memory;
std::deque<Address> reads, writes;      // On their way to the controller.
std::deque<std::pair<Beat, uint64_t>> beats; // Data and clock from which they can be offered.
std::deque<uint16_t> strobes;
std::deque<bool> lasts;
std::deque<Address> taken;              // Their data are not complete at the controller.
std::deque<std::pair<Address, uint64_t>> writing[16]; // And with the clock in which they arrived.
std::deque<Answer> r_answers, b_answers;
std::unordered_map<unsigned, std::vector<Beat>> gathering;
std::unordered_map<unsigned, uint64_t> first_beat;
std::deque<Line> to_return;
std::string later[4];
uint64_t entry, clocks, columns;
bool front;

uint64_t up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit; }

void fail(const char *what) {
    fflush(stdout);
    fprintf(stderr, "rocket: %s\n", what);
    exit(2);
}

void load(const char *name) {
    FILE *f = fopen(name, "rb");
    if (!f) fail("the program cannot be opened");
    std::vector<uint8_t> all;
    uint8_t part[65536];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) all.insert(all.end(), part, part + n);
    fclose(f);
    Elf64_Ehdr e;
    if (all.size() < sizeof e) fail("the program is too short");
    memcpy(&e, all.data(), sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG)) fail("the program is no ELF file");
    entry = e.e_entry;
    for (unsigned i = 0; i < e.e_phnum; i++) {
        Elf64_Phdr p;
        uint64_t at = e.e_phoff + i * sizeof p;
        if (at + sizeof p > all.size()) fail("a segment is missing");
        memcpy(&p, &all[at], sizeof p);
        if (p.p_type != PT_LOAD) continue;
        if (p.p_paddr < BASE || p.p_offset + p.p_filesz > all.size()) fail("a segment is outside memory");
        for (uint64_t k = 0; k < p.p_filesz; k++) {
            uint64_t o = p.p_paddr - BASE + k;
            memory[o / LINE].b[o % LINE] = all[p.p_offset + k];
        }
    }
}

// One clock of the controller.
void controller_clock() {
    uint64_t c = clocks;
    top.s_arvalid = !reads.empty() && c + 1 >= reads.front().at;
    if (top.s_arvalid) {
        const Address &a = reads.front();
        top.s_arid = a.id, top.s_araddr = a.addr, top.s_arlen = a.len, top.s_arsize = a.size;
        top.s_arburst = 1;
    }
    // In front of the controller the hold begins with the address; it takes two clocks more to the arrival.
    top.s_awvalid = !writes.empty() && (!front || c + 2 >= writes.front().at);
    if (top.s_awvalid) {
        const Address &a = writes.front();
        top.s_awid = a.id, top.s_awaddr = a.addr, top.s_awlen = a.len, top.s_awsize = a.size;
        top.s_awburst = 1;
    }
    // A write reaches the controller with its last beat, and not before its time.
    top.s_wvalid = !taken.empty() && !beats.empty() && c >= beats.front().second
                   && (!lasts.front() || c + 1 >= taken.front().at);
    if (top.s_wvalid) {
        memcpy(&top.s_wdata[0], beats.front().first.w, sizeof(Beat));
        top.s_wstrb = strobes.front();
        top.s_wlast = lasts.front();
    }
    top.s_rready = top.s_bready = 1;
    top.phy_rd_valid = !to_return.empty();
    if (!to_return.empty()) {
        memcpy(&top.phy_rd_data[0], to_return.front().b, LINE);
        to_return.pop_front();
    }
    top.clk = 0;
    top.eval();

    // Commands were decided in the clock before.
    if (c > 0) {
        uint64_t at = c - 1;
        if (top.phy_ref) printf("f %" PRIu64 "\n", at);
        if (top.phy_rd || top.phy_wr) {
            printf("c %" PRIu64 " %u %u %u\n", at, top.phy_col_bank, top.phy_col_row, top.phy_wr);
            columns++;
            Line &l = memory[(uint64_t(top.phy_col_bank) << BANK_LOW | uint64_t(top.phy_col_row) << ROW_LOW)
                                 / LINE + top.phy_col];
            if (top.phy_wr) {
                for (unsigned i = 0; i < LINE; i++)
                    if (top.phy_wr_strb >> i & 1) l.b[i] = top.phy_wr_data[i / 4] >> (8 * (i % 4));
            } else {
                to_return.push_back(l);
            }
        }
        if (top.phy_pre) printf("p %" PRIu64 " %u\n", at, top.phy_pre_bank);
        if (top.phy_act) printf("a %" PRIu64 " %u %u\n", at, top.phy_act_bank, top.phy_act_row);
        if (top.seen_accept)
            printf("q %" PRIu64 " %u %u %u %u\n", at, top.seen_accept_bank, top.seen_accept_row,
                   top.seen_accept_write, top.seen_accept_hit);
    }
    auto note = [&](const char *kind, uint64_t at, uint64_t addr) {
        char text[64];
        snprintf(text, sizeof text, "%s %" PRIu64 " %" PRIx64 " 64\n", kind, at, (addr - BASE) / LINE * LINE);
        later[at % 4] += text;
    };
    // In front of the controller, the controller's own handshakes count.
    if (top.m_arvalid && top.m_arready) note("R", c + 1, top.m_araddr);
    if (top.s_arvalid && top.s_arready) reads.pop_front();
    if (top.s_wvalid && top.s_wready) {
        bool last = lasts.front();
        beats.pop_front();
        strobes.pop_front();
        lasts.pop_front();
        if (last) {
            note("W", c + 1, taken.front().addr);
            writing[taken.front().id].push_back({taken.front(), c + 1});
            taken.pop_front();
        }
    }
    if (top.s_awvalid && top.s_awready) {
        taken.push_back(writes.front());
        writes.pop_front();
    }
    if (top.s_rvalid) {
        auto &g = gathering[top.s_rid];
        if (g.empty()) first_beat[top.s_rid] = c;
        Beat b;
        memcpy(b.w, &top.s_rdata[0], sizeof b);
        g.push_back(b);
        if (top.s_rlast) {
            uint64_t due = up(first_beat[top.s_rid] * CLOCK_PS + READ_BACK, CORE_PS);
            r_answers.push_back({top.s_rid, due, g});
            g.clear();
        }
    }
    if (top.s_bvalid) {
        // The bus' latency is counted from the address; data that come later take from the way back.
        auto [a, arrived] = writing[top.s_bid].front();
        writing[top.s_bid].pop_front();
        bool held = front && a.addr >= BASE + (FIRST_NVMM << BANK_LOW);
        uint64_t due = a.at + (held ? DELAY : 0);
        uint64_t late = arrived > due ? (arrived - due) * CLOCK_PS : 0;
        uint64_t back = WRITE_BACK > late ? WRITE_BACK - late : 0;
        b_answers.push_back({top.s_bid, up(c * CLOCK_PS + back, CORE_PS), {}});
    }
    if (c > 0) {
        fputs(later[(c - 1) % 4].c_str(), stdout);
        later[(c - 1) % 4].clear();
    }
    top.clk = 1;
    top.eval();
    clocks++;
}

} // namespace

int main(int argc, char **argv) {
    unsigned method = 0;
    const char *name = nullptr;
    uint64_t most = 40000000;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--method") && i + 1 < argc) method = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--cycles") && i + 1 < argc) most = strtoull(argv[++i], nullptr, 0);
        else if (!strcmp(argv[i], "--front")) front = true;
        else name = argv[i];
    }
    if (!name || method > 3) fail("rocket [--method 0..3] [--front] [--cycles N] ELF");
    load(name);
    setvbuf(stdout, nullptr, _IOFBF, 1 << 20);

    // A jump to the program: lui, two shifts, addi, jalr.
    uint32_t rom[16] = {};
    rom[0] = (uint32_t(entry + 0x800) & 0xfffff000) | 5 << 7 | 0x37;
    rom[1] = 0x02029293, rom[2] = 0x0202d293;
    rom[3] = uint32_t(entry & 0xfff) << 20 | 5 << 15 | 5 << 7 | 0x13;
    rom[4] = 5 << 15 | 0x67;

    core.clock = 0;
    core.reset = 1;
    for (int i = 0; i < 40; i++) {
        core.clock = 0;
        core.eval();
        core.clock = 1;
        core.eval();
    }
    core.reset = 0;
    top.rst = 1;
    for (int i = 0; i < 4; i++) {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }
    top.rst = 0;
    printf("N\n");
    // The method is written like any other register; it holds some clocks later.
    top.d_enable = front;
    top.d_nvmm_base = BASE + (FIRST_NVMM << BANK_LOW);
    top.d_read = top.d_write = DELAY;
    bool setting = !front && method != 0;
    top.c_awvalid = top.c_wvalid = setting;
    top.c_awaddr = 0x100;
    top.c_wdata = method;
    top.c_wstrb = 0xff;
    top.c_bready = 1;

    uint64_t cycle = 0, instructions = 0, began = 0;
    std::deque<Answer> io_r, io_b;
    uint64_t io_write = 0;
    unsigned io_id = 0;
    int code = -1;
    while (code < 0 && cycle < most) {
        core.mem_ar_ready = core.mem_aw_ready = 1;
        // The core sends data behind their address.
        core.mem_w_ready = 1;
        core.mem_r_valid = !r_answers.empty() && r_answers.front().due <= cycle;
        if (core.mem_r_valid) {
            const Answer &a = r_answers.front();
            core.mem_r_id = a.id;
            memcpy(&core.mem_r_data[0], a.data[a.sent].w, sizeof(Beat));
            core.mem_r_last = a.sent + 1 == a.data.size();
        }
        core.mem_b_valid = !b_answers.empty() && b_answers.front().due <= cycle;
        if (core.mem_b_valid) core.mem_b_id = b_answers.front().id;
        core.io_ar_ready = core.io_aw_ready = core.io_w_ready = 1;
        core.io_r_valid = !io_r.empty() && io_r.front().due <= cycle;
        if (core.io_r_valid) {
            const Answer &a = io_r.front();
            core.io_r_id = a.id;
            core.io_r_data = a.data[a.sent].w[0] | uint64_t(a.data[a.sent].w[1]) << 32;
            core.io_r_last = a.sent + 1 == a.data.size();
        }
        core.io_b_valid = !io_b.empty() && io_b.front().due <= cycle;
        if (core.io_b_valid) core.io_b_id = io_b.front().id;
        core.clock = 0;
        core.eval();

        if (core.mem_r_valid && core.mem_r_ready && ++r_answers.front().sent == r_answers.front().data.size())
            r_answers.pop_front();
        if (core.mem_b_valid && core.mem_b_ready) b_answers.pop_front();
        if (core.io_r_valid && core.io_r_ready && ++io_r.front().sent == io_r.front().data.size())
            io_r.pop_front();
        if (core.io_b_valid && core.io_b_ready) io_b.pop_front();
        uint64_t now = cycle * CORE_PS;
        if (core.mem_ar_valid)
            reads.push_back({core.mem_ar_id, core.mem_ar_len, core.mem_ar_size, core.mem_ar_addr,
                             up(now + READ_THERE, CLOCK_PS)});
        if (core.mem_aw_valid)
            writes.push_back({core.mem_aw_id, core.mem_aw_len, core.mem_aw_size, core.mem_aw_addr,
                              up(now + WRITE_THERE, CLOCK_PS)});
        if (core.mem_w_valid) {
            Beat b;
            memcpy(b.w, &core.mem_w_data[0], sizeof b);
            beats.push_back({b, clocks + RATIO});
            strobes.push_back(core.mem_w_strb);
            lasts.push_back(core.mem_w_last);
        }
        if (core.io_ar_valid) {
            Answer a{core.io_ar_id, cycle + DEVICE_CYCLES, {}};
            for (unsigned i = 0; i <= core.io_ar_len; i++) {
                unsigned at = core.io_ar_addr % LINE / 8 + i;
                // Lines are the boot ROM's; a single access is the console's, which is always ready.
                if (core.io_ar_len) a.data.push_back({{rom[2 * at % 16], rom[(2 * at + 1) % 16], 0, 0}});
                else a.data.push_back({{0, 0x6000, 0, 0}});
            }
            io_r.push_back(a);
        }
        if (core.io_aw_valid) io_write = core.io_aw_addr, io_id = core.io_aw_id;
        if (core.io_w_valid && core.io_w_last) {
            if (io_write == 0x10000000) fputc(int(core.io_w_data & 0xff), stderr);
            io_b.push_back({io_id, cycle + DEVICE_CYCLES, {}});
        }
        if (core.wb_valid) {
            // Labels (docs/markers.md): slti x0, rs1, 0x4e5; x0 ends a region.
            if ((core.wb_word & 0xfff07fff) == 0x4e502013) {
                bool ends = (core.wb_word >> 15 & 31) == 0;
                if (ends) fprintf(stderr, "region %" PRIu64 "\n", cycle - began);
                else began = cycle;
            }
            instructions++;
        } else if (core.wb_trap && core.wb_cause == STORE_FAULT && core.wb_tval == TEST_DEVICE) {
            uint32_t v = core.wb_rs2;
            code = (v & 0xffff) == 0x5555 ? 0 : (v & 0xffff) == 0x3333 ? int(v >> 16) : 99;
        }
        for (uint64_t i = 0; i < RATIO; i++) {
            controller_clock();
            if (setting && top.c_bvalid) {
                top.c_awvalid = top.c_wvalid = 0;
                setting = false;
                printf("S %" PRIu64 " 100 %x ff\n", clocks, method);
            }
            // Both halves of the write are taken in the first clock.
            if (clocks > 0) top.c_awvalid = top.c_wvalid = 0;
        }
        core.clock = 1;
        core.eval();
        cycle++;
    }
    printf("E %" PRIu64 "\n", clocks - 1);
    fflush(stdout);
    fprintf(stderr, "cycles %" PRIu64 " instructions %" PRIu64 " lines %" PRIu64 " exit %d\n", cycle,
            instructions, columns, code);
    return code < 0 ? 124 : code;
}

// Drives nvmm_axi_delay and nvmm_bank_controller with random or recorded traffic, plays the memory
// behind them, checks the data, and writes what happened to standard output, for nagori-rtlcheck
// to compare with the model. `bench --help` explains the options; docs/rtl.md the lines.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "Vbench_top.h"
#include "verilated.h"

namespace {

constexpr uint64_t BASE = 0x80000000u;
constexpr unsigned LINE = 64, WORD = 8;
constexpr int BANK_LOW = 29, ROW_LOW = 13;
constexpr int IDS = 4;

struct Random {
    uint64_t s;
    uint64_t next() {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        return s * 0x2545f4914f6cdd1dull >> 11;
    }
    uint64_t below(uint64_t n) { return n ? next() % n : 0; }
    bool chance(unsigned per1024) { return below(1024) < per1024; }
    template <size_t N> uint64_t of(const uint64_t (&a)[N]) { return a[below(N)]; }
};

struct Line {
    uint8_t b[LINE] = {};
};
using Memory = std::unordered_map<uint64_t, Line>;

struct Burst {
    unsigned id, len, size, type;
    uint64_t addr;          // Offset in the memory.
    std::vector<uint64_t> data;
    std::vector<uint8_t> strb;
    uint64_t line() const { return addr / LINE; }
    uint64_t bytes() const { return uint64_t(len + 1) << size; }
    // Offset in its line of a beat, by the rules of AXI.
    unsigned beat(unsigned n) const {
        unsigned step = 1u << size, total = (len + 1) * step;
        unsigned at = addr % LINE;
        if (n == 0) return at;
        if (type == 2) {
            unsigned low = at & ~(total - 1);
            return low + ((at + n * step) & (total - 1));
        }
        return (at & ~(step - 1)) + n * step;
    }
};

struct Request {
    unsigned gap;
    bool write;
    uint64_t addr;
};

// What traffic is like for a while.
struct Phase {
    unsigned read, write, rready, bready, wvalid, narrow, setting, reading;
    uint64_t banks[8];
    unsigned bank_count, rows, lines;
    bool alone;
};

struct Options {
    uint64_t clocks = 300000, seed = 1;
    std::vector<Request> trace;
};

class Bench {
  public:
    Bench(const Options &o) : options(o), rng{o.seed * 0x9e3779b97f4a7c15ull + 1} {}
    int run();

  private:
    const Options &options;
    Random rng;
    Vbench_top top;
    Memory memory, golden;
    Phase phase{};
    uint64_t total = 0, clock = 0, epoch_end = 0, phase_end = 0, quiet_since = 0;
    bool front = false, front_writes = false;
    unsigned front_delay = 0;
    size_t trace_at = 0;
    unsigned trace_gap = 0;
    std::string stimuli[4];

    // Requests at the port.
    std::unique_ptr<Burst> ar, aw;
    bool ar_shown = false, aw_shown = false;
    size_t w_beat = 0;
    bool w_offered = false;
    std::deque<Burst> w_queue;      // AW is offered or taken, W is not complete.
    std::deque<Burst> answers[IDS]; // Reads that are owed.
    size_t r_beat[IDS] = {};
    std::deque<Burst> responses[IDS];
    std::unordered_map<uint64_t, int> readers, writers;
    unsigned under_way = 0;
    bool lonely = false;            // The request under way has the controller to itself.
    // The memory's side.
    int64_t open_row[8];
    std::deque<Line> to_return;
    // The control port.
    bool c_write = false, c_read = false, c_aw_done = false, c_w_done = false, c_seen = false;
    bool c_r_pending = false;
    uint64_t c_offset = 0, c_value = 0, c_read_offset = 0;
    unsigned c_strb = 0;

    uint64_t beats = 0, reads_done = 0, writes_done = 0, resets = 0;

    [[noreturn]] void fail(const char *what) {
        fflush(stdout);
        fprintf(stderr, "bench: clock %" PRIu64 " (in all %" PRIu64 "): %s\n", clock, total, what);
        exit(1);
    }
    void expect(bool good, const char *what) {
        if (!good) fail(what);
    }
    void note(uint64_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
    void begin_epoch();
    void choose_phase();
    void reset();
    Burst make(bool write, uint64_t addr);
    void new_requests();
    void settings();
    void cycle();
    void commands();
    void channels();
    void control();
    void drive();
};

void Bench::note(uint64_t at, const char *format, ...) {
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stimuli[at % 4] += text;
}

void Bench::choose_phase() {
    static const uint64_t rates[] = {0, 8, 60, 250, 1024};
    static const uint64_t readiness[] = {1024, 1024, 900, 300, 40};
    phase.read = rng.of(rates);
    phase.write = rng.of(rates);
    phase.rready = rng.of(readiness);
    phase.bready = rng.of(readiness);
    phase.wvalid = rng.chance(512) ? 1024 : 400;
    static const uint64_t narrow[] = {0, 100, 1024};
    phase.narrow = rng.of(narrow);
    static const uint64_t setting[] = {0, 2, 20, 200};
    phase.setting = rng.of(setting);
    phase.reading = rng.of(setting);
    phase.bank_count = 1 + rng.below(8);
    for (auto &b : phase.banks) b = rng.below(8);
    phase.rows = 1 + rng.below(4);
    phase.lines = 1 + rng.below(16);
    phase.alone = rng.chance(200);
    if (phase.alone) phase.rready = phase.bready = 1024;
    if (front) {
        // Behind the delay the comparison holds for one kind of request at a time, all to NVMM.
        front_writes = rng.chance(512);
        phase.read = front_writes ? 0 : 1024;
        phase.write = front_writes ? 1024 : 0;
        phase.narrow = front_writes ? 1024 : phase.narrow;
        phase.wvalid = 1024;
        phase.rready = phase.bready = 1024;
        phase.setting = phase.reading = 0;
        phase.alone = false;
        for (auto &b : phase.banks) b = 2 + rng.below(6);
    }
    if (!options.trace.empty()) {
        phase.alone = phase.setting > 20;
        if (phase.alone) phase.rready = phase.bready = 1024;
        if (phase.setting > 20) phase.setting = 2;
    }
    phase_end = clock + (front ? 1000000 : 500 + rng.below(6000));
}

void Bench::begin_epoch() {
    epoch_end = clock + 2000 + rng.below(rng.chance(200) ? 300 : 60000);
    front = options.trace.empty() && rng.chance(150);
    front_delay = 40 + rng.below(200);
    choose_phase();
    top.d_enable = front;
    top.d_nvmm_base = BASE + (2ull << BANK_LOW);
    top.d_read = top.d_write = front_delay;
    if (front) {
        note(0, "S 0 100 1 ff\nS 0 120 %x ff\nS 0 128 %x ff\n", front_delay, front_delay);
    }
}

void Bench::reset() {
    top.rst = 1;
    top.s_arvalid = top.s_awvalid = top.s_wvalid = top.c_arvalid = top.c_awvalid = 0;
    top.c_wvalid = top.phy_rd_valid = 0;
    for (int n = 1 + rng.below(4); n > 0; n--) {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }
    top.rst = 0;
    ar.reset();
    aw.reset();
    ar_shown = aw_shown = false;
    w_beat = 0;
    w_offered = false;
    w_queue.clear();
    for (int i = 0; i < IDS; i++) {
        answers[i].clear();
        responses[i].clear();
        r_beat[i] = 0;
    }
    readers.clear();
    writers.clear();
    under_way = 0;
    for (auto &r : open_row) r = -1;
    to_return.clear();
    c_write = c_read = c_aw_done = c_w_done = c_seen = c_r_pending = false;
    // Writes that were under way may or may not have reached the memory.
    golden = memory;
    clock = 0;
    quiet_since = 0;
    for (auto &s : stimuli) s.clear();
    begin_epoch();
}

Burst Bench::make(bool write, uint64_t addr) {
    Burst b;
    b.id = rng.below(IDS);
    if (rng.chance(phase.narrow)) {
        b.size = front && write ? 3 : rng.below(4);
        unsigned most = LINE >> b.size;
        b.type = rng.below(2) ? 1 : 2;
        if (front && write) {
            b.len = 0;
            b.type = 1;
        } else if (b.type == 2) {
            static const uint64_t wraps[] = {2, 4, 8, 16};
            unsigned n = rng.of(wraps);
            while (n > most || n < 2) n /= 2;
            if (n < 2) n = 2;
            b.len = n - 1;
        } else {
            b.len = rng.below(most);
        }
        unsigned bytes = (b.len + 1) << b.size;
        unsigned at = b.type == 2 ? (rng.below(LINE) >> b.size) << b.size
                                  : rng.below((LINE - bytes) / (1u << b.size) + 1) << b.size;
        // INCR may begin within its first beat.
        if (b.type == 1) at += rng.below(1u << b.size);
        b.addr = addr / LINE * LINE + at;
    } else {
        b.size = 3;
        b.len = 7;
        b.type = rng.chance(300) ? 2 : 1;
        b.addr = addr / LINE * LINE + (b.type == 2 ? rng.below(8) * 8 : 0);
    }
    if (write) {
        for (unsigned i = 0; i <= b.len; i++) {
            uint64_t data = rng.next() | rng.next() << 40;
            unsigned at = b.beat(i), step = 1u << b.size;
            unsigned low = at % WORD, high = (at & ~(step - 1)) % WORD + step;
            uint8_t lanes = uint8_t((1u << high) - (1u << low));
            if (rng.chance(100)) lanes &= rng.next();
            b.data.push_back(data);
            b.strb.push_back(lanes);
            Line &line = golden[b.line()];
            for (unsigned k = 0; k < WORD; k++)
                if (lanes >> k & 1) line.b[at / WORD * WORD + k] = data >> (8 * k);
        }
    }
    return b;
}

void Bench::new_requests() {
    if (clock >= epoch_end) return;
    auto random_addr = [&] {
        uint64_t bank = phase.banks[rng.below(phase.bank_count)];
        return bank << BANK_LOW | rng.below(phase.rows) << ROW_LOW | rng.below(phase.lines) * LINE;
    };
    auto start = [&](bool write, uint64_t addr) {
        if (phase.alone && under_way) return false;
        uint64_t line = addr / LINE;
        if (write ? bool(aw) : bool(ar)) return false;
        // Order between reads and writes of one line is the master's business.
        if (writers[line] || (write && readers[line])) return false;
        (write ? aw : ar) = std::make_unique<Burst>(make(write, addr));
        (write ? writers : readers)[line]++;
        lonely = phase.alone;
        under_way++;
        return true;
    };
    if (!options.trace.empty()) {
        if (trace_gap) {
            trace_gap--;
            return;
        }
        const Request &r = options.trace[trace_at];
        if (start(r.write, r.addr)) {
            trace_at = (trace_at + 1) % options.trace.size();
            trace_gap = options.trace[trace_at].gap;
        }
        return;
    }
    if (rng.chance(phase.read)) start(false, random_addr());
    if (rng.chance(phase.write)) start(true, random_addr());
}

void Bench::settings() {
    if (!c_write && rng.chance(phase.setting)) {
        c_write = true;
        c_aw_done = c_w_done = c_seen = false;
        c_strb = rng.chance(900) ? 0xff : rng.chance(700) ? 0x0f : rng.chance(700) ? 0xf0 : 0x3c;
        static const uint64_t delays[] = {0, 1, 2, 7, 20, 60, 200, 1400};
        static const uint64_t bounds[] = {2000000, 2000001, 1000000, 1000001, ~0ull, 1ull << 32};
        switch (rng.below(12)) {
        case 0: case 1:
            c_offset = 0x100;
            c_value = rng.below(rng.chance(50) ? 6 : 4);
            break;
        case 2: case 3: case 4:
            c_offset = 0x120 + 8 * rng.below(5);
            c_value = rng.of(delays);
            break;
        case 5: case 6: {
            static const uint64_t usual[] = {5, 8, 7, 3, 3, 4};
            unsigned n = rng.below(6);
            c_offset = 0x180 + 8 * n;
            c_value = rng.chance(500) ? usual[n] : 1 + rng.below(rng.chance(60) ? 80 : 12);
            break;
        }
        case 7: {
            static const uint64_t intervals[] = {60, 61, 67, 90, 128, 200, 400, 1480};
            c_offset = 0x1b0;
            c_value = rng.of(intervals);
            break;
        }
        case 8:
            c_offset = 0x1b8;
            c_value = rng.chance(500) ? 52 : 1 + rng.below(60);
            break;
        case 9:
            c_offset = 0x110;
            c_value = BASE + (rng.below(9) << BANK_LOW) + (rng.chance(50) ? 4096 : 0);
            if (rng.chance(40)) c_value = rng.below(2) ? 0 : BASE + (9ull << BANK_LOW);
            break;
        case 10: {
            static const uint64_t others[] = {0x10, 0x200, 0x208, 0x108, 0x208, 0x200};
            c_offset = rng.of(others);
            c_value = rng.chance(900) ? 1 : rng.below(4);
            break;
        }
        default:
            // Anything, and values at the limits.
            if (rng.chance(512)) {
                c_offset = rng.below(0x9000 / 8) * 8;
                c_value = rng.next();
            } else {
                c_offset = rng.chance(512) ? 0x120 + 8 * rng.below(5) : 0x180 + 8 * rng.below(8);
                c_value = rng.of(bounds);
                // Not in force for long: an accepted one would stop the traffic.
                if (c_value <= 2000000) c_value += 2000001;
            }
            // Boundaries of regions and switches of the method have their own cases.
            if (c_offset == 0x118) c_value = 1;
        }
        if (c_strb == 0xf0 && rng.chance(512)) c_value <<= 32;
    }
    if (!c_read && rng.chance(phase.reading)) {
        c_read = true;
        switch (rng.below(4)) {
        case 0: c_read_offset = rng.below(0x260 / 8) * 8; break;
        case 1: c_read_offset = 0x1000 + rng.below(2) * 0x100 + rng.below(11) * 8; break;
        case 2: c_read_offset = 0x2000 + rng.below(16) * 0x100 + rng.below(11) * 8; break;
        default: c_read_offset = rng.below(0x10000 / 8) * 8;
        }
    }
}

void Bench::commands() {
    if (clock == 0) return;
    uint64_t at = clock - 1;
    if (top.phy_ref) {
        printf("f %" PRIu64 "\n", at);
        for (int64_t row : open_row) expect(row < 0, "a refresh with an open row");
    }
    if (top.phy_rd || top.phy_wr) {
        printf("c %" PRIu64 " %u %u %u\n", at, top.phy_col_bank, top.phy_col_row, top.phy_wr);
        expect(open_row[top.phy_col_bank] == top.phy_col_row, "a column of a row that is not open");
        uint64_t line = (uint64_t(top.phy_col_bank) << BANK_LOW | uint64_t(top.phy_col_row) << ROW_LOW)
                            / LINE + top.phy_col;
        Line &l = memory[line];
        if (top.phy_wr) {
            for (unsigned i = 0; i < LINE; i++)
                if (top.phy_wr_strb >> i & 1) l.b[i] = top.phy_wr_data[i / 4] >> (8 * (i % 4));
        } else {
            to_return.push_back(l);
        }
    }
    if (top.phy_pre) {
        printf("p %" PRIu64 " %u\n", at, top.phy_pre_bank);
        expect(open_row[top.phy_pre_bank] >= 0, "a precharge of a closed bank");
        open_row[top.phy_pre_bank] = -1;
    }
    if (top.phy_act) {
        printf("a %" PRIu64 " %u %u\n", at, top.phy_act_bank, top.phy_act_row);
        expect(open_row[top.phy_act_bank] < 0, "an activation of an open bank");
        open_row[top.phy_act_bank] = top.phy_act_row;
    }
    if (top.seen_accept) {
        printf("q %" PRIu64 " %u %u %u %u\n", at, top.seen_accept_bank, top.seen_accept_row,
               top.seen_accept_write, top.seen_accept_hit);
    }
}

void Bench::channels() {
    bool moved = false;
    w_offered = top.s_wvalid && !top.s_wready;
    if (top.s_arvalid && !ar_shown) {
        ar_shown = true;
        if (front)
            note(clock + 1, "R %" PRIu64 " %" PRIx64 " %" PRIu64 "\n", clock + 1, ar->line() * LINE,
                 ar->bytes());
    }
    if (top.s_arvalid && top.s_arready) {
        if (!front)
            note(clock + 1, "R %" PRIu64 " %" PRIx64 " %" PRIu64 "\n", clock + 1, ar->line() * LINE,
                 ar->bytes());
        answers[ar->id].push_back(std::move(*ar));
        ar.reset();
        ar_shown = false;
        moved = true;
    }
    if (top.s_awvalid && !aw_shown) {
        aw_shown = true;
        w_queue.push_back(*aw);
        if (front)
            note(clock + 2, "W %" PRIu64 " %" PRIx64 " %" PRIu64 "\n", clock + 2, aw->line() * LINE,
                 aw->bytes());
    }
    if (top.s_awvalid && top.s_awready) {
        responses[aw->id].push_back(*aw);
        aw.reset();
        aw_shown = false;
        moved = true;
    }
    if (top.s_wvalid && top.s_wready) {
        w_beat++;
        moved = true;
        if (w_beat > w_queue.front().len) {
            const Burst &b = w_queue.front();
            if (!front)
                note(clock + 1, "W %" PRIu64 " %" PRIx64 " %" PRIu64 "\n", clock + 1, b.line() * LINE,
                     b.bytes());
            w_queue.pop_front();
            w_beat = 0;
        }
    }
    if (top.s_bvalid && top.s_bready) {
        auto &q = responses[top.s_bid];
        expect(!q.empty(), "a response that nobody waits for");
        expect(top.s_bresp == 0, "a write was refused");
        if (lonely) note(clock, "d %" PRIu64 " W\n", clock);
        writers[q.front().line()]--;
        q.pop_front();
        under_way--;
        writes_done++;
        moved = true;
    }
    if (top.s_rvalid && top.s_rready) {
        unsigned id = top.s_rid;
        expect(!answers[id].empty(), "data that nobody waits for");
        Burst &b = answers[id].front();
        expect(top.s_rresp == 0, "a read was refused");
        const Line &line = golden[b.line()];
        unsigned at = b.beat(r_beat[id]), step = 1u << b.size;
        unsigned high = (at & ~(step - 1)) + step;
        for (unsigned i = at; i < high; i++)
            expect(uint8_t(top.s_rdata >> (8 * (i % WORD))) == line.b[i], "wrong data");
        expect(top.s_rlast == (r_beat[id] == b.len), "rlast");
        if (r_beat[id] == 0 && lonely) note(clock, "d %" PRIu64 " R\n", clock);
        beats++;
        moved = true;
        if (r_beat[id]++ == b.len) {
            readers[b.line()]--;
            answers[id].pop_front();
            r_beat[id] = 0;
            under_way--;
            reads_done++;
        }
    }
    if (moved || under_way == 0) quiet_since = clock;
    expect(clock - quiet_since < 100000, "no progress for 100000 clocks");
}

void Bench::control() {
    if (top.c_awvalid && top.c_awready) c_aw_done = true;
    if (top.c_wvalid && top.c_wready) c_w_done = true;
    if (top.c_bvalid && !c_seen) {
        c_seen = true;
        expect(c_write && c_aw_done && c_w_done, "a response of the control block for nothing");
        bool halves = c_strb == 0xff || c_strb == 0x0f || c_strb == 0xf0;
        expect((top.c_bresp == 0) == halves, "response of the control block");
        if (halves)
            note(clock, "S %" PRIu64 " %" PRIx64 " %" PRIx64 " %x\n", clock, c_offset, c_value, c_strb);
    }
    if (top.c_bvalid && top.c_bready) c_write = false;
    if (c_r_pending) {
        expect(top.c_rvalid && top.c_rresp == 0, "the control block does not answer");
        // Shows the clock of the address.
        note(clock - 1, "G %" PRIu64 " %" PRIx64 " %" PRIx64 "\n", clock - 1, c_read_offset,
             uint64_t(top.c_rdata));
        c_r_pending = false;
    }
    if (top.c_arvalid && top.c_arready) c_r_pending = true;
    if (top.c_rvalid && top.c_rready) c_read = false;
}

// Inputs of the next clock.
void Bench::drive() {
    top.s_arvalid = ar ? 1 : 0;
    if (ar) {
        top.s_arid = ar->id;
        top.s_araddr = BASE + ar->addr;
        top.s_arlen = ar->len;
        top.s_arsize = ar->size;
        top.s_arburst = ar->type;
    }
    top.s_awvalid = aw ? 1 : 0;
    if (aw) {
        top.s_awid = aw->id;
        top.s_awaddr = BASE + aw->addr;
        top.s_awlen = aw->len;
        top.s_awsize = aw->size;
        top.s_awburst = aw->type;
    }
    // Data are offered from the clock of their address on; an offer stays.
    bool next = aw && !aw_shown && w_queue.empty();
    if (!w_queue.empty() || next) {
        const Burst &b = next ? *aw : w_queue.front();
        top.s_wvalid = w_offered || rng.chance(phase.wvalid);
        top.s_wdata = b.data[w_beat];
        top.s_wstrb = b.strb[w_beat];
        top.s_wlast = w_beat == b.len;
    } else {
        top.s_wvalid = 0;
    }
    top.s_rready = rng.chance(phase.rready);
    top.s_bready = rng.chance(phase.bready);
    top.phy_rd_valid = !to_return.empty();
    if (!to_return.empty()) {
        memcpy(&top.phy_rd_data[0], to_return.front().b, LINE);
        to_return.pop_front();
    }
    top.c_awvalid = c_write && !c_aw_done && (top.c_awvalid || rng.chance(600));
    top.c_wvalid = c_write && !c_w_done && (top.c_wvalid || rng.chance(600));
    top.c_awaddr = c_offset;
    top.c_wdata = c_value;
    top.c_wstrb = c_strb;
    top.c_bready = rng.chance(600);
    top.c_arvalid = c_read && !c_r_pending && !top.c_rvalid;
    top.c_araddr = c_read_offset;
    top.c_rready = rng.chance(600);
}

void Bench::cycle() {
    top.clk = 0;
    top.eval();
    commands();
    channels();
    control();
    if (clock > 0) {
        std::string &s = stimuli[(clock - 1) % 4];
        fputs(s.c_str(), stdout);
        s.clear();
    }
    // Traffic may change at any moment, but a request that is alone stays so.
    if (clock >= phase_end && (!lonely || under_way == 0)) choose_phase();
    new_requests();
    settings();
    top.clk = 1;
    top.eval();
    drive();
    clock++;
    total++;
}

int Bench::run() {
    setvbuf(stdout, nullptr, _IOFBF, 1 << 20);
    top.rst = 1;
    reset();
    printf("N\n");
    drive();
    while (total < options.clocks) {
        cycle();
        if (clock > epoch_end) {
            // What is under way is lost.
            printf("E %" PRIu64 "\n", clock - 1);
            reset();
            resets++;
            printf("N\n");
            drive();
        }
    }
    printf("E %" PRIu64 "\n", clock - 1);
    fflush(stdout);
    top.final();
    fprintf(stderr,
            "bench: %" PRIu64 " clocks, %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64 " resets in flight\n",
            total, reads_done, writes_done, resets);
    return 0;
}

std::vector<Request> read_trace(const char *name) {
    FILE *f = fopen(name, "r");
    if (!f) {
        perror(name);
        exit(2);
    }
    std::vector<Request> all;
    unsigned gap;
    char kind;
    uint64_t addr;
    while (fscanf(f, "%u %c %" SCNx64, &gap, &kind, &addr) == 3)
        all.push_back({gap, kind == 'W', addr});
    bool whole = feof(f);
    fclose(f);
    if (!whole || all.empty()) {
        fprintf(stderr, "%s: not lines of gap, R or W, address\n", name);
        exit(2);
    }
    return all;
}

} // namespace

int main(int argc, char **argv) {
    Options o;
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        const char *v = i + 1 < argc ? argv[++i] : nullptr;
        if (a == "--clocks" && v) o.clocks = strtoull(v, nullptr, 0);
        else if (a == "--seed" && v) o.seed = strtoull(v, nullptr, 0);
        else if (a == "--trace" && v) o.trace = read_trace(v);
        else {
            fprintf(stderr, "bench [--clocks N] [--seed N] [--trace FILE]\n"
                            "FILE has lines `gap R|W address`: clocks to wait, kind, offset in hex\n");
            return 2;
        }
    }
    Bench b(o);
    return b.run();
}

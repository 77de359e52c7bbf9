// Bursts that the controller does not serve: each is answered, in order, with an error, and the
// memory sees none of them. The random testbench has only bursts that are served.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "Vbench_top.h"
#include "verilated.h"

namespace {

Vbench_top top;
unsigned long clocks, columns;

void cycle() {
    top.clk = 1;
    top.eval();
    top.clk = 0;
    top.eval();
    clocks++;
    if (top.phy_rd || top.phy_wr) columns++;
    if (clocks > 100000) {
        fprintf(stderr, "refusals: no answer\n");
        exit(1);
    }
}

void expect(bool good, const char *what, const char *name) {
    if (!good) {
        fprintf(stderr, "refusals: %s: %s\n", name, what);
        exit(1);
    }
}

struct Case {
    const char *name;
    unsigned long addr;
    unsigned len, size, type;
    bool bad;
};

const Case CASES[] = {
    {"a line", 0x80000000, 7, 3, 1, false},
    {"a line that wraps", 0x80000038, 7, 3, 2, false},
    {"the last bytes of a line", 0x8000003e, 0, 1, 1, false},
    {"two lines", 0x80000000, 15, 3, 1, true},
    {"across the end of a line", 0x80000020, 7, 3, 1, true},
    {"256 beats", 0x80000000, 255, 3, 1, true},
    {"256 narrow beats", 0x80000000, 255, 0, 1, true},
    {"beats wider than the bus", 0x80000000, 0, 4, 1, true},
    {"FIXED", 0x80000000, 3, 3, 0, true},
    {"FIXED of one beat", 0x80000000, 0, 3, 0, false},
    {"reserved type", 0x80000000, 0, 3, 3, true},
    {"below the memory", 0x7fffffc0, 7, 3, 1, true},
    {"above the memory", 0x180000000, 7, 3, 1, true},
    {"the last line of the memory", 0x17fffffc0, 7, 3, 1, false},
};

void address(bool write, const Case &c) {
    if (write) {
        top.s_awvalid = 1;
        top.s_awaddr = c.addr;
        top.s_awlen = c.len;
        top.s_awsize = c.size;
        top.s_awburst = c.type;
        top.eval();
        while (!top.s_awready) cycle();
        cycle();
        top.s_awvalid = 0;
        for (unsigned i = 0; i <= c.len; i++) {
            top.s_wvalid = 1;
            top.s_wdata = 0x0101010101010101ull * (i + 1);
            top.s_wstrb = 0xff;
            top.s_wlast = i == c.len;
            top.eval();
            while (!top.s_wready) cycle();
            cycle();
        }
        top.s_wvalid = 0;
    } else {
        top.s_arvalid = 1;
        top.s_araddr = c.addr;
        top.s_arlen = c.len;
        top.s_arsize = c.size;
        top.s_arburst = c.type;
        top.eval();
        while (!top.s_arready) cycle();
        cycle();
        top.s_arvalid = 0;
    }
}

} // namespace

int main() {
    memset(&top.phy_rd_data[0], 0, 64);
    top.rst = 1;
    cycle();
    cycle();
    top.rst = 0;
    cycle();
    for (bool write : {false, true}) {
        for (const Case &c : CASES) {
            // A request that is served in front of it, with the same ID: answers keep their order.
            const Case good = {"in front", 0x80000040, 0, 3, 1, false};
            unsigned long before = columns;
            top.s_rready = top.s_bready = 0;
            unsigned beats = 0;
            std::vector<unsigned> resps;
            address(write, good);
            address(write, c);
            top.s_rready = top.s_bready = 1;
            unsigned owed = 2;
            bool returns = false;
            top.eval();
            while (owed) {
                if (top.phy_rd) returns = true;
                if (write && top.s_bvalid) {
                    resps.push_back(top.s_bresp);
                    owed--;
                }
                if (!write && top.s_rvalid) {
                    beats++;
                    if (top.s_rlast) {
                        resps.push_back(top.s_rresp);
                        owed--;
                    }
                }
                cycle();
                // The memory answers a read in the clock after its command.
                top.phy_rd_valid = returns;
                returns = false;
                top.eval();
            }
            top.phy_rd_valid = 0;
            for (int i = 0; i < 60; i++) cycle();
            expect(resps.size() == 2 && resps[0] == 0, "the request in front", c.name);
            expect(resps[1] == (c.bad ? 2u : 0u), "response", c.name);
            expect(write || beats == c.len + 2, "number of beats", c.name);
            expect(columns - before == (c.bad ? 1u : 2u), "commands", c.name);
        }
    }
    top.final();
    printf("refusals: %zu bursts read and written\n", sizeof CASES / sizeof *CASES);
    return 0;
}

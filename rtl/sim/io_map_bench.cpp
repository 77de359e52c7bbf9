// Random writes to and lookups in tables of each kind, written to standard output for
// nagori-rtlcheck: `io_map_bench --operations N --seed N`.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "Vio_map_top.h"
#include "verilated.h"

namespace {

uint64_t state = 1;
uint64_t below(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state * 0x2545f4914f6cdd1dull >> 11) % n;
}

// The entries of the constant table in io_map_top.
const uint32_t CONSTANT[8][5] = {
    {0, 0x00, 0x80000000, 3, 3}, {0, 0x10, 0x80000010, 4, 1}, {0, 0x60, 0x90000000, 5, 3},
    {1, 0x20, 0x00, 2, 1},       {1, 0x24, 0x10, 2, 3},       {2, 0x00, 0x00, 6, 3},
    {2, 0x40, 0x20, 5, 2},       {3, 0x00, 0x40, 4, 0},
};

Vio_map_top top;

void edge() {
    top.clk = 1;
    top.eval();
    top.clk = 0;
    top.eval();
}

void run(unsigned which, uint64_t operations) {
    const char *names = "CFSLIR";
    printf("N %c 8\n", names[which]);
    top.which = which;
    top.rst = 1;
    top.valid = top.put = 0;
    top.clk = 0;
    top.eval();
    edge();
    top.rst = 0;
    if (which == 0)
        for (auto &e : CONSTANT) printf("K %x %x %x %x %x\n", e[0], e[1], e[2], e[3], e[4]);
    for (uint64_t n = 0; n < operations; n++) {
        top.valid = top.put = 0;
        unsigned what = below(16);
        if (what < 4) {
            // Mostly entries that are possible, some at the limits.
            unsigned size = below(20) ? 2 + below(5) : below(32);
            bool choose = which >= 3, empties = below(6) == 0;
            if (below(40) == 0) choose = !choose;
            if (empties) choose = false;
            uint32_t mask = below(12) ? ~((1u << size) - 1) : ~0u;
            top.put = 1;
            top.put_valid = !empties;
            top.put_choose = choose;
            top.put_place = below(8);
            top.put_vm = below(4);
            top.put_from = below(0x100) & mask;
            top.put_to = uint32_t(below(0x10000)) & mask;
            top.put_size = size;
            top.put_read = below(4) != 0;
            top.put_write = below(3) != 0;
            top.eval();
            unsigned rights = top.put_read | top.put_write << 1;
            if (choose)
                printf("F %x %x %x %x %x %x %x\n", top.put_vm, top.put_from, top.put_to, size, rights,
                       top.put_done, top.put_at);
            else
                printf("P %x %x %x %x %x %x %x %x\n", top.put_place, top.put_valid, top.put_vm,
                       top.put_from, top.put_to, size, rights, top.put_done);
            edge();
        } else if (what < 14) {
            top.valid = 1;
            top.vm = below(4);
            top.addr = below(0x104);
            if (below(30) == 0) top.addr = below(1ull << 32);
            top.write = below(2);
            top.eval();
            if (which == 2) {
                // This one answers in the next clock.
                edge();
                top.valid = 0;
                top.eval();
            }
            unsigned kinds = top.hit + top.denied + top.miss;
            if (!top.answer || kinds != 1) {
                fprintf(stderr, "io_map_bench: not one answer\n");
                exit(1);
            }
            printf("L %x %x %x %x %x\n", top.vm, top.addr, top.write,
                   top.hit ? 1 : top.denied ? 2 : 0, top.to);
            if (which != 2) edge();
        } else if (what == 14) {
            printf("M %x %x %x\n", top.misses, top.miss_vm, top.miss_addr);
            edge();
        } else {
            top.count_place = below(8);
            top.eval();
            printf("H %x %x %x\n", top.count_place, top.count_hits, top.count_denied);
            edge();
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    uint64_t operations = 100000, seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--operations")) operations = strtoull(argv[i + 1], nullptr, 0);
        else if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], nullptr, 0);
    }
    state = seed * 0x9e3779b97f4a7c15ull + 1;
    // Short runs, so that tables are often only half full.
    uint64_t done = 0;
    for (unsigned r = 0; done < operations; r++) {
        uint64_t n = r % 12 < 6 ? 60 : 2000;
        run(r % 6, n);
        done += n;
    }
    fflush(stdout);
    return 0;
}

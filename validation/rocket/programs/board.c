// The loops of the board's benchmarks (guest/lib/loops.c), the very same code, under Sv39 in pages of 4 KiB: strides in
// one bank, and banks in turn. Each bank has a window of its own; windows lie side by side and have a table of leaves
// each, as in `bench-board`.
#include "paging.h"

#include "loops.h"

enum {
    BANKS = 6,
    ROW = 8192,
    ACCESSES = 768,
    WARM = 256,
    WINDOW_BYTES = (ACCESSES + WARM) * ROW,
    LEAVES = WINDOW_BYTES / (TABLE_ENTRIES * PAGE_BYTES),
    PITCH = WINDOW_BYTES,
};
#define WINDOWS ((char *)0x100000000ul)
#define NVMM 0xa0000000ul
#define BANK_BYTES 0x10000000ul

static u64 middle[TABLE_ENTRIES] PAGE, leaves[BANKS][LEAVES][TABLE_ENTRIES] PAGE;

// The warm-up comes first and is no part of the region. Times of a stride: accesses; of banks in turn: rounds.
#define CELL(name, loop, arguments, warm, part)                                                    \
    do {                                                                                           \
        u64 bytes_ = warm;                                                                         \
        char *base_ = WINDOWS;                                                                     \
        loop(base_, bytes_, arguments);                                                            \
        base_ += bytes_;                                                                           \
        bytes_ = part;                                                                             \
        REGION(name);                                                                              \
        loop(base_, bytes_, arguments);                                                            \
        END();                                                                                     \
    } while (0)
#define STRIDE(stride) stride
#define TURN(banks) ROW, PITCH, banks
#define TURNS(n, banks) ((n + banks - 1) / banks * ROW)

static u64 measured(u64 sum)
{
    CELL("read, stride 4096", loop_read, STRIDE(4096), WARM * 4096, ACCESSES * 4096);
    CELL("read, stride 8192", loop_read, STRIDE(8192), WARM * 8192, ACCESSES * 8192);
    CELL("read, 1 bank", loop_read_banks, TURN(1), TURNS(WARM, 1), TURNS(ACCESSES, 1));
    CELL("read, 2 banks", loop_read_banks, TURN(2), TURNS(WARM, 2), TURNS(ACCESSES, 2));
    CELL("read, 3 banks", loop_read_banks, TURN(3), TURNS(WARM, 3), TURNS(ACCESSES, 3));
    CELL("read, 4 banks", loop_read_banks, TURN(4), TURNS(WARM, 4), TURNS(ACCESSES, 4));
    CELL("read, 5 banks", loop_read_banks, TURN(5), TURNS(WARM, 5), TURNS(ACCESSES, 5));
    CELL("read, 6 banks", loop_read_banks, TURN(6), TURNS(WARM, 6), TURNS(ACCESSES, 6));
    CELL("write, stride 4096", loop_write, STRIDE(4096), WARM * 4096, ACCESSES * 4096);
    CELL("write, stride 8192", loop_write, STRIDE(8192), WARM * 8192, ACCESSES * 8192);
    CELL("write, 1 bank", loop_write_banks, TURN(1), TURNS(WARM, 1), TURNS(ACCESSES, 1));
    CELL("write, 2 banks", loop_write_banks, TURN(2), TURNS(WARM, 2), TURNS(ACCESSES, 2));
    CELL("write, 3 banks", loop_write_banks, TURN(3), TURNS(WARM, 3), TURNS(ACCESSES, 3));
    CELL("write, 4 banks", loop_write_banks, TURN(4), TURNS(WARM, 4), TURNS(ACCESSES, 4));
    CELL("write, 5 banks", loop_write_banks, TURN(5), TURNS(WARM, 5), TURNS(ACCESSES, 5));
    CELL("write, 6 banks", loop_write_banks, TURN(6), TURNS(WARM, 6), TURNS(ACCESSES, 6));
    return sum;
}

u64 run(u64 hart)
{
    make_identity();
    root_table[4] = pte(middle);
    for (u64 b = 0; b < BANKS; b++)
        for (u64 l = 0; l < LEAVES; l++) {
            middle[b * LEAVES + l] = pte(leaves[b][l]);
            for (u64 i = 0; i < TABLE_ENTRIES; i++)
                leaves[b][l][i] = (NVMM + b * BANK_BYTES + ((l * TABLE_ENTRIES + i) << 12)) >> 12 << 10 | PTE_LEAF;
        }
    return in_s_mode(measured, hart, satp_of(root_table));
}

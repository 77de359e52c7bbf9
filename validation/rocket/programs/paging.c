// Translation under Sv39: pages within the reach of the TLBs and beyond it, for loads, stores and instructions.
#include "paging.h"

enum { PAGES = 128 };
#define WINDOW 0x100000000ul
static u64 middle[TABLE_ENTRIES] PAGE, leaves[TABLE_ENTRIES] PAGE;
static u8 data[PAGES * PAGE_BYTES] PAGE;

// One word in each of `pages` pages that are `step` pages apart, at another line in each.
static NOINLINE u64 touch(u64 pages, u64 step, u64 times)
{
    u64 sum = 0;
    for (u64 t = 0; t < times; t++)
        for (u64 p = 0; p < pages; p++)
            sum += *(volatile u64 *)(WINDOW + (p * step % PAGES) * PAGE_BYTES + p * 64 % PAGE_BYTES);
    return sum;
}

static NOINLINE void touch_to_write(u64 pages, u64 times)
{
    for (u64 t = 0; t < times; t++)
        for (u64 p = 0; p < pages; p++)
            *(volatile u64 *)(WINDOW + p * PAGE_BYTES + p * 64 % PAGE_BYTES) = t;
}

// A function of one instruction in each page: the data are code.
static NOINLINE u64 jump(u64 pages, u64 times)
{
    for (u64 t = 0; t < times; t++)
        for (u64 p = 0; p < pages; p++)
            ((void (*)(void))(WINDOW + p * PAGE_BYTES + p * 64 % PAGE_BYTES))();
    return times;
}

static u64 measured(u64 sum)
{
    MEASURE("8 pages", sum += touch(8, 1, 20));
    MEASURE("32 pages", sum += touch(32, 1, 10));
    MEASURE("32 sectors", sum += touch(32, 4, 10));
    MEASURE("64 pages", sum += touch(64, 1, 8));
    MEASURE("128 pages", sum += touch(128, 1, 6));
    MEASURE("64 pages written", touch_to_write(64, 8));
    MEASURE("sfence and 8 pages", for (u64 i = 0; i < 10; i++) {
        __asm__ volatile("sfence.vma" : : : "memory");
        sum += touch(8, 1, 1);
    });
    const u32 RETURN = 0x8067;
    for (u64 p = 0; p < PAGES; p++)
        *(volatile u32 *)(WINDOW + p * PAGE_BYTES + p * 64 % PAGE_BYTES) = RETURN;
    __asm__ volatile("fence.i" : : : "memory");
    MEASURE("jumps to 16 pages", sum += jump(16, 10));
    MEASURE("jumps to 64 pages", sum += jump(64, 6));
    return sum;
}

u64 run(u64 hart)
{
    make_identity();
    root_table[4] = pte(middle);
    middle[0] = pte(leaves);
    for (u64 p = 0; p < PAGES; p++)
        leaves[p] = ((u64)data + p * PAGE_BYTES) >> 12 << 10 | PTE_LEAF;
    return in_s_mode(measured, hart, satp_of(root_table));
}

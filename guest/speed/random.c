// Random accesses over 64 MiB in supervisor mode, through Sv39 with pages of 4 KiB: one load whose
// address depends on the load before, and one whose address does not, in turn.
#include "speed.h"
enum { PAGES = 64 * MIB / 4096, ENTRIES = 512, TABLES = 128 };
// As under Linux, virtual neighbours are not physical neighbours.
enum { STRIDE = 7919 };
enum { V = 1, RWX = 14, AD = 0xc0 };
static u64 cells[64 * MIB / 8] PAGE;
static u64 tables[TABLES][ENTRIES] PAGE;
static u64 used = 1;
static const u64 window = 0x1000000000ul;
extern u8 code_end[], data_start[], data_end[], _start[];

static u64 *below(u64 *entry)
{
    if (!*entry)
        *entry = (u64)tables[used++] >> 12 << 10 | V;
    return (u64 *)(*entry >> 10 << 12);
}

static void map(u64 virtual, u64 physical)
{
    u64 *middle = below(tables[0] + (virtual >> 30 & 511));
    u64 *leaf = below(middle + (virtual >> 21 & 511));
    leaf[virtual >> 12 & 511] = physical >> 12 << 10 | AD | RWX | V;
}

static void enter_supervisor(void)
{
    u64 satp = 8ul << 60 | (u64)tables >> 12, all = ~0ul, napot_rwx = 0x1f, spp;
    __asm__ volatile("csrw pmpaddr0, %1\n"
                     "csrw pmpcfg0, %2\n"
                     "csrw satp, %3\n"
                     "sfence.vma\n"
                     "li %0, 0x1800\n"
                     "csrc mstatus, %0\n"
                     "li %0, 0x800\n"
                     "csrs mstatus, %0\n"
                     "la %0, 1f\n"
                     "csrw mepc, %0\n"
                     "mret\n"
                     ".balign 4\n"
                     "1:"
                     : "=&r"(spp)
                     : "r"(all), "r"(napot_rwx), "r"(satp)
                     : "memory");
}

u64 run(u64 hart)
{
    tables[0][0] = AD | RWX | V; // devices, as one page of 1 GiB
    for (u64 a = (u64)_start; a < (u64)code_end; a += 4096)
        map(a, a);
    for (u64 a = (u64)data_start; a < (u64)data_end; a += 4096)
        map(a, a);
    for (u64 i = 0; i < PAGES; i++)
        map(window + i * 4096, (u64)cells + i * STRIDE % PAGES * 4096);
    enter_supervisor();

    volatile u64 *at = (u64 *)window;
    // Every page is touched once, as if it had been written by a program.
    for (u64 i = 0; i < PAGES; i++)
        at[i * 512 + i % 512] = i;
    u64 x = 88172645463325252ul + hart, sum = 0, loaded = 0;
    for (u64 i = 0; i < TIMES(1500000); i++) {
        next(&x);
        sum += at[x % (PAGES * 512ul)];
        loaded = at[((x >> 30) + loaded) % (PAGES * 512ul)];
    }
    return mix(sum, loaded);
}

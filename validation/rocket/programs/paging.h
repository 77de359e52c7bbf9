// Sv39 for programs without a system: tables of 4 KiB pages, and a function that runs in S mode.
#ifndef PAGING_H
#define PAGING_H
#include "region.h"

enum { TABLE_ENTRIES = 512, PAGE_BYTES = 4096 };
#define PTE_LEAF 0xcful // valid, read, write, execute, accessed, dirty
#define MEMORY 0x80000000ul

static u64 root_table[TABLE_ENTRIES] PAGE;
// The third gigabyte of addresses is memory itself, in pages of 2 MiB.
static u64 identity_table[TABLE_ENTRIES] PAGE;

static inline u64 pte(const void *table) { return ((u64)table >> 12) << 10 | 1; }

static void make_identity(void)
{
    for (u64 i = 0; i < TABLE_ENTRIES; i++)
        identity_table[i] = (MEMORY + (i << 21)) >> 12 << 10 | PTE_LEAF;
    root_table[2] = pte(identity_table);
}

// Runs f(x) in S mode under the tables, and returns to M mode.
u64 in_s_mode(u64 (*f)(u64), u64 x, u64 satp);
__asm__(".text\n"
        ".globl in_s_mode\n"
        "in_s_mode:\n"
        "    addi sp, sp, -32\n"
        "    sd   ra, 0(sp)\n"
        "    sd   s0, 8(sp)\n"
        "    csrr s0, mtvec\n"
        "    la   t0, 1f\n"
        "    csrw mtvec, t0\n"
        "    li   t0, -1\n"
        "    csrw pmpaddr0, t0\n" // Without a rule, S mode may access nothing.
        "    li   t0, 0x1f\n"
        "    csrw pmpcfg0, t0\n"
        "    csrw satp, a2\n"
        "    sfence.vma\n"
        "    li   t0, 0x1800\n"
        "    csrc mstatus, t0\n"
        "    li   t0, 0x0800\n"
        "    csrs mstatus, t0\n"
        "    csrw mepc, a0\n"
        "    mv   a0, a1\n"
        "    la   ra, 2f\n"
        "    mret\n"
        "2:  ecall\n"
        "    .balign 4\n"
        "1:  csrw satp, x0\n"
        "    csrw mtvec, s0\n"
        "    ld   ra, 0(sp)\n"
        "    ld   s0, 8(sp)\n"
        "    addi sp, sp, 32\n"
        "    csrr t0, mcause\n"
        "    li   t1, 9\n" // Anything but its call is a failure, which start.S reports.
        "    beq  t0, t1, 3f\n"
        "    unimp\n"
        "3:  ret\n");

static inline u64 satp_of(const u64 *root) { return 8ul << 60 | (u64)root >> 12; }
#endif

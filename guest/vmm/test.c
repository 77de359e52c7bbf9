/* Checks of a VM whose I/O map is another one (partitions/test.txt): every form of load and store that the monitor
 * emulates, and what it refuses. The table has to give the same. */
#include "vm.h"

volatile u64 trap_cause;
static u64 checks, passed;

u64 trap(u64 cause, u64 epc, u64 ra)
{
    return go_on(cause, epc, ra);
}

static void check(const char *what, u64 got, u64 want)
{
    checks++;
    passed += got == want;
    if (got == want)
        return;
    print("test: ");
    print(what);
    print(": got ");
    print_number(got);
    print(", not ");
    print_number(want);
    print("\r\n");
}

/* Ethernet (4 bytes only), a register of the control block (4 and 8), the UART's scratch register (1 byte). */
static const u64 MAC = 0x52000000, LABEL = 0x50000208, SCRATCH = 0x50001007;
static const u64 MODE = 0xa000; /* Ethernet's first register after a reset */

#define LOAD(insn, addr) ({ u64 v_ = 77; asm volatile(insn : "+r"(v_) : "r"(addr) : "memory"); v_; })
#define STORE(insn, addr, v) asm volatile(insn ::"r"((u64)(v)), "r"(addr) : "memory")

static void widths(void)
{
    STORE("sd %0, 0(%1)", LABEL, 0x8877665584332211);
    check("ld", LOAD("ld %0, 0(%1)", LABEL), 0x8877665584332211);
    check("lw", LOAD("lw %0, 0(%1)", LABEL), 0xffffffff84332211);
    check("lwu", LOAD("lwu %0, 0(%1)", LABEL), 0x84332211);
    check("lwu upper", LOAD("lwu %0, 4(%1)", LABEL), 0x88776655);
    check("offsets", LOAD("lw %0, -2044(%1)", LABEL + 2048), 0xffffffff88776655);
    STORE("sw %0, -2048(%1)", LABEL + 2048, 0x1234567890);
    check("sw", LOAD("ld %0, 0(%1)", LABEL), 0x34567890);
    STORE("sb %0, 0(%1)", SCRATCH, 0x1f5);
    check("lb", LOAD("lb %0, 0(%1)", SCRATCH), 0xfffffffffffffff5);
    check("lbu", LOAD("lbu %0, 0(%1)", SCRATCH), 0xf5);
    /* To x0, from x0, and with a base that is overwritten. */
    asm volatile("lw zero, 0(%0)" ::"r"(MAC) : "memory");
    asm volatile("sw zero, 0(%0)" ::"r"(LABEL) : "memory");
    check("from x0", LOAD("ld %0, 0(%1)", LABEL), 0);
    u64 same = MAC;
    asm volatile("lw %0, 0(%0)" : "+r"(same)::"memory");
    check("base is rd", same, MODE);
}

/* Compressed forms have few registers: the base is in a3, what is loaded or stored in a4. Registers of variables hold
 * only for the statement that they are used in. */
static u64 in_a4(void (*code)(void), u64 a3, u64 a4)
{
    register u64 base asm("a3") = a3, value asm("a4") = a4;
    asm volatile("jalr %2" : "+r"(value) : "r"(base), "r"(code) : "ra", "a2", "a5", "memory");
    return value;
}

#define CODE(name, text)                                                                                  \
    void name(void);                                                                                      \
    asm(".text\n.balign 4\n" #name ":\n.option push\n.option rvc\n" text "\nret\n.option pop\n")
CODE(c_double, "c.sd a4, 0(a3)\nli a4, 0\nc.ld a4, 0(a3)");
CODE(c_load_word, "c.lw a4, 68(a3)");
CODE(c_store_word, "c.sw a4, 64(a3)");
/* The stack pointer as a base: no trap of ours may happen meanwhile. */
CODE(c_stack, "mv a5, sp\naddi sp, a3, -184\nc.sdsp a4, 248(sp)\nc.ldsp a2, 248(sp)\nc.lwsp a4, 252(sp)\n"
              "c.swsp a2, 248(sp)\nmv sp, a5");

static void compressed(void)
{
    check("c.sd, c.ld", in_a4(c_double, LABEL, 0xfedcba9876543210), 0xfedcba9876543210);
    check("c.lw", in_a4(c_load_word, LABEL - 64, 0), 0xfffffffffedcba98);
    in_a4(c_store_word, LABEL - 64, 0xfffffffffedcba98);
    check("c.sw", LOAD("ld %0, 0(%1)", LABEL), 0xfedcba98);
    check("c.sdsp, c.ldsp, c.lwsp", in_a4(c_stack, LABEL - 64, 0x8000000176543210), 0xffffffff80000001);
    check("c.swsp", LOAD("ld %0, 0(%1)", LABEL), 0x76543210);
}

static void refused(void)
{
    LOAD("lw %0, 0(%1)", 0x10001000ull);
    check("the old place", last_trap(), LOAD_ACCESS);
    STORE("sw %0, 0(%1)", 0x10001000ull, 0);
    check("store to the old place", last_trap(), STORE_ACCESS);
    check("rd is kept", LOAD("lw %0, 0(%1)", MAC + 0x1000), 77);
    check("behind a range", last_trap(), LOAD_ACCESS);
    LOAD("ld %0, 0(%1)", 0x50001000ull);
    check("a range is a part of it", last_trap(), LOAD_ACCESS);
    LOAD("lh %0, 0(%1)", MAC);
    check("the device refuses the width", last_trap(), LOAD_ACCESS);
    STORE("sb %0, 0(%1)", MAC, 0);
    check("the device refuses to store", last_trap(), STORE_ACCESS);
    STORE("amoadd.w %0, %0, (%1)", MAC, 0);
    check("amo", last_trap(), STORE_ACCESS);
    LOAD("lr.w %0, (%1)", MAC);
    check("lr", last_trap(), LOAD_ACCESS);
    STORE("sd %0, 0(%1)", 0x80000000ull, 0);
    check("the monitor", last_trap(), STORE_ACCESS);
    /* Registers that only machine mode sets. */
    STORE("sd %0, 0(%1)", 0x4000398ull, 1);
    check("the table", last_trap(), STORE_ACCESS);
}

/* An instruction on two pages, and one at the end of our memory. */
static void places(u64 memory_end)
{
    static u64 page[1024] __attribute__((aligned(4096)));
    volatile uint16_t *at = (volatile uint16_t *)((u64)page + 4094);
    at[0] = 0x00052503 & 0xffff; /* lw a0, 0(a0) */
    at[1] = 0x00052503 >> 16;
    at[2] = 0x8082; /* ret */
    asm volatile("fence.i" ::: "memory");
    u64 (*across)(u64) = (u64(*)(u64))(u64)at;
    check("on two pages", across(MAC), MODE);
    volatile uint16_t *last = (volatile uint16_t *)(memory_end - 2);
    uint16_t old = *last;
    *last = 0x4108; /* c.lw a0, 0(a0) */
    asm volatile("fence.i" ::: "memory");
    u64 (*end)(u64) = (u64(*)(u64))(u64)last;
    check("at the end of memory", end(MAC), MODE);
    check("and beyond", last_trap(), FETCH_ACCESS);
    *last = old;
}

/* Code that is written here, in a page of its own. */
static u32 code[1024] __attribute__((aligned(4096)));

static u64 run(const u32 *words, int n, u64 a3, u64 a4)
{
    for (int i = 0; i < n; i++)
        code[i] = words[i];
    asm volatile("fence.i" ::: "memory");
    return in_a4((void (*)(void))(u64)code, a3, a4);
}

/* The monitor does an access that it has done before in a shorter way. One place is accessed again: with every register
 * as what is loaded, as what is stored, and as the base; then with another instruction, and with another address. */
static void again(void)
{
    enum { MV = 0x13, LW = 0x2003, SW = 0x2023, RET = 0x8067, A2 = 12, A3, A4 };
    u64 wrong = 0;
    for (u32 r = 1; r < 32; r++) {
        if (r >= A2 && r <= A4)
            continue;
        u32 keep = MV | A2 << 7 | r << 15, restore = MV | r << 7 | A2 << 15;
        u32 load[] = {keep, LW | r << 7 | A3 << 15, MV | A4 << 7 | r << 15, restore, RET};
        u32 store[] = {keep, MV | r << 7 | A4 << 15, SW | r << 20 | A3 << 15, restore, RET};
        u32 base[] = {keep, MV | r << 7 | A3 << 15, LW | A4 << 7 | r << 15, restore, RET};
        for (u64 n = 0; n < 3; n++)
            run(store, 5, LABEL, 1000 * n + r);
        for (u64 n = 0; n < 3; n++)
            wrong += run(load, 5, LABEL, 0) != 2000 + r;
        for (u64 n = 0; n < 3; n++)
            wrong += run(base, 5, LABEL, 0) != 2000 + r;
    }
    check("every register, again", wrong, 0);
    STORE("sd %0, 0(%1)", LABEL, 0xfffffffe80000001);
    static const struct { u32 load; u64 want; } forms[] = {
        {LW, 0xffffffff80000001}, {0x6003, 0x80000001}, {0x3003, 0xfffffffe80000001},
        {LW | 4 << 20, 0xfffffffffffffffe},
    };
    for (int n = 0; n < 16; n++) {
        u32 words[] = {forms[n / 2 % 4].load | A4 << 7 | A3 << 15, RET};
        wrong += run(words, 2, LABEL, 0) != forms[n / 2 % 4].want;
    }
    check("another instruction at the same place", wrong, 0);
    u32 word[] = {LW | A4 << 7 | A3 << 15, RET};
    for (int n = 0; n < 3; n++)
        wrong += run(word, 2, LABEL + 4, 0) != ~1ull || run(word, 2, MAC, 0) != MODE;
    check("another address by the same instruction", wrong, 0);
    wrong += run(word, 2, MAC + 0x1000, 77) != 77 || last_trap() != LOAD_ACCESS;
    wrong += run(word, 2, MAC + 0xffd, 77) != 77 || !last_trap();
    check("an address that is not there by the same instruction", wrong, 0);
}

/* With page tables: memory and devices where they are, and Ethernet at another virtual address, too. */
static void pages(void)
{
    static u64 root[512] __attribute__((aligned(4096))), middle[512] __attribute__((aligned(4096)));
    static u64 leaf[512] __attribute__((aligned(4096)));
    enum { V = 1, RWX = 14, AD = 192 };
    for (u64 i = 0; i < 3; i++)
        root[i] = i << 28 | V | RWX | AD;
    root[4] = (u64)middle >> 12 << 10 | V;
    middle[1] = (u64)leaf >> 12 << 10 | V;
    leaf[2] = MAC >> 12 << 10 | V | RWX | AD;
    leaf[3] = 0x10001000ull >> 12 << 10 | V | RWX | AD;
    asm volatile("csrw satp, %0\n sfence.vma" ::"r"(8ull << 60 | (u64)root >> 12) : "memory");
    u64 va = 4ull << 30 | 1ull << 21 | 2ull << 12;
    check("by page tables", LOAD("lw %0, 0(%1)", va), MODE);
    STORE("sw %0, 8(%1)", va, 0x7f);
    check("the same by both", LOAD("lw %0, 8(%1)", MAC), 0x7f);
    LOAD("lw %0, 0(%1)", va + 4096);
    check("a page of the old place", last_trap(), LOAD_ACCESS);
    /* One load is repeated while each level of the tables changes. */
    static u64 other_root[512] __attribute__((aligned(4096))), other_middle[512] __attribute__((aligned(4096)));
    static u64 other_leaf[512] __attribute__((aligned(4096)));
    const u32 load[] = {0x2003 | 14 << 7 | 13 << 15, 0x8067}; /* lw a4, 0(a3); ret */
    other_leaf[2] = leaf[3];
    other_middle[1] = (u64)other_leaf >> 12 << 10 | V;
    for (int i = 0; i < 5; i++)
        other_root[i] = root[i];
    other_root[4] = (u64)other_middle >> 12 << 10 | V;
    u64 *const changed[] = {&leaf[2], &middle[1], &root[4]}, to[] = {leaf[3], other_middle[1], other_root[4]};
    u64 wrong = 0, here = 8ull << 60 | (u64)root >> 12, there = 8ull << 60 | (u64)other_root >> 12;
    for (int i = 0; i < 4; i++) {
        for (int n = 0; n < 3; n++)
            wrong += run(load, 2, va, 0) != MODE || last_trap();
        u64 old = i < 3 ? *changed[i] : 0;
        if (i < 3)
            *changed[i] = to[i];
        asm volatile("csrw satp, %0\n sfence.vma" ::"r"(i < 3 ? here : there) : "memory");
        wrong += run(load, 2, va, 77) != 77 || last_trap() != LOAD_ACCESS;
        if (i < 3)
            *changed[i] = old;
        asm volatile("csrw satp, %0\n sfence.vma" ::"r"(here) : "memory");
    }
    check("tables that change", wrong, 0);
    /* A table that is not in our memory: the hart does not read it, and the monitor does not, either. */
    root[5] = 0x80000000ull >> 12 << 10 | V;
    asm volatile("sfence.vma" ::: "memory");
    LOAD("lw %0, 0(%1)", 5ull << 30);
    check("a table of the monitor", last_trap(), LOAD_ACCESS);
    asm volatile("csrw satp, zero\n sfence.vma" ::: "memory");
}

void start(void)
{
    widths();
    compressed();
    refused();
    places(0x87c00000);
    again();
    pages();
    print("test: ");
    print_number(passed);
    print(" of ");
    print_number(checks);
    print(" checks passed\r\n");
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

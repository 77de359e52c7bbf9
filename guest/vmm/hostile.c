/* A hostile VM (partitions/hostile.txt): random accesses, instructions, page tables, SBI calls and DMA, aimed at what
 * is not its own. Whatever it reaches there it reports; victim.c looks whether something was changed. On the kernel's
 * command line: vm.seed, and vm.attempts of each kind. */
#include "attempt.h"

volatile u64 trap_cause;
static u64 seed, failures, attempts, refused;

/* What partitions/hostile.txt gives us. */
static const struct range { u64 at, size; } own[] = {
    {0x80200000, 0x7a00000}, {0x50000208, 8}, {0xc000000, 0x2000}, {0xc002000, 0x200}, {0xc200000, 0x4000},
    {0x52000000, 0x1000}, {0x50001000, 4},
};
enum { OWN = sizeof own / sizeof *own, MAC = 0x52000000 };
#define MEMORY_END 0x87c00000ull
/* And what it does not: the monitor, the victim, memory of nobody; registers of the machine; nothing at all. */
static const u64 foreign[] = {
    0x80000000, 0x80001000, 0x80008000, 0x80010000, 0x80020000, 0x801ffff8, 0x87c00000, 0x87c01000, 0x87c80000,
    0x87cf0000, 0x87cffff8, 0x87d00000, 0x87fffff8, 0x88000000, 0x100000, 0x101000, 0x2000000, 0x2000008, 0x2004000,
    0x200bff8, 0x4000100, 0x4000200, 0x4000240, 0x4000348, 0x4000398, 0x40003a8, 0xc002200, 0xc204000, 0xc205004,
    0x10000000, 0x10001000, 0x10001400, 0x10002000, 0x52001000, 0x50000200, 0x50000210, 0x0, 0x7ffffff8, 1ull << 32,
    1ull << 38, 1ull << 39, 1ull << 55, 1ull << 56, 1ull << 63, ~7ull,
};
enum { FOREIGN = sizeof foreign / sizeof *foreign };

u64 trap(u64 cause, u64 epc, u64 ra)
{
    return go_on(cause, epc, ra);
}

static void put_hex(u64 n)
{
    char text[20];
    int i = 19;
    text[i] = 0;
    do
        text[--i] = "0123456789abcdef"[n & 15];
    while (n >>= 4);
    text[--i] = 'x';
    text[--i] = '0';
    print(text + i);
}

static void failed(const char *what, u64 a, u64 b)
{
    if (failures++ >= 20)
        return;
    print("hostile: REACHED: ");
    print(what);
    print(" ");
    put_hex(a);
    print(", ");
    put_hex(b);
    print("\r\n");
}

static u64 chance(u64 one_in)
{
    return !below(&seed, one_in);
}

static int mine(u64 at, u64 len)
{
    for (int i = 0; i < OWN; i++)
        if (at >= own[i].at && at - own[i].at < own[i].size && len <= own[i].size - (at - own[i].at))
            return 1;
    return 0;
}

static int in_memory(u64 at, u64 len)
{
    return at >= own[0].at && at - own[0].at < own[0].size && len <= own[0].size - (at - own[0].at);
}

/* An address: mostly near the edges of what is ours and what is not. */
static u64 somewhere(void)
{
    u64 at;
    switch (below(&seed, 8)) {
    case 0:
    case 1:
        at = own[below(&seed, OWN)].at;
        break;
    case 2:
    case 3: {
        const struct range *r = &own[chance(2) ? 0 : below(&seed, OWN)];
        at = r->at + r->size - (chance(2) ? below(&seed, 9) : 8 * below(&seed, 2));
        break;
    }
    case 4:
        at = chance(2) ? (u32)random(&seed) : random(&seed);
        /* Our program and its stack stay as they are. */
        return at - 0x80400000 < 0x400000 ? at + 0x1000000 : at;
    default:
        at = foreign[below(&seed, FOREIGN)];
    }
    switch (below(&seed, 4)) {
    case 0:
        return at + below(&seed, 33) - 16;
    case 1:
        return at + (below(&seed, 512) & ~7ull);
    }
    return at;
}

/* Our page tables, when they are in use. */
static u64 root[512] __attribute__((aligned(4096))), middle[512] __attribute__((aligned(4096)));
static u64 leaf[512] __attribute__((aligned(4096)));
static int paging;
enum { V = 1, R = 2, W = 4, X = 8, U = 16, G = 32, A = 64, D = 128 };

/* The physical address of a virtual one; all ones if there is none. */
static u64 walk(u64 va)
{
    if (!paging)
        return va;
    if ((u64)((int64_t)(va << 25) >> 25) != va)
        return ~0ull;
    u64 table = (u64)root;
    for (int level = 2; level >= 0; level--) {
        if (!in_memory(table, 4096))
            return ~0ull;
        u64 pte = ((u64 *)table)[va >> (12 + 9 * level) & 511], page = pte << 10 >> 20 << 12;
        if (!(pte & V))
            return ~0ull;
        if (pte & (R | X))
            return page | (va & ((1ull << (12 + 9 * level)) - 1));
        table = page;
    }
    return ~0ull;
}

static int mine_by_pages(u64 va, u64 len)
{
    u64 first = walk(va), last = walk(va + len - 1);
    return mine(first, 1) && mine(last, 1) && (last - first != len - 1 || mine(first, len));
}

/* A load, a store or an atomic: its address and width. */
struct access {
    u64 at, width;
    int rd, store;
};

/* The registers' values are those from before. Of what touches no memory, or may leave it alone (sc), width is 0. */
static struct access decode(u32 i, const u64 *x)
{
    struct access a = {0};
    u32 f = i >> 12 & 7;
    u64 rs1 = i >> 15 & 31 ? x[i >> 15 & 31] : 0;
    if ((i & 3) == 3) {
        switch (i & 0x7f) {
        case 0x03:
        case 0x07:
            a = (struct access){rs1 + (int64_t)((int)i >> 20), 1u << (f & 3), i & 4 ? 0 : i >> 7 & 31, 0};
            break;
        case 0x23:
        case 0x27:
            a = (struct access){rs1 + (int64_t)(((int)i >> 25 << 5) | (int)(i >> 7 & 31)), 1u << (f & 3), 0, 1};
            break;
        case 0x2f:
            if (i >> 27 != 3)
                a = (struct access){rs1, 1u << (f & 3), i >> 7 & 31, i >> 27 != 2};
            break;
        case 0x0f: /* cbo: blocks of 64 bytes */
            if (f == 2)
                a = (struct access){rs1 & ~63ull, 64, 0, 1};
            break;
        }
        return a;
    }
    u32 q = i & 3, g = i >> 13 & 7;
    if (q == 1 || !(g & 3))
        return a;
    int words = (g & 3) == 2;
    a.width = words ? 4 : 8;
    a.store = g >> 2;
    if (q == 0) {
        u64 offset = (i >> 10 & 7) << 3 | (words ? (i >> 6 & 1) << 2 | (i >> 5 & 1) << 6 : (i >> 5 & 3) << 6);
        a.at = x[8 + (i >> 7 & 7)] + offset;
        a.rd = 8 + (i >> 2 & 7);
    } else if (a.store) {
        a.at = x[2] + (words ? (i >> 9 & 15) << 2 | (i >> 7 & 3) << 6 : (i >> 10 & 7) << 3 | (i >> 7 & 7) << 6);
    } else {
        u64 high = (i >> 12 & 1) << 5;
        a.at = x[2] + (words ? high | (i >> 4 & 7) << 2 | (i >> 2 & 3) << 6
                             : high | (i >> 5 & 3) << 3 | (i >> 2 & 7) << 6);
        a.rd = i >> 7 & 31;
    }
    if (a.store || (g & 3) == 1) /* stores, and c.fld */
        a.rd = 0;
    return a;
}

/* An instruction: often a load or store, sometimes any bits that do not jump away or end our trap handler. */
static u32 instruction(void)
{
    u32 r = random(&seed), rs1 = below(&seed, 32) << 15, rd = (chance(4) ? 0 : below(&seed, 32)) << 7,
        f = below(&seed, 8) << 12;
    switch (below(&seed, 12)) {
    case 0:
    case 1:
        return 0x03 | rd | f | rs1 | (chance(2) ? 0 : r & 0xfff00000);
    case 2:
    case 3:
        return 0x23 | f | rs1 | (r & 0x01f00000) | (chance(2) ? 0 : r & 0xfe000f80);
    case 4: { /* compressed: loads and stores, and of the stack pointer */
        u32 c = (r & 0xffff) & ~3u;
        c = (c & 0x1fff) | (chance(2) ? 2 : 0) | (2 + below(&seed, 2) + (chance(2) ? 4 : 0)) << 13;
        return c;
    }
    case 5:
        return 0x2f | rd | (2 + below(&seed, 2)) << 12 | rs1 | (r & 0xfff00000);
    case 6: /* floating point */
        return (chance(2) ? 0x07 : 0x27) | (2 + below(&seed, 2)) << 12 | rs1 | (r & 0xfff00f80);
    case 7: /* blocks of the cache */
        return 0x0f | 2 << 12 | rs1 | below(&seed, 5) << 20;
    case 8: /* a register of any mode */
        r = (r & 0xfff00000) | 0x73 | rd | f | rs1;
        break;
    }
    for (;; r = random(&seed)) {
        if ((r & 3) != 3) {
            u32 g = r >> 13 & 7;
            if ((r & 3) == 1 && g >= 5)
                continue; /* c.j, c.beqz, c.bnez */
            if ((r & 3) == 2 && g == 4 && !(r >> 2 & 31))
                continue; /* c.jr, c.jalr, c.ebreak */
            return r & 0xffff;
        }
        u32 opcode = r & 0x7f, csr = r >> 20;
        if (opcode == 0x63 || opcode == 0x67 || opcode == 0x6f)
            continue;
        if (opcode == 0x73 && ((r >> 12 & 7) == 0 || csr == 0x105 || csr == 0x180))
            continue; /* ecall, wfi; stvec and satp, without which we find no way back */
        return r;
    }
}

static void put(u64 at, u64 half)
{
    *(volatile uint16_t *)at = half;
}

/* Executes one instruction at `pc`, which is at `at` in memory, with registers that hold addresses. */
static void execute(u64 pc, u64 at, u64 room, u64 at_next, u32 i)
{
    static u64 before[32];
    u64 length = (i & 3) == 3 ? 4 : 2;
    put(at, i);
    if (length == 4 && room >= 4)
        put(at_next, i >> 16);
    if (room > length)
        put(length == 4 ? at_next + 2 : at_next, 0x9002); /* c.ebreak */
    for (int k = 1; k < 32; k++)
        run.x[k] = before[k] = paging && chance(2) ? 4ull << 30 | below(&seed, 1 << 22) : somewhere();
    run.pc = pc;
    /* Beforehand: a store may change the page table by which it is found. */
    struct access a = decode(i, before);
    int allowed = !a.width || mine_by_pages(a.at, a.width);
    asm volatile("fence.i" ::: "memory");
    attempt();
    attempts++;
    int done = run.epc == pc + length && room >= length;
    if (!done) {
        refused++;
        if (run.epc != pc && run.epc != pc + 2)
            failed("an instruction has gone to", run.epc, i);
        for (int k = 1; k < 32; k++)
            if (run.x[k] != before[k])
                failed("a refused instruction has changed a register", i, k);
        return;
    }
    if (!allowed)
        failed(a.store ? "store" : "load", a.at, i);
    if ((i & 0x7f) == 0x73 && i >> 12 & 3 && (i >> 28 & 3) >= 2)
        failed("a register of machine mode or a hypervisor", i, pc);
    for (int k = 1; a.width && k < 32; k++)
        if (k != a.rd && run.x[k] != before[k])
            failed("another register than rd has changed", i, k);
}

static void calm(void)
{
    /* A timer that is due, and no interrupt that is taken: nothing waits for ever. Floating point now and then. */
    call(TIME, 0, 0, 0, 0);
    /* In user mode it would be taken. */
    asm volatile("csrw sie, %0" ::"r"(run.user ? 0 : 1 << 5));
    asm volatile("csrc sstatus, %0" ::"r"(3ull << 13 | 1 << 18 | 1 << 19 | 2));
    asm volatile("csrs sstatus, %0" ::"r"((random(&seed) & (3ull << 13 | 1 << 18 | 1 << 19))));
}

static u64 page[1024] __attribute__((aligned(4096)));

/* Random instructions: on one page and two, and in the last bytes of our memory; and jumps to what is not ours. */
static void instructions(u64 n)
{
    while (n--) {
        run.user = chance(4);
        calm();
        u64 at = (u64)page + 4096 - 2 * below(&seed, 8), room = 8;
        if (chance(3)) {
            room = 2 + 2 * below(&seed, 2);
            at = MEMORY_END - room;
        }
        execute(at, at, room, at + 2, instruction());
        if (!chance(4))
            continue;
        run.pc = somewhere();
        if (mine(run.pc & ~1ull, 2))
            continue;
        attempt();
        attempts++;
        refused += run.cause == FETCH_ACCESS || run.cause == 0;
        if (run.epc != (run.pc & ~1ull) || run.cause > FETCH_ACCESS)
            failed("executed", run.pc, run.cause);
    }
}

static u64 any_entry(void)
{
    static const u64 usual[] = {
        V | R | W | A | D, V | R | W | X | A | D, V | R | X | A, V | X | A, V, V | R | W | U | A | D};
    u64 flags = chance(4) ? random(&seed) & 0x3ff : usual[below(&seed, 6)];
    u64 to = chance(3) ? own[below(&seed, OWN)].at : somewhere();
    if (chance(4))
        to = below(&seed, 2) ? (u64)leaf : (u64)middle;
    return (to >> 12 & ((1ull << 44) - 1)) << 10 | flags | (chance(16) ? random(&seed) << 54 : 0);
}

/* Attempts through page tables of ours, whose entries point anywhere; instructions, too, are fetched through them. */
static void pages(u64 n)
{
    for (u64 i = 0; i < 3; i++)
        root[i] = i << 28 | V | R | W | X | A | D;
    asm volatile("csrw satp, %0\n sfence.vma" ::"r"(8ull << 60 | (u64)root >> 12) : "memory");
    paging = 1;
    while (n--) {
        run.user = chance(4);
        calm();
        for (int i = 0; i < 8; i++) {
            leaf[below(&seed, 512)] = any_entry();
            middle[1 + below(&seed, 511)] = any_entry();
            root[5 + below(&seed, 507)] = any_entry();
        }
        root[4] = (u64)middle >> 12 << 10 | V;
        middle[0] = (u64)leaf >> 12 << 10 | V;
        u64 flags = V | R | W | X | A | D | (run.user ? U : 0), k = below(&seed, 500);
        leaf[k] = (u64)page >> 12 << 10 | flags;
        u64 offset = 4096 - 2 * (1 + below(&seed, 4)), va = 4ull << 30 | k << 12;
        /* What the second half of an instruction is fetched from is often not ours. */
        int whole = chance(2);
        do
            leaf[k + 1] = whole ? ((u64)page + 4096) >> 12 << 10 | flags : any_entry();
        while (!whole && in_memory(walk(va + 4096), 1));
        asm volatile("sfence.vma" ::: "memory");
        u64 room = whole ? 8 : 4096 - offset;
        execute(va + offset, (u64)page + offset, room, (u64)page + offset + 2, instruction());
    }
    paging = 0;
    asm volatile("csrw satp, zero\n sfence.vma" ::: "memory");
}

/* Calls with any arguments. Those that end us, or write to the console, are left out. */
static void calls(u64 n)
{
    enum { PMU = 0x504d55, BASE = 0x10, RFENCE = 0x52464e43, HARTS = 3 };
    run.user = 0;
    static const u64 known[] = {BASE, TIME, IPI, RFENCE, HSM, SRST, DBCN, PMU};
    while (n--) {
        calm();
        u64 extension = chance(16) ? random(&seed) : known[below(&seed, 8)],
            function = chance(16) ? random(&seed) : below(&seed, 8);
        u64 a[5];
        for (int i = 0; i < 5; i++)
            a[i] = chance(2) ? below(&seed, 9) : chance(8) ? -below(&seed, 5) : somewhere();
        if (extension == RFENCE && chance(2)) { /* our own harts, and the end of the address space */
            a[0] = 1 + below(&seed, 3);
            a[1] = 0;
            a[2] = -below(&seed, 8192);
            a[3] = below(&seed, 8192);
        }
        if (extension == DBCN && chance(2)) { /* across the end of our memory */
            a[0] = 1 + below(&seed, 64);
            a[1] = MEMORY_END - below(&seed, 32);
            a[2] = 0;
        }
        if (extension == SRST && a[0] <= 2)
            continue;
        if ((extension == HSM && function == 1) || (extension == DBCN && function == 2))
            continue;
        int memory = extension == DBCN && function < 2, allowed = a[0] == 0 || (in_memory(a[1], a[0]) && !a[2]);
        if (memory && allowed)
            continue;
        /* Our own second hart stays where it is. */
        if (extension == HSM && function == 0 && a[0] < 2 && in_memory(a[1], 4))
            continue;
        register u64 a0 asm("a0") = a[0], a1 asm("a1") = a[1], a2 asm("a2") = a[2], a3 asm("a3") = a[3],
            a4 asm("a4") = a[4];
        register u64 a6 asm("a6") = function, a7 asm("a7") = extension;
        asm volatile("ecall" : "+r"(a0), "+r"(a1) : "r"(a2), "r"(a3), "r"(a4), "r"(a6), "r"(a7) : "memory");
        int64_t error = a0;
        attempts++;
        refused += error < 0;
        if (error >= 0 && memory)
            failed("the console with memory that is not ours", a[1], a[0]);
        if (error >= 0 && extension == HSM && (function == 0 || function == 2) && a[0] >= 2)
            failed("a hart that is not ours", a[0], function);
        int of_harts = (extension == IPI && function == 0) || (extension == RFENCE && function < 3);
        if (error >= 0 && of_harts && a[1] != ~0ull && (a[1] > 1 || a[0] << a[1] >> a[1] != a[0] || a[0] << a[1] > 3))
            failed("a hart that is not ours by a mask", a[0], a[1]);
    }
    call(TIME, 0, ~0ull, 0, 0);
}

static volatile u32 *mac(u64 offset)
{
    return (volatile u32 *)(MAC + offset);
}

/* Frames in loopback, from and to any address. */
static void dma(u64 n)
{
    enum {
        MODER = 0, SOURCE = 4, MASK = 8, PACKETLEN = 0x18, TX_BD_NUM = 0x20, CONTROL = 0x24,
        TX_BD = 0x400, RX_BD = 0x408
    };
    enum { READY = 1 << 15, WRAP = 1 << 13, PAD = 1 << 12, CRC = 1 << 11, UNDERRUN = 1 << 8, OVERRUN = 1 << 6 };
    enum { RUN = 1 | 2 | 1 << 5 | 1 << 7 | 1 << 10 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 16, LONGEST = 1500 };
    static uint8_t buffers[2][2048] __attribute__((aligned(2048)));
    enum {
        MII_MODE = 0x28, MII_COMMAND = 0x2c, MII_ADDRESS = 0x30, MII_TX = 0x34, TX_CONTROL = 0x50,
        WRITE = 4, RESET = 0x8000
    };
    u64 passed = 0;
    /* Random stores have come before: the transceiver is reset (it may be slow), and what is on the wire ends. */
    *mac(MODER) = 0;
    *mac(TX_CONTROL) = 0;
    *mac(MII_MODE) = 0x64;
    *mac(MII_ADDRESS) = 0;
    *mac(MII_TX) = RESET;
    *mac(MII_COMMAND) = WRITE;
    for (u64 end = now() + 5000; now() < end;)
        ;
    *mac(MII_COMMAND) = 0;
    while (n--) {
        u64 length = chance(4) ? LONGEST : 64 + below(&seed, 200), address[2];
        for (int i = 0; i < 2; i++) {
            address[i] = (u32)somewhere();
            if (chance(3) || in_memory(address[i], 1))
                address[i] = chance(4) ? MEMORY_END - below(&seed, LONGEST) : (u64)buffers[i];
        }
        *mac(MODER) = 0;
        *mac(MASK) = 0;
        *mac(CONTROL) = 0;
        *mac(PACKETLEN) = 64 << 16 | 1536;
        *mac(TX_BD_NUM) = 1;
        *mac(SOURCE) = 0x7f;
        for (u64 i = 0; i < 128; i++)
            *mac(TX_BD + 8 * i) = 0;
        *mac(TX_BD + 4) = address[0];
        *mac(RX_BD + 4) = address[1];
        *mac(RX_BD) = READY | WRAP;
        *mac(TX_BD) = length << 16 | READY | WRAP | PAD | CRC;
        *mac(MODER) = RUN;
        u64 end = now() + 400;
        while (now() < end && (*mac(TX_BD) & READY || *mac(RX_BD) & READY))
            ;
        *mac(MODER) = 0;
        u32 sent = *mac(TX_BD), received = *mac(RX_BD);
        attempts += 2;
        refused += !!(sent & UNDERRUN) + !!(received & OVERRUN);
        if (!(sent & (READY | UNDERRUN)) && !in_memory(address[0], length))
            failed("DMA from", address[0], sent);
        if (!(received & (READY | OVERRUN)) && !in_memory(address[1], received >> 16))
            failed("DMA to", address[1], received);
        passed += !(received & (READY | OVERRUN));
        if (last_trap())
            failed("the MAC is ours, and has trapped at", MAC, 0);
    }
    /* Otherwise nothing was tried. */
    if (!passed)
        failed("no frame has passed", 0, 0);
}

void start(u64 hart, const uint8_t *tree)
{
    (void)hart;
    seed = option(tree, "vm.seed=", 1);
    u64 n = option(tree, "vm.attempts=", 1000);
    u64 with_dma = option(tree, "vm.dma=", 1);
    instructions(n);
    pages(n);
    calls(n);
    u64 vector;
    asm volatile("lla %0, vector\n csrw stvec, %0" : "=r"(vector));
    last_trap();
    if (with_dma)
        dma(n / 8);
    print("hostile: ");
    print_number(attempts);
    print(" attempts, ");
    print_number(refused);
    print(" refused, ");
    print_number(failures);
    print(" reached what is not ours\r\n");
    *SIGN = DONE;
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

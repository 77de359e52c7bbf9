/* A VM that accesses a device's register in a loop (partitions/ioloop.txt): what an access costs, and which share of the time goes
 * to accesses at a rate. On the command line: vm.io (address), vm.width (bytes), vm.rate (accesses in 100,000 cycles; 0: as fast
 * as they go), vm.accesses. The register is toggled: each access stores the other one of two values. */
#include "vm.h"

volatile u64 trap_cause;

u64 trap(u64 cause, u64 epc, u64 ra)
{
    return go_on(cause, epc, ra);
}

static u64 at, width;

static inline void access(u64 value)
{
    switch (width) {
    case 1:
        *(volatile uint8_t *)at = value;
        break;
    case 2:
        *(volatile uint16_t *)at = value;
        break;
    case 4:
        *(volatile u32 *)at = value;
        break;
    default:
        *(volatile u64 *)at = value;
    }
}

/* Cycles of `n` rounds of the loop, with or without the access in it. */
static u64 loop(u64 n, int with)
{
    u64 start = cycle();
    for (u64 i = 0; i < n; i++) {
        if (with)
            access(i & 1 ? 0xff : 0);
        asm volatile("" ::: "memory");
    }
    return cycle() - start;
}

static void number_line(const char *text, u64 n)
{
    print(text);
    print_number(n);
}

/* With one decimal. */
static void tenths(const char *text, u64 n)
{
    number_line(text, n / 10);
    number_line(".", n % 10);
}

void start(u64 hart, const uint8_t *tree)
{
    (void)hart;
    enum { UNIT = 100000 };
    at = option(tree, "vm.io=", 0x50001007);
    width = option(tree, "vm.width=", 1);
    u64 n = option(tree, "vm.accesses=", 10000), rate = option(tree, "vm.rate=", 0);
    if (!n || rate > UNIT)
        n = 1, rate = UNIT;
    /* Everything is in the caches after some rounds. */
    loop(100, 1);
    loop(100, 0);
    u64 cost = loop(n, 1) - loop(n, 0), spent = cost, from = cycle();
    if (rate) {
        for (u64 i = 0; i < n; i++) {
            while ((cycle() - from) * rate < i * UNIT)
                ;
            access(i & 1 ? 0xff : 0);
        }
    } else {
        spent = loop(n, 1);
    }
    u64 total = cycle() - from;
    if (last_trap())
        print("ioloop: FAILED: there is no such register\r\n");
    number_line("ioloop: ", n);
    tenths(" accesses of ", 10 * cost / n);
    number_line(" cycles, wanted ", rate);
    number_line(" and done ", n * UNIT / total);
    tenths(" in 100000 cycles, share of the time ", spent > total ? 1000 : 1000 * spent / total);
    print(" %\r\n");
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

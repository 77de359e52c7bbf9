/* A bare-metal program for a VM of its own: takes timer interrupts, and tries to leave its VM. */
#include "vm.h"

enum { TICKS = 100, PERIOD = 200 };
volatile u64 trap_cause;
static volatile u64 ticks, due, longest, shortest = ~0ull;
static u64 tried, kept;

u64 trap(u64 cause, u64 epc, u64 ra)
{
    if (!(cause >> 63))
        return go_on(cause, epc, ra);
    u64 late = now() - due;
    if (late > longest)
        longest = late;
    if (late < shortest)
        shortest = late;
    ticks++;
    due += PERIOD;
    call(TIME, 0, ticks < TICKS ? due : ~0ull, 0, 0);
    return epc;
}

static void expect(int right)
{
    tried++;
    kept += right;
}

static void peek(u64 addr)
{
    (void)*(volatile u32 *)addr;
    expect(last_trap() == LOAD_ACCESS);
    *(volatile u32 *)addr = 0;
    expect(last_trap() == STORE_ACCESS);
}

static int refuses(u64 extension, u64 function, u64 x, u64 y)
{
    return (int64_t)call(extension, function, x, y, 0) < 0;
}

void start(void)
{
    /* The monitor's memory, the other VM's, and none; power, control block, CLINT, PLIC, UART; Ethernet at both
     * places. */
    static const u64 not_ours[] = {
        0x80000000, 0x80010000, 0x80200000, 0x82000000, 0x87bffffc, 0x88000000, 0x100000, 0x4000390, 0x4000398,
        0x2000000, 0xc002000, 0x10000000, 0x10001000, 0x52000000, 0x0, 0x7ffffffc,
    };
    for (unsigned i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
        peek(not_ours[i]);
    u32 old;
    asm volatile("amoswap.w %0, zero, (%1)" : "=r"(old) : "r"(0x52000000ull) : "memory");
    expect(last_trap() == STORE_ACCESS);
    /* SBI calls that name what is not ours: the monitor's memory, too much of our own, the other VM's hart. */
    expect(refuses(DBCN, 0, 16, 0x80000000));
    expect(refuses(DBCN, 0, ~0ull, 0x87c00000));
    expect(refuses(HSM, 0, 0, 0x87c00000));
    expect(refuses(IPI, 0, 1, 0));
    print("second: ");
    print_number(kept);
    print(" of ");
    print_number(tried);
    print(" attempts to leave were refused\r\n");
    due = now() + PERIOD;
    call(TIME, 0, due, 0, 0);
    while (ticks < TICKS)
        asm volatile("csrs sie, %0\n csrsi sstatus, 2\n wfi" ::"r"(1 << 5));
    print("second: ");
    print_number(ticks);
    print(" timer interrupts, late by ");
    print_number(shortest);
    print(" to ");
    print_number(longest);
    print(" ticks\r\n");
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

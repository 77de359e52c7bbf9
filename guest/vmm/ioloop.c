/* A VM that uses a device in a loop (partitions/ioloop.txt): what an operation costs, and which share of the time goes
 * to operations at a rate. On the command line: vm.io (address), vm.width (bytes), vm.rate (operations in 100,000
 * cycles; 0: as fast as they go), vm.accesses (how many). An operation is an access: the register is toggled, each
 * access stores the other one of two values. With vm.flash=1 it is a byte that is read from a flash memory behind an
 * SPI controller, whose registers are at vm.io: a frame is sent, and the controller asked until another one has
 * come. */
#include "vm.h"

volatile u64 trap_cause;

u64 trap(u64 cause, u64 epc, u64 ra)
{
    return go_on(cause, epc, ra);
}

static u64 at, width, flash, asked;

/* The controller's registers; chip select stays as it is between frames; no frame has come. */
enum { SCKDIV = 0, CSMODE = 0x18, FMT = 0x40, TXDATA = 0x48, RXDATA = 0x4c, HOLD = 2, FRAMES_OF_8 = 8 << 16 };
enum { READ = 0x03 };
static const u32 EMPTY = 1u << 31;

static volatile u32 *spi(u64 offset)
{
    return (volatile u32 *)(at + offset);
}

static u32 frame(u32 out)
{
    u32 in;
    *spi(TXDATA) = out;
    do
        asked++;
    while ((in = *spi(RXDATA)) & EMPTY);
    return in;
}

/* The flash reads from address 0 on, for as long as it is selected. */
static void open_flash(u64 divider)
{
    *spi(SCKDIV) = divider;
    *spi(FMT) = FRAMES_OF_8;
    *spi(CSMODE) = HOLD;
    frame(READ);
    for (int i = 0; i < 3; i++)
        frame(0);
}

static inline void access(u64 value)
{
    if (flash) {
        frame(0);
        return;
    }
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
    if ((flash = option(tree, "vm.flash=", 0)))
        open_flash(option(tree, "vm.divider=", 1));
    /* Everything is in the caches after some rounds. */
    loop(100, 1);
    loop(100, 0);
    asked = 0;
    u64 cost = loop(n, 1) - loop(n, 0), polls = asked, spent = cost, from = cycle();
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
    print(" cycles");
    if (flash)
        tenths(", polls each ", 10 * polls / n);
    number_line(", wanted ", rate);
    number_line(" and done ", n * UNIT / total);
    tenths(" in 100000 cycles, share of the time ", spent > total ? 1000 : 1000 * spent / total);
    print(" %\r\n");
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

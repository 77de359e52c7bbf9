// vcopy on a machine without an operating system: the producer on the first hart, the consumer on
// the second. cells.h defines REPEATS, PACKETS and WARM, and may define EVENTS, events of mhpmevent to count from
// mhpmcounter3 on, and NVMM, the address of free NVMM.
#include "frame.h"

#ifndef EVENTS
#define EVENTS
#endif

enum { FIRST_COUNTER = 3 };
static const u64 events[] = {EVENTS 0};
enum { COUNTERS = (int)(sizeof events / sizeof events[0]) - 1 };

static u8 dram[RING_SIZE * BUFFER] __attribute__((aligned(4096)));
static struct outcome outcomes[2];
static u64 counted[2][COUNTERS + 1];
static u32 done LINE;

// Registers have their numbers in the instruction, so each needs its own.
#define EACH(f) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) \
    f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)

static u64 counter_read(int k)
{
    u64 n = 0;
#define READ(r) if (k == r) __asm__ volatile("csrr %0, 0xb00+" #r : "=r"(n)::"memory");
    EACH(READ)
    return n;
}

static void event_write(int k, u64 event)
{
#define WRITE(r) if (k == r) __asm__ volatile("csrw 0x320+" #r ", %0" :: "r"(event) : "memory");
    EACH(WRITE)
}

void counting(enum role role, int on)
{
    for (int k = 0; k < COUNTERS; k++) {
        u64 now = counter_read(FIRST_COUNTER + k);
        counted[role][k] = on ? now : now - counted[role][k];
    }
}

static void put(char c)
{
    volatile u8 *uart = (u8 *)0x10000000ul;
    while (!(uart[5] & 0x20))
        ;
    uart[0] = (u8)c;
}

static void number(u64 n)
{
    char digits[20];
    unsigned k = 0;
    do
        digits[k++] = (char)('0' + n % 10);
    while (n /= 10);
    while (k > 0)
        put(digits[--k]);
    put(' ');
}

static void print(unsigned cell, unsigned repeat, u64 wrong)
{
    for (unsigned role = PRODUCER; role <= CONSUMER; role++) {
        const struct outcome *o = &outcomes[role];
        number(cell), number(repeat), number(role), number(o->cycles);
        number(o->told);
        number(o->failures + (role == PRODUCER ? wrong : 0));
        for (int k = 0; k < PHASES; k++)
            number(o->phase[k]);
        for (int k = 0; k < COUNTERS; k++)
            number(counted[role][k]);
        put('\n');
    }
}

void sleep(void);

// The cell that is measured is in the second register that a loader sets, as a number: so the program is the
// same, at the same addresses, whatever other cells the table has.
static struct cell decode(u64 code)
{
    return (struct cell){
        .bytes = (u16)code,
        .batch = (u16)(code >> 16),
        .ring = code >> 32 & 1,
        .nt = code >> 33 & 1,
        .queue_nt = code >> 34 & 1,
        .loops = 1 + (code >> 35 & 1),
        .payload = code >> 36 & 1,
        .after = code >> 37 & 1,
        .nvmm = code >> 38 & 1,
        .phases = code >> 39 & 1,
        .packets = PACKETS,
        .warm = WARM,
    };
}

void start(u64 hart, u64 code)
{
    static struct { struct cell of; } LINE cells[2];
    static const struct places places = {{dram,
#ifdef NVMM
                                          (u8 *)NVMM
#endif
    }};
    static u32 set_up LINE;
    for (int k = 0; k < COUNTERS; k++)
        event_write(FIRST_COUNTER + k, events[k]);
    struct cell *c = &cells[hart].of;
    *c = decode(code);
    for (unsigned r = 0; r < REPEATS; r++) {
        u32 round = r + 1;
        if (hart == 0) {
            if (r == 0)
                vcopy_start(c, &places);
            release32(&set_up, round);
        } else {
            while (acquire32(&set_up) != round)
                relax();
        }
        vcopy_run((enum role)hart, c, &outcomes[hart]);
        if (hart != 0) {
            release32(&done, round);
            continue;
        }
        while (acquire32(&done) != round)
            relax();
        print(0, r, vcopy_check(c));
    }
    if (hart != 0)
        sleep();
    *(volatile u32 *)0x100000ul = 0x5555;
    for (;;)
        ;
}

/* A VM that measures how late its timer interrupts are (partitions/latency.txt): from the cycle at which one is due to
 * the first instruction of its handler. On the command line: vm.interrupts, vm.after (ticks since the machine's start,
 * before which nothing is measured), vm.seed, vm.histogram=1, and vm.work=0 to wait for interrupts with wfi instead of
 * working.
 *
 * The time at which an interrupt is due is a tick of the timebase; the handler reads the cycle counter. How the two
 * belong together is found out first: both counters are read many times, and each pair of readings says that the offset
 * of the cycle counter is in a range. All of the ranges together leave as many cycles as reading takes. */
#include "vm.h"

volatile u64 trap_cause;
enum { BINS = 1 << 16, SAMPLES = 20000 };
enum { SHORTEST = 20, LONGEST = 200 }; /* ticks from one interrupt to the next */
enum { WORK = 32 << 10 };              /* bytes; twice the first cache of the machine `soc` */

static u64 seed, wanted, taken, due, longest, beyond;
enum { PARTS = 1 << 20 };
static u64 cycles_per_tick; /* times PARTS */
static int64_t offset;
static u32 bins[BINS];
static u64 work[WORK / 8];

u64 trap(u64 cause, u64 epc, u64 ra)
{
    return go_on(cause, epc, ra);
}

/* The first instruction reads the counter into t6, which nothing else uses (see the Makefile). */
void latency_vector(void);
asm(".text\n.balign 4\n.globl latency_vector\nlatency_vector:\n"
    "rdcycle t6\n"
    "addi sp, sp, -256\n"
    ".irp r, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30\n sd x\\r, (\\r * 8)(sp)\n .endr\n"
    "csrr a0, scause\n mv a1, t6\n call interrupt\n"
    ".irp r, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30\n ld x\\r, (\\r * 8)(sp)\n .endr\n"
    "addi sp, sp, 256\n sret\n");

static void next(void)
{
    due = now() + SHORTEST + below(&seed, LONGEST - SHORTEST + 1);
    call(TIME, 0, due, 0, 0);
}

void interrupt(u64 cause, u64 at)
{
    if (cause != (1ull << 63 | 5)) {
        print("latency: FAILED: another trap than the timer's\r\n");
        call(SRST, 0, 0, 1, 0);
    }
    u64 late = at - offset - due * cycles_per_tick / PARTS;
    bins[late < BINS ? late : BINS - 1]++;
    beyond += late >= BINS;
    if (late > longest)
        longest = late;
    taken++;
    if (taken < wanted)
        next();
    else
        call(TIME, 0, ~0ull, 0, 0);
}

/* The lateness that this many of the interrupts do not exceed. */
static u64 at_rank(u64 rank)
{
    u64 n = 0;
    for (u64 i = 0; i < BINS; i++)
        if ((n += bins[i]) >= rank)
            return i == BINS - 1 && beyond ? longest : i;
    return longest;
}

/* What is interrupted: loads and stores that miss the cache now and then, multiplications, divisions. */
static void work_on(void)
{
    static u64 state, sum;
    u64 r = random(&state);
    work[r % (WORK / 8)] += r;
    sum += work[(r >> 32) % (WORK / 8)] / (r | 1);
}

static void number_line(const char *text, u64 n)
{
    print(text);
    print_number(n);
}

void start(u64 hart, const uint8_t *tree)
{
    (void)hart;
    wanted = option(tree, "vm.interrupts=", 10000);
    seed = option(tree, "vm.seed=", 1);
    u64 works = option(tree, "vm.work=", 1), all = option(tree, "vm.histogram=", 0),
        after = option(tree, "vm.after=", 0);
    u64 t0, t1, c0, c1;
    /* Cycles of a tick, over some of them: the nearest whole number, if it is near. */
    for (t0 = now(); now() == t0;)
        ;
    c0 = cycle(), t0 = now();
    while (now() < t0 + 2000)
        ;
    c1 = cycle(), t1 = now();
    cycles_per_tick = (c1 - c0) * PARTS / (t1 - t0);
    u64 whole = (cycles_per_tick + PARTS / 2) / PARTS * PARTS;
    if (cycles_per_tick - whole + PARTS / 10 < PARTS / 5)
        cycles_per_tick = whole;
    /* At the time t, that is between cycle t * ratio and the cycle before that of t + 1, the counter is between two
     * readings. */
    int64_t least = INT64_MIN, most = INT64_MAX;
    for (u64 i = 0; i < SAMPLES; i++) {
        u64 before = cycle(), t = now(), after = cycle();
        int64_t low = before - (t + 1) * cycles_per_tick / PARTS + 1, high = after - t * cycles_per_tick / PARTS;
        least = low > least ? low : least;
        most = high < most ? high : most;
        for (u64 k = below(&seed, 8); k; k--)
            asm volatile("");
    }
    if (least > most) {
        print("latency: FAILED: the cycle counter does not go with the time\r\n");
        call(SRST, 0, 0, 1, 0);
    }
    /* Nobody has set the counter since the machine started, if that is possible. */
    offset = least <= 0 && most >= 0 ? 0 : least + (most - least) / 2;
    number_line("latency: ", cycles_per_tick / PARTS);
    number_line(" cycles a tick, known to ", most - least);
    print(offset ? " cycles, from another start\r\n" : " cycles, from the same start\r\n");
    asm volatile("csrw stvec, %0\n csrw sie, %1" ::"r"(latency_vector), "r"(1 << 5));
    call(TIME, 0, after, 0, 0);
    while (now() < after)
        asm volatile("wfi");
    next();
    while (*(volatile u64 *)&taken < wanted) {
        if (works)
            asm volatile("csrsi sstatus, 2");
        else /* It wakes with interrupts still disabled, so that none is missed. */
            asm volatile("wfi\n csrsi sstatus, 2\n csrci sstatus, 2");
        for (int i = 0; works && i < 100; i++)
            work_on();
        asm volatile("csrci sstatus, 2");
    }
    number_line("latency: ", taken);
    number_line(" interrupts, min ", at_rank(1));
    number_line(", median ", at_rank((taken + 1) / 2));
    number_line(", p99.99 ", at_rank(taken - taken / 10000));
    number_line(", max ", longest);
    print(" cycles\r\n");
    for (u64 i = 0; all && i < BINS; i++)
        if (bins[i]) {
            number_line("latency: ", i);
            number_line(" cycles: ", bins[i]);
            print("\r\n");
        }
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

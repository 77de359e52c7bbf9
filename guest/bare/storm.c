/* Everything at once on every hart: atomic counters, locks of both kinds, code that is rewritten
 * (a hart's own, and functions that all call), interrupts from others. What is added must be there.
 * With fewer than four harts only those that exist take part; with one, all of it is skipped. */
#include "bare.h"

#define ROUNDS 400
static int n; /* harts */
static struct { u64 volatile v; u64 pad[7]; } cell[16] __attribute__((aligned(64)));
#define V(i) (cell[i].v)
#define NIRQ (*(u64 volatile *)&me()->nirq)

/* For each hart a function that it rewrites all the time: all in one page, and beside data. */
static u32 own[MAX_HARTS][16] __attribute__((aligned(4096)));
/* A function that whoever has the lock rewrites; behind it the number that it returns. */
static u32 shared[8] __attribute__((aligned(4096)));
static u64 volatile version;
static u64 volatile bad, rung[MAX_HARTS], taken[MAX_HARTS], counted[MAX_HARTS];
typedef u64 (*fn0)(void);
#define RET 0x00008067
static u32 li_a0(u64 v) { return (u32)(v & 0x7ff) << 20 | 10 << 7 | 0x13; }
static u64 call(u32 *code) { return ((fn0)code)(); }

static void lock(u64 volatile *l)
{
    asm volatile("1: lr.w.aq t0, (%0)\n bnez t0, 1b\n sc.w t0, %1, (%0)\n bnez t0, 1b"
                 ::"r"(l), "r"(1) : "t0", "memory");
}
static void unlock(u64 volatile *l) { asm volatile("amoswap.w.rl zero, zero, (%0)" ::"r"(l) : "memory"); }
static int try_lock(u64 volatile *l)
{
    u64 got;
    asm volatile("amoswap.w.aq %0, %2, (%1)" : "=r"(got) : "r"(l), "r"(1) : "memory");
    return !got;
}

static void rewrite(u64 i, u64 k)
{
    own[i][0] = li_a0(k);
    own[i][1] = RET;
    own[i][8] = (u32)k;
    FENCE_I();
    if (call(own[i]) != (k & 0x7ff))
        bad++;
}
static void ring(u64 to)
{
    __atomic_add_fetch(&rung[to], 1, __ATOMIC_SEQ_CST);
    wr32(MSIP(to), 1);
}
static void heed(u64 i)
{
    if (csrr(mip) & 8) {
        u64 before = NIRQ;
        csrs(mie, 8);
        csrs(mstatus, ST_MIE); /* the handler masks MSIE */
        while (NIRQ == before)
            ;
        csrc(mstatus, ST_MIE);
        wr32(MSIP(i), 0);
        taken[i]++;
    }
}
static void storm(u64 i)
{
    u64 seed = 88172645463325252ull + i;
    me()->nirq = 0;
    __atomic_add_fetch(&V(15), 1, __ATOMIC_SEQ_CST);
    while (V(15) != (u64)n)
        ;
    for (u64 k = 0; k < ROUNDS; k++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        asm volatile("amoadd.d zero, %1, (%0)" ::"r"(&V(0)), "r"(1) : "memory");
        asm volatile("amoadd.w zero, %1, (%0)" ::"r"((u32 *)&V(1) + (seed & 1)), "r"(1) : "memory");
        asm volatile("1: lr.d t0, (%0)\n addi t0, t0, 3\n sc.d t0, t0, (%0)\n bnez t0, 1b"
                     ::"r"(&V(2)) : "t0", "memory");
        lock(&V(3));
        V(4) = V(4) + 1;
        unlock(&V(3));
        rewrite(i, seed);
        if (try_lock(&V(5))) {
            version = version + 1;
            shared[0] = li_a0(version);
            shared[1] = RET;
            FENCE_I();
            if (call(shared) != (version & 0x7ff))
                bad++;
            asm volatile("fence rw, w\n sw zero, 0(%0)" ::"r"(&V(5)) : "memory");
        } else {
            /* Whatever was there before a fence, or newer. */
            u64 least = version;
            FENCE();
            FENCE_I();
            lock(&V(5));
            FENCE_I();
            if (call(shared) != (version & 0x7ff) || version < least)
                bad++;
            unlock(&V(5));
        }
        if (!(seed & 7))
            ring((i + 1 + (seed >> 8) % (n - 1)) % n);
        heed(i);
    }
    /* Nobody rings any more once all are here. */
    __atomic_add_fetch(&V(14), 1, __ATOMIC_SEQ_CST);
    while (V(14) != (u64)n)
        heed(i);
    heed(i);
    counted[i] = me()->nirq;
}

void tests(void)
{
    n = wait_harts(4);
    if (n < 2) {
        skip("storm", "one hart");
        return;
    }
    if (n > 4)
        n = 4;
    for (int i = 0; i < 16; i++)
        V(i) = 0;
    shared[0] = li_a0(0);
    shared[1] = RET;
    FENCE_I();
    for (int i = 1; i < n; i++)
        start_hart(i, storm, i);
    storm(0);
    for (int i = 1; i < n; i++)
        join_hart(i);
    u64 all = (u64)n * ROUNDS;
    CHECK("amoadd.d", V(0), all);
    CHECK("amoadd.w", (V(1) & 0xffffffff) + (V(1) >> 32), all);
    CHECK("lrsc", V(2), 3 * all);
    CHECK("lock", V(4), all);
    CHECK("code", bad, 0);
    group("ipi");
    for (int i = 0; i < n; i++) {
        note("hart", i);
        CHECK("some, but no more than were sent", taken[i] > 0 && taken[i] <= rung[i], 1);
        CHECK("taken", counted[i], taken[i]);
    }
    end_group();
}

/* Lines that harts fight for: counters, locks of four kinds, a turn that is passed on, false sharing, a ring between
 * two harts, and a mutex with a condition variable whose waiters sleep until an interrupt. What they compute is
 * checked here; that their cycles follow from the machine alone is checked by tests that run this in several ways.
 * With fewer than four harts only those that exist take part; with one, all of it is skipped. */
#include "bare.h"

/* crowd.c is the same for more harts. */
#ifndef HARTS
#define HARTS 4
#define ROUNDS 400
#endif
static int n; /* harts */
#define CELLS (4 + 3 * HARTS)
static struct { u64 volatile v; u64 pad[7]; } cell[CELLS] __attribute__((aligned(64)));
#define V(i) (cell[i].v)
/* Two cells of each hart. */
#define WAITS(i) V(4 + (i))
#define BEHIND(i) V(4 + HARTS + (i))

static u64 load(u64 volatile *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store(u64 volatile *p, u64 v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

static u64 barrier_count, barrier_sense;
static void barrier(void)
{
    u64 s = __atomic_load_n(&barrier_sense, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&barrier_count, 1, __ATOMIC_ACQ_REL) == (u64)n) {
        barrier_count = 0;
        __atomic_store_n(&barrier_sense, s + 1, __ATOMIC_RELEASE);
    } else
        while (__atomic_load_n(&barrier_sense, __ATOMIC_ACQUIRE) == s)
            ;
}
static void everywhere(void (*fn)(u64))
{
    for (int i = 0; i < CELLS; i++)
        V(i) = 0;
    FENCE();
    for (int i = 1; i < n; i++)
        start_hart(i, fn, i);
    fn(0);
    for (int i = 1; i < n; i++)
        join_hart(i);
}

static void counter(u64 i)
{
    (void)i;
    barrier();
    for (int k = 0; k < ROUNDS; k++)
        __atomic_fetch_add(&V(0), 1, __ATOMIC_RELAXED);
}

/* Work under a lock: a line of its own that has to come along. */
static void inside(void) { V(1) = V(1) + 1; }

static void test_and_set(u64 i)
{
    (void)i;
    barrier();
    for (int k = 0; k < ROUNDS; k++) {
        while (__atomic_exchange_n(&V(0), 1, __ATOMIC_ACQUIRE))
            ;
        inside();
        store(&V(0), 0);
    }
}

static void ticket(u64 i)
{
    (void)i;
    barrier();
    for (int k = 0; k < ROUNDS; k++) {
        u64 mine = __atomic_fetch_add(&V(2), 1, __ATOMIC_RELAXED);
        while (load(&V(0)) != mine)
            ;
        inside();
        store(&V(0), mine + 1);
    }
}

/* Mellor-Crummey and Scott: each waits on a line of its own. V(0) is the last in the queue, by number from 1;
 * whether hart i waits, and who is behind it. */
static void mcs(u64 i)
{
    barrier();
    for (int k = 0; k < ROUNDS; k++) {
        store(&BEHIND(i), 0);
        store(&WAITS(i), 1);
        u64 before = __atomic_exchange_n(&V(0), i + 1, __ATOMIC_ACQ_REL);
        if (before) {
            store(&BEHIND(before - 1), i + 1);
            while (load(&WAITS(i)))
                ;
        }
        inside();
        u64 me = i + 1;
        if (!load(&BEHIND(i)) &&
            __atomic_compare_exchange_n(&V(0), &me, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        u64 behind;
        while (!(behind = load(&BEHIND(i))))
            ;
        store(&WAITS(behind - 1), 0);
    }
}

static void turn(u64 i)
{
    barrier();
    for (u64 k = 0; k < ROUNDS; k++) {
        while (load(&V(0)) != k * n + i)
            ;
        store(&V(0), k * n + i + 1);
    }
}

static u64 volatile shared_line[HARTS] __attribute__((aligned(64)));
static void false_sharing(u64 i)
{
    shared_line[i] = 0;
    barrier();
    for (int k = 0; k < ROUNDS; k++)
        shared_line[i] = shared_line[i] + 1;
}

/* One producer, one consumer; others have finished. V(0) written, V(1) read, V(2) their sum. */
static u64 volatile slots[64] __attribute__((aligned(64)));
static void ring(u64 i)
{
    barrier();
    if (i > 1)
        return;
    for (u64 k = 0; k < ROUNDS; k++)
        if (i == 0) {
            while (k - load(&V(1)) == 64)
                ;
            slots[k % 64] = 3 * k;
            store(&V(0), k + 1);
        } else {
            while (load(&V(0)) == k)
                ;
            V(2) = V(2) + slots[k % 64];
            store(&V(1), k + 1);
        }
}

/* Sleeps until another hart rings, like a thread in a futex. */
static void doze(u64 i)
{
    while (!(csrr(mip) & 1 << 3))
        asm volatile("wfi");
    wr32(MSIP(i), 0);
}

static void lock(void)
{
    while (__atomic_exchange_n(&V(0), 1, __ATOMIC_ACQUIRE))
        while (load(&V(0)))
            ;
}

/* A mutex and a condition variable: hart 0 gives out work, the others sleep until there is some. V(2) is the work,
 * V(3) who sleeps, a bit each, BEHIND(i) what hart i has done. */
static void condition(u64 i)
{
    wr32(MSIP(i), 0);
    csrw(mie, 1 << 3);
    barrier();
    if (i == 0)
        for (u64 k = 0; k < ROUNDS / 4; k++) {
            lock();
            V(2) = V(2) + 1;
            u64 sleepers = V(3);
            V(3) = 0;
            store(&V(0), 0);
            for (int to = 1; to < n; to++)
                if (sleepers >> to & 1)
                    wr32(MSIP(to), 1);
            for (volatile int wait = 0; wait < (int)(k % 16) * 8; wait++)
                ;
        }
    else
        for (u64 total = 0; total < (u64)(ROUNDS / 4);) {
            lock();
            if (V(2)) {
                V(2) = V(2) - 1;
                BEHIND(i) = BEHIND(i) + 1;
                V(1) = V(1) + 1;
            }
            total = V(1);
            u64 sleep = total < (u64)(ROUNDS / 4) && !V(2);
            if (sleep)
                V(3) = V(3) | 1ull << i;
            /* Whoever takes the last piece wakes those that would wait for more. */
            u64 others = total == (u64)(ROUNDS / 4) ? V(3) : 0;
            store(&V(0), 0);
            for (int to = 1; to < n; to++)
                if (others >> to & 1)
                    wr32(MSIP(to), 1);
            if (sleep)
                doze(i);
        }
    csrw(mie, 0);
}

void tests(void)
{
    n = wait_harts(HARTS);
    if (n < 2) {
        skip("contend", "one hart");
        return;
    }
    if (n > HARTS)
        n = HARTS;
    everywhere(counter);
    CHECK("counter", V(0), ROUNDS * n);
    everywhere(test_and_set);
    CHECK("lock.test_and_set", V(1), ROUNDS * n);
    everywhere(ticket);
    CHECK("lock.ticket", V(1), ROUNDS * n);
    everywhere(mcs);
    CHECK("lock.mcs", V(1), ROUNDS * n);
    everywhere(turn);
    CHECK("turn", V(0), ROUNDS * n);
    everywhere(false_sharing);
    for (int i = 0; i < n; i++)
        CHECK("false_sharing", shared_line[i], ROUNDS);
    everywhere(ring);
    CHECK("ring", V(2), 3ull * ROUNDS * (ROUNDS - 1) / 2);
    everywhere(condition);
    u64 done = 0;
    for (int i = 0; i < n; i++)
        done += BEHIND(i);
    CHECK("condition", done, ROUNDS / 4);
    /* A doorbell may be left over. */
    for (int i = 0; i < n; i++)
        wr32(MSIP(i), 0);
}

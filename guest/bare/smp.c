/* Several harts: atomic counters, locks, message passing, store buffering, IPIs, remote sfence.vma and fence.i.
 * With fewer than four harts only those that exist take part; with one, all of it is skipped. */
#include "bare.h"

#define ROUNDS 2000
static int n; /* harts */
static struct { u64 volatile v; u64 pad[7]; } cell[16] __attribute__((aligned(64)));
#define V(i) (cell[i].v)

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
    for (int i = 1; i < n; i++)
        start_hart(i, fn, i);
    fn(0);
    for (int i = 1; i < n; i++)
        join_hart(i);
}

static void who(u64 i)
{
    barrier();
    V(i) = csrr(mhartid);
}
static void add(u64 i)
{
    (void)i;
    barrier();
    for (int k = 0; k < ROUNDS; k++)
        asm volatile("amoadd.d zero, %1, (%0)" ::"r"(&V(0)), "r"(1) : "memory");
}
static void add_w_halves(u64 i)
{
    u32 *p = (u32 *)&V(0) + (i & 1);
    barrier();
    for (int k = 0; k < ROUNDS; k++)
        asm volatile("amoadd.w zero, %1, (%0)" ::"r"(p), "r"(1) : "memory");
}
static void lrsc(u64 i)
{
    (void)i;
    barrier();
    for (int k = 0; k < ROUNDS; k++)
        asm volatile("1: lr.d t0, (%0)\n addi t0, t0, 1\n sc.d t0, t0, (%0)\n bnez t0, 1b"
                     ::"r"(&V(0)) : "t0", "memory");
}
static void lock_lrsc(u64 i)
{
    (void)i;
    barrier();
    for (int k = 0; k < ROUNDS; k++) {
        asm volatile("1: lr.w.aq t0, (%0)\n bnez t0, 1b\n sc.w t0, %1, (%0)\n bnez t0, 1b"
                     ::"r"(&V(1)), "r"(1) : "t0", "memory");
        V(2) = V(2) + 1;
        V(3) = V(3) + V(2);
        asm volatile("amoswap.w.rl zero, zero, (%0)" ::"r"(&V(1)) : "memory");
    }
}
static void lock_amo(u64 i)
{
    (void)i;
    barrier();
    for (int k = 0; k < ROUNDS; k++) {
        u64 got;
        do
            asm volatile("amoswap.w.aq %0, %2, (%1)" : "=r"(got) : "r"(&V(1)), "r"(1) : "memory");
        while (got);
        V(2) = V(2) + 1;
        asm volatile("fence rw, w\n sw zero, 0(%0)" ::"r"(&V(1)) : "memory");
    }
}
static void max(u64 i)
{
    barrier();
    for (u64 k = 0; k < ROUNDS; k++)
        asm volatile("amomaxu.d zero, %1, (%0)\n amoor.d zero, %3, (%2)"
                     ::"r"(&V(0)), "r"(k * 8 + i), "r"(&V(1)), "r"(1ull << i) : "memory");
}
/* message passing: data, fence, flag */
static u64 bad;
static void message(u64 i)
{
    if (i > 1) {
        barrier();
        return;
    }
    barrier();
    for (u64 k = 1; k <= ROUNDS; k++)
        if (i == 0) {
            V(0) = k;
            asm volatile("fence w, w" ::: "memory");
            V(1) = k;
            while (V(2) != k)
                ;
        } else {
            while (V(1) != k)
                ;
            asm volatile("fence r, r" ::: "memory");
            if (V(0) != k)
                bad++;
            asm volatile("fence rw, w" ::: "memory");
            V(2) = k;
        }
}
/* store buffering: with full fences both cannot read the old value */
static u64 volatile x[ROUNDS], y[ROUNDS];
static u64 seen[2][ROUNDS];
static void store_buffer(u64 i)
{
    barrier();
    if (i > 1)
        return;
    for (u64 k = 0; k < ROUNDS; k++) {
        *(i ? &y[k] : &x[k]) = 1;
        asm volatile("fence rw, rw" ::: "memory");
        seen[i][k] = i ? x[k] : y[k];
    }
}
/* coherence: a reader never sees one location go back */
static void coherence(u64 i)
{
    barrier();
    if (i == 0)
        for (u64 k = 1; k <= ROUNDS * 4; k++)
            V(0) = k;
    else {
        u64 last = 0;
        while (last != ROUNDS * 4) {
            u64 v = V(0);
            if (v < last)
                V(8 + i) = 1;
            last = v;
        }
    }
}
/* a store of another hart between LR and SC ends the reservation */
static void steal(u64 i)
{
    if (i == 0) {
        u64 f, old;
        barrier();
        for (u64 k = 1; k <= 100; k++) {
            asm volatile("lr.d %0, (%1)" : "=r"(old) : "r"(&V(0)) : "memory");
            V(1) = k;
            while (V(2) != k)
                ;
            asm volatile("sc.d %0, %2, (%1)" : "=r"(f) : "r"(&V(0)), "r"(0xdead) : "memory");
            if (!f || V(0) != k)
                bad++;
        }
    } else {
        barrier();
        if (i == 1)
            for (u64 k = 1; k <= 100; k++) {
                while (V(1) != k)
                    ;
                V(0) = k; /* another value each time: one that compares is caught out too */
                FENCE();
                V(2) = k;
            }
    }
}
/* IPIs: each hart interrupts each; the handler masks MSIE, which the receiver opens again */
static void ring(u64 i)
{
    struct hart *h = me();
    h->nirq = 0;
    wr32(MSIP(i), 0);
    barrier();
    for (int k = 0; k < n; k++)
        for (int to = 0; to < n; to++) {
            if ((int)i == k && to != k)
                wr32(MSIP(to), 1);
            if (to == (int)i && (int)i != k) {
                csrs(mie, 8);
                csrs(mstatus, ST_MIE);
                u64 had = k < (int)i ? k : k - 1; /* one from each ringer before k */
                while (((struct hart volatile *)h)->nirq == had)
                    ;
                csrc(mstatus, ST_MIE);
                wr32(MSIP(i), 0);
            }
            barrier();
        }
    V(i) = h->nirq;
    V(8 + i) = h->irq[0];
}

/* each hart has its own comparator */
static void timer(u64 i)
{
    struct hart *h = me();
    h->nirq = 0;
    barrier();
    u64 t = rd64(MTIME) + 500 * (i + 1);
    wr64(MTIMECMP(i), t);
    csrw(mie, 1 << 7);
    while (!(csrr(mip) & 1 << 7))
        asm volatile("wfi");
    V(8 + i) = rd64(MTIME) >= t;
    csrs(mstatus, ST_MIE);
    asm volatile("nop\n nop");
    csrc(mstatus, ST_MIE);
    V(i) = h->nirq << 8 | h->irq[0];
    wr64(MTIMECMP(i), -1);
}

static u64 root[512] __attribute__((aligned(4096))), l1[512] __attribute__((aligned(4096))),
    l0[512] __attribute__((aligned(4096)));
static u64 page_a[512] __attribute__((aligned(4096))), page_b[512] __attribute__((aligned(4096)));
#define VA 0x100000000ull
static u64 s_load(u64 va) { return *(volatile u64 *)va; }
/* hart 0 changes the page table; the others fence when told and then see the new page */
static void shootdown(u64 i)
{
    if (i)
        csrw(satp, 8ull << 60 | (u64)root >> 12);
    SFENCE();
    for (u64 k = 0; k < 30; k++) {
        barrier();
        if (i == 0) {
            ((volatile u64 *)l0)[0] = (u64)(k & 1 ? page_b : page_a) >> 2 | 0xcf;
            FENCE();
        }
        barrier();
        if (i) {
            asm volatile("sfence.vma %0, zero" ::"r"(VA) : "memory");
            u64 v = RUN(S, s_load, VA);
            if (v != (k & 1 ? 0xbbb : 0xaaa))
                __atomic_add_fetch(&bad, 1, __ATOMIC_SEQ_CST);
        }
    }
    if (i)
        csrw(satp, 0);
    barrier();
}
static u32 code[16] __attribute__((aligned(64)));
static void remote_code(u64 i)
{
    for (u64 k = 0; k < 30; k++) {
        barrier();
        if (i == (k & 1)) {
            code[0] = (u32)k << 20 | 10 << 7 | 0x13; /* li a0, k */
            code[1] = 0x00008067;
            FENCE();
        }
        barrier();
        FENCE_I();
        if (((u64(*)(void))code)() != k)
            __atomic_add_fetch(&bad, 1, __ATOMIC_SEQ_CST);
    }
    barrier();
}
static void reset(void)
{
    for (int i = 0; i < 16; i++)
        V(i) = 0;
    bad = 0;
    FENCE();
}

void tests(void)
{
    n = wait_harts(4);
    put("# harts ");
    puthex(n);
    put("\n");
    if (n < 2) {
        skip("smp", "one hart");
        return;
    }
    if (n > 4)
        n = 4;
    reset();
    everywhere(who);
    group("mhartid");
    for (int i = 0; i < n; i++)
        CHECK("own", V(i), i);
    end_group();
    reset();
    everywhere(add);
    CHECK("amoadd.d", V(0), ROUNDS * n);
    reset();
    everywhere(add_w_halves);
    CHECK("amoadd.w_neighbours", V(0), (u64)(ROUNDS * (n / 2)) << 32 | (ROUNDS * ((n + 1) / 2)));
    reset();
    everywhere(lrsc);
    CHECK("lrsc.counter", V(0), ROUNDS * n);
    reset();
    everywhere(lock_lrsc);
    CHECK("lock.lrsc", V(2), ROUNDS * n);
    CHECK("lock.lrsc_sum", V(3), (u64)ROUNDS * n * (ROUNDS * n + 1) / 2);
    reset();
    everywhere(lock_amo);
    CHECK("lock.amoswap", V(2), ROUNDS * n);
    reset();
    everywhere(max);
    CHECK("amomaxu", V(0), (ROUNDS - 1) * 8 + n - 1);
    CHECK("amoor", V(1), (1ull << n) - 1);
    reset();
    everywhere(message);
    CHECK("message_passing", bad, 0);
    reset();
    everywhere(store_buffer);
    for (u64 k = 0; k < ROUNDS; k++)
        bad += !seen[0][k] && !seen[1][k];
    CHECK("store_buffering", bad, 0);
    reset();
    everywhere(coherence);
    CHECK("coherence", V(9) | V(10) | V(11), 0);
    reset();
    everywhere(steal);
    CHECK("sc.fails_after_remote_store", bad, 0);
    reset();
    everywhere(ring);
    group("ipi.all_to_all");
    for (int i = 0; i < n; i++) {
        note("hart", i);
        CHECK("count", V(i), n - 1);
        CHECK("cause", V(8 + i), MSI);
    }
    end_group();
    reset();
    everywhere(timer);
    group("timer.each");
    for (int i = 0; i < n; i++) {
        note("hart", i);
        CHECK("taken", V(i), 1 << 8 | MTI);
        CHECK("not early", V(8 + i), 1);
    }
    end_group();
    reset();
    root[2] = 0x80000000ull >> 2 | 0xcf;
    root[4] = (u64)l1 >> 2 | 1;
    l1[0] = (u64)l0 >> 2 | 1;
    page_a[0] = 0xaaa;
    page_b[0] = 0xbbb;
    everywhere(shootdown);
    CHECK("remote.sfence", bad, 0);
    reset();
    everywhere(remote_code);
    CHECK("remote.fence_i", bad, 0);
}

// Four harts that share work, for scripts/sampling-check. KIND is one of
//   unequal  work of different lengths between barriers, at which the others spin
//   one      one hart works, and three spin at a barrier
//   lock     a lock that all want
//   atomics  arithmetic, and a counter that all add to
//   all      these in turn
// ROUNDS says how long.
#include "bare.h"

enum { HARTS = 4, unequal = 1, one = 2, lock = 4, atomics = 8, all = 15 };

static u64 count, sense, held, total[8 * HARTS];
static u64 data[HARTS][8192];

static void barrier(void)
{
    u64 s = __atomic_load_n(&sense, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&count, 1, __ATOMIC_ACQ_REL) == HARTS) {
        count = 0;
        __atomic_store_n(&sense, s + 1, __ATOMIC_RELEASE);
    } else {
        while (__atomic_load_n(&sense, __ATOMIC_ACQUIRE) == s)
            ;
    }
}

// Random places of 64 KiB, a quarter of which L1D holds.
static u64 work(u64 id, u64 n)
{
    u64 x = id + 1, sum = 0;
    for (u64 i = 0; i < n; i++) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        data[id][x >> 51] += x;
        sum += data[id][(x >> 33) & 8191];
    }
    return sum;
}

static u64 arithmetic(u64 id, u64 n)
{
    u64 x = id + 1;
    for (u64 i = 0; i < n; i++)
        x = x * 3 + (x >> 7) + i;
    return x;
}

static void take_and_work(u64 id)
{
    while (__atomic_exchange_n(&held, 1, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&held, __ATOMIC_RELAXED))
            ;
    }
    total[1] += work(id, 20);
    __atomic_store_n(&held, 0, __ATOMIC_RELEASE);
    total[8 * id] += arithmetic(id, 200);
}

static void body(u64 id)
{
    for (int r = 0; (KIND & unequal) && r < ROUNDS; r++) {
        total[8 * id] += work(id, 2000 * (id + 1));
        barrier();
    }
    for (int r = 0; (KIND & one) && r < ROUNDS; r++) {
        if (id == 0)
            total[0] += work(0, 20000);
        barrier();
    }
    for (int r = 0; (KIND & lock) && r < ROUNDS * 40; r++)
        take_and_work(id);
    barrier();
    for (int r = 0; (KIND & atomics) && r < ROUNDS * 100; r++) {
        __atomic_add_fetch(&total[1], 1, __ATOMIC_RELAXED);
        total[8 * id] += arithmetic(id, 300);
    }
    barrier();
}

void tests(void)
{
    for (int i = 1; i < HARTS; i++)
        start_hart(i, body, i);
    body(0);
}

// Programs with known demands on memory, for the error of the light timed mode; KIND chooses one. Started like
// the programs of guest/speed.
#include "speed.h"

#define CHASES 1  // WIDTH chains of dependent loads
#define MIXED 2   // lines in random order, of which WRITES percent are written
#define FLUSH 3   // stores that are flushed, with WORK additions in between
#define PHASES 4  // WORK additions, then WIDTH lines, in turn: shorter than an epoch
#define LOCKS 5   // harts that write lines under one lock
#define BARRIERS 6 // harts that write lines of their own, and meet
#define PROFILE 7 // search of a sequence by a profile, in caches (as hmmer)
#define SIMPLEX 8 // pricing of arcs and updates of nodes (as mcf)
#define QUANTUM 9 // gates on a register of amplitudes (as libquantum)
#define PIPE 10   // one hart produces, the next consumes
#define CONDVAR 11 // harts take turns by a flag that another sets
// lines that non-temporal stores fill, in order or RANDOM, with WORK additions or a fence (FENCED) behind each
#define PAST 12

#ifndef WIDTH
#define WIDTH 1
#endif
#ifndef WRITES
#define WRITES 0
#endif
#ifndef WORK
#define WORK 0
#endif
#ifndef BYTES
#define BYTES (32 * MIB)
#endif
enum { LINES = BYTES / 64 };

static u64 cells[BYTES / 8] PAGE;
// The compiler must not know what they hold, or that nobody reads them.
#define HIDE() __asm__ volatile("" : : "r"(cells) : "memory")

// Additions that depend on one another.
static inline u64 work(u64 n)
{
    u64 x = n;
    for (u64 i = 0; i < n; i++) {
        x += i;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

#if KIND == CHASES
u64 run(u64 hart)
{
    HIDE();
    u64 at[WIDTH], seed = 88172645463325252ul, sum = hart;
    // The order of lines is a multiplication by an odd number: no table has to be built.
    for (int c = 0; c < WIDTH; c++)
        at[c] = next(&seed) % LINES;
    for (u64 i = 0; i < TIMES(2000000) / WIDTH; i++)
        for (int c = 0; c < WIDTH; c++)
            at[c] = (at[c] * 5 + 1 + cells[at[c] * 8]) % LINES;
    for (int c = 0; c < WIDTH; c++)
        sum = mix(sum, at[c]);
    HIDE();
    return sum;
}
#elif KIND == MIXED
u64 run(u64 hart)
{
    HIDE();
    u64 seed = 1234567 + hart, sum = 0;
    for (u64 i = 0; i < TIMES(1500000); i++) {
        u64 r = next(&seed), at = (r >> 20) % LINES * 8;
        if ((long)(r % 128) * 100 < WRITES * 128)
            cells[at] = i;
        else
            sum += cells[at];
    }
    HIDE();
    return sum;
}
#elif KIND == FLUSH
u64 run(u64 hart)
{
    HIDE();
    u64 sum = hart;
    for (u64 i = 0; i < TIMES(500000); i++) {
        u64 *p = &cells[i * 8 % (BYTES / 8)];
        *p = i;
        __asm__ volatile(".option push\n.option arch, +zicbom\ncbo.flush (%0)\n.option pop" : : "r"(p) : "memory");
        sum += work(WORK);
    }
    return sum;
}
#elif KIND == PAST
u64 run(u64 hart)
{
    HIDE();
    u64 sum = hart, seed = 3 + hart;
    (void)seed;
    for (u64 i = 0; i < TIMES(500000); i++) {
#ifdef RANDOM
        u64 *p = &cells[next(&seed) % LINES * 8];
#else
        u64 *p = &cells[i * 8 % (BYTES / 8)];
#endif
        for (int k = 0; k < 8; k++) // ntl.all, in front of the store
            __asm__ volatile("add zero, zero, t0\n\tsd %1, 0(%0)" : : "r"(p + k), "r"(i) : "memory");
#ifdef FENCED
        __asm__ volatile("fence" : : : "memory");
#endif
        sum += work(WORK);
    }
    __asm__ volatile("fence" : : : "memory");
    return sum;
}
#elif KIND == PHASES
u64 run(u64 hart)
{
    HIDE();
    u64 at = 1, sum = hart;
    for (u64 i = 0; i < TIMES(800000) / WIDTH; i++) {
        sum += work(WORK);
        for (int k = 0; k < WIDTH; k++) {
            at = (at * 5 + 1) % LINES;
            cells[at * 8] += i;
        }
    }
    return sum;
}
#elif KIND == LOCKS
static u64 lock LINE, turns LINE;
u64 run(u64 hart)
{
    HIDE();
    u64 seed = 99 + hart, at = hart;
    for (u64 i = 0; i < TIMES(20000); i++) {
        while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
            while (__atomic_load_n(&lock, __ATOMIC_RELAXED))
                ;
        for (int k = 0; k < 8; k++) {
            at = next(&seed) % LINES;
            cells[at * 8] += hart;
        }
        turns++;
        __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
        seed += work(200);
    }
    return turns > TIMES(20000) ? at : hart;
}
#elif KIND == BARRIERS
static u64 arrived LINE, phase LINE;
u64 run(u64 hart)
{
    HIDE();
    u64 seed = 5 + hart, sum = 0;
    for (u64 i = 0; i < TIMES(4000); i++) {
        // Harts have different amounts of work.
        for (u64 k = 0; k < 16 * (hart + 1); k++) {
            u64 at = next(&seed) % (LINES / HARTS) + hart * (LINES / HARTS);
            cells[at * 8] += i;
        }
        u64 now = __atomic_load_n(&phase, __ATOMIC_ACQUIRE);
        if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == HARTS) {
            arrived = 0;
            __atomic_store_n(&phase, now + 1, __ATOMIC_RELEASE);
        } else {
            while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == now)
                ;
        }
        sum += seed;
    }
    return sum;
}
#elif KIND == PIPE
enum { SLOTS = 64 };
static u64 head LINE, tail LINE, slots[SLOTS * 8] LINE;
u64 run(u64 hart)
{
    HIDE();
    u64 sum = 0, seed = 7;
    if (hart > 1)
        return 0;
    for (u64 i = 0; i < TIMES(100000); i++) {
        if (hart == 0) {
            while (i - __atomic_load_n(&tail, __ATOMIC_ACQUIRE) >= SLOTS)
                ;
            u64 at = next(&seed) % LINES;
            cells[at * 8] += i; // what it does for each
            slots[i % SLOTS * 8] = at;
            __atomic_store_n(&head, i + 1, __ATOMIC_RELEASE);
        } else {
            while (__atomic_load_n(&head, __ATOMIC_ACQUIRE) <= i)
                ;
            sum += cells[slots[i % SLOTS * 8] * 8];
            __atomic_store_n(&tail, i + 1, __ATOMIC_RELEASE);
        }
    }
    return sum;
}
#elif KIND == CONDVAR
static u64 turn LINE;
u64 run(u64 hart)
{
    HIDE();
    u64 seed = 17 + hart, sum = 0;
    for (u64 i = 0; i < TIMES(20000); i++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) % HARTS != hart)
            ;
        for (int k = 0; k < 4; k++) {
            u64 at = next(&seed) % LINES;
            cells[at * 8] += i;
        }
        __atomic_store_n(&turn, turn + 1, __ATOMIC_RELEASE);
    }
    return sum;
}
#elif KIND == PROFILE
// Dynamic programming over the positions of a profile: three states of a position depend on those of the one before.
enum { LENGTH = 96, LETTERS = 20 };
static int match[LENGTH][LETTERS], rows[2][3][LENGTH + 1];
static inline int most(int a, int b)
{
    return a > b ? a : b;
}
u64 run(u64 hart)
{
    HIDE();
    u64 seed = 31 + hart;
    int best = 0;
    for (int i = 0; i < LENGTH; i++)
        for (int a = 0; a < LETTERS; a++)
            match[i][a] = (int)(next(&seed) % 21) - 12;
    // The database streams by, a byte for each row of the computation.
    u8 *letters = (u8 *)cells;
    for (u64 n = 0; n < TIMES(40000); n++) {
        int(*old)[LENGTH + 1] = rows[n & 1], (*now)[LENGTH + 1] = rows[~n & 1];
        int a = (letters[n % BYTES] + next(&seed)) % LETTERS;
        for (int i = 1; i <= LENGTH; i++) {
            int m = most(old[0][i - 1], most(old[1][i - 1], old[2][i - 1])) + match[i - 1][a];
            now[0][i] = most(m, 0);
            now[1][i] = most(old[0][i] - 11, old[1][i] - 1);
            now[2][i] = most(now[0][i - 1] - 11, now[2][i - 1] - 1);
            best = most(best, now[0][i]);
        }
    }
    return best;
}
#elif KIND == SIMPLEX
// Arcs are priced in order; each needs the potentials of two nodes anywhere. Some arcs enter the basis, and change the
// flow of arcs and the potentials of nodes on their way to the root.
struct node {
    u64 potential, parent, flow, pad[5];
};
struct arc {
    u32 tail, head;
    u64 cost, flow;
};
enum { NODES = BYTES / 4 / 64, ARCS = BYTES / 4 / 24 };
u64 run(u64 hart)
{
    HIDE();
    struct node *nodes = (struct node *)cells;
    struct arc *arcs = (struct arc *)(nodes + NODES);
    u64 seed = 77 + hart, sum = 0;
    u64 n = TIMES(700000);
    for (u64 i = 0; i < n; i++) {
        struct arc *a = &arcs[i % ARCS];
        u64 r = next(&seed);
        // The ends are drawn instead of read: memory holds zeros at first.
        struct node *t = &nodes[r % NODES], *h = &nodes[(r >> 32) % NODES];
        u64 reduced = a->cost + t->potential - h->potential + (r >> 60);
        if (reduced < 6) {
            a->flow++;
            for (int up = 0; up < 3; up++) {
                h->potential += reduced;
                h->flow++;
                h = &nodes[(h->parent + next(&seed)) % NODES];
            }
        }
        sum += reduced;
    }
    return sum;
}
#elif KIND == QUANTUM
// A basis state with its amplitude takes 16 bytes; a gate passes over all of them.
struct state {
    u64 bits, amplitude;
};
u64 run(u64 hart)
{
    HIDE();
    struct state *states = (struct state *)cells;
    enum { STATES = BYTES / 2 / 16 };
    u64 sum = hart, gate = 0;
    for (u64 left = TIMES(6000000); left > 0; gate++) {
        u64 n = left < STATES ? left : STATES;
        u64 control = 1ul << gate % 11, target = 1ul << (gate * 7 + 3) % 13;
        if (gate % 3 == 2) {
            for (u64 i = 0; i < n; i++) // a phase, which only looks at most states
                if ((states[i].bits & control) == control)
                    states[i].amplitude += gate;
        } else {
            for (u64 i = 0; i < n; i++) // not, controlled
                states[i].bits ^= ((states[i].bits & control) == 0) * target;
        }
        left -= n;
    }
    for (u64 i = 0; i < 64; i++)
        sum = mix(sum, states[i].bits + states[i].amplitude);
    return sum;
}
#endif

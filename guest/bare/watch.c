/* Harts that look at the memory's and at one another's statistics, and change the delay method, while all of them move
 * lines. What they see decides what they do next, so that a run in which anybody saw something else takes another time;
 * whoever runs this in several ways compares. Only for machines with the control block. */
#include "bare.h"

#define HARTS 4
#define ROUNDS 120
#define LINES 512 /* twice the L1D */
#define CTL 0x4000000ull
#define CTL_ID 0x49524f47414eull
#define METHOD 0x100
#define REGION(n) (0x1000 + (n) * 0x100)
#define HART(n) (0x4000 + (n) * 0x100)
enum { READS = 0x00, WRITES = 0x08, ROW_HITS = 0x20, ACTIVATIONS = 0x30, INSTRUCTIONS = 0x00, MISSES = 0x18 };

static u64 lines[HARTS][LINES][8] __attribute__((aligned(64)));
static u64 seen[HARTS][8] __attribute__((aligned(64)));
static int n; /* harts */

static u64 ctl(u64 offset) { return rd64(CTL + offset); }

static void work(u64 i)
{
    u64 hash = i + 1;
    for (u64 k = 0; k < ROUNDS; k++) {
        for (u64 j = 0; j < 8 + (hash & 7); j++) {
            hash = hash * 6364136223846793005ull + 1442695040888963407ull;
            lines[i][hash >> 33 & (LINES - 1)][0] += j;
        }
        hash += ctl(REGION(0) + (k & 1 ? READS : ACTIVATIONS)) + ctl(REGION(0) + (k & 2 ? WRITES : ROW_HITS));
        hash += ctl(HART((i + 1) % n) + (k & 4 ? INSTRUCTIONS : MISSES));
        if (i == 1 && k % 16 == 0)
            wr64(CTL + METHOD, k / 16 % 4);
    }
    seen[i][0] = hash;
}

void tests(void)
{
    u64 id = 0;
    TRY("ld %0, 0(%1)", LIST("=&r"(id)), LIST("r"(CTL)));
    if (cause() != NONE || id != CTL_ID) {
        skip("watch", "no control block");
        return;
    }
    n = wait_harts(HARTS);
    if (n > HARTS)
        n = HARTS;
    for (int i = 1; i < n; i++)
        start_hart(i, work, i);
    work(0);
    for (int i = 1; i < n; i++)
        join_hart(i);
    for (int i = 0; i < n; i++)
        CHECK("watch", seen[i][0] != 0, 1);
}

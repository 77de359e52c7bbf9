// Dependent loads through a random cycle of 32 KiB.
#include "speed.h"
enum { N = 4096 };
static u64 cells[N];
u64 run(void)
{
    u64 seed = 88172645463325252ul;
    for (u64 i = 0; i < N; i++)
        cells[i] = i;
    // Sattolo's shuffle: one cycle through all cells.
    for (u64 i = N - 1; i > 0; i--) {
        u64 j = next(&seed) % i, t = cells[i];
        cells[i] = cells[j];
        cells[j] = t;
    }
    u64 at = 0;
    for (u64 i = 0; i < TIMES(12000000); i++)
        at = cells[at];
    return at;
}

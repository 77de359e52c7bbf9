// Integer arithmetic in registers with branches: the length of Collatz sequences.
#include "speed.h"
u64 run(void)
{
    u64 steps = 0;
    for (u64 n = 1; n < TIMES(160000); n++)
        for (u64 x = n; x != 1; steps++)
            x = x & 1 ? 3 * x + 1 : x >> 1;
    return steps;
}

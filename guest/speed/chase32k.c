// Dependent loads through a random cycle of 32 KiB.
#include "speed.h"
#include "cycle.h"
enum { N = 32 * 1024 / 8 };
static u64 cells[N] LINE;
u64 run(u64 hart)
{
    make_cycle(cells, N, 1);
    return walk(cells, TIMES(30000000)) + hart;
}

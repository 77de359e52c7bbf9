// Dependent loads through a random cycle of all lines of 64 MiB, without paging.
#include "speed.h"
#include "cycle.h"
enum { N = 64 * MIB / 64 };
static u64 cells[64 * MIB / 8] PAGE;
u64 run(u64 hart)
{
    make_cycle(cells, N, 8);
    return walk(cells, TIMES(4000000)) + hart;
}

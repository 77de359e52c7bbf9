// The work of several harts at the same time: integer arithmetic and sorting, each on data of its
// own.
#include "speed.h"
#include "collatz.h"
#include "heap.h"
static u32 heaps[HARTS][HEAP] LINE;
u64 run(u64 hart)
{
    u64 seed = 1234567 + hart, sum = 0;
    for (u64 pass = 0; pass < TIMES(16); pass++)
        sum = mix(sum, heap_sort(heaps[hart], &seed) + collatz(4000));
    return sum;
}

// Heap sort, again and again.
#include "speed.h"
#include "heap.h"
static u32 heap[HEAP] LINE;
u64 run(u64 hart)
{
    u64 seed = 1234567 + hart, sum = 0;
    for (u64 pass = 0; pass < TIMES(60); pass++)
        sum = mix(sum, heap_sort(heap, &seed));
    return sum;
}

// Heap sort of 16384 words, again and again.
#include "speed.h"
enum { N = 16384 };
static u32 heap[N];
static void sift(u64 at, u64 end)
{
    u32 v = heap[at];
    for (u64 child; (child = 2 * at + 1) < end; at = child) {
        child += child + 1 < end && heap[child + 1] > heap[child];
        if (heap[child] <= v)
            break;
        heap[at] = heap[child];
    }
    heap[at] = v;
}
u64 run(void)
{
    u64 seed = 1234567;
    for (u64 pass = 0; pass < (TIMES(25) ? TIMES(25) : 1); pass++) {
        for (u64 i = 0; i < N; i++)
            heap[i] = (u32)next(&seed);
        for (u64 i = N / 2; i-- > 0;)
            sift(i, N);
        for (u64 end = N; end-- > 1;) {
            u32 top = heap[0];
            heap[0] = heap[end];
            heap[end] = top;
            sift(0, end);
        }
    }
    return heap[9];
}

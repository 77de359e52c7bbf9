// Heap sort of 16384 words.
enum { HEAP = 16384 };
static void sift(u32 *heap, u64 at, u64 end)
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
static u64 heap_sort(u32 *heap, u64 *seed)
{
    for (u64 i = 0; i < HEAP; i++)
        heap[i] = (u32)next(seed);
    for (u64 i = HEAP / 2; i-- > 0;)
        sift(heap, i, HEAP);
    for (u64 end = HEAP; end-- > 1;) {
        u32 top = heap[0];
        heap[0] = heap[end];
        heap[end] = top;
        sift(heap, 0, end);
    }
    u64 sum = 0;
    for (u64 i = 0; i < HEAP; i++)
        sum = mix(sum, heap[i]);
    return sum;
}

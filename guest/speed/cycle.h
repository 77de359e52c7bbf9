// A cycle through n cells, each `stride` words from the next, in random order (Sattolo's shuffle),
// and the walk along it.
static void make_cycle(u64 *cells, u64 n, u64 stride)
{
    u64 seed = 88172645463325252ul;
    for (u64 i = 0; i < n; i++)
        cells[i * stride] = i * stride;
    for (u64 i = n - 1; i > 0; i--) {
        // The upper half of a product instead of a remainder, which costs far more.
        u64 j = (u64)(((__uint128_t)next(&seed) * i) >> 64), t = cells[i * stride];
        cells[i * stride] = cells[j * stride];
        cells[j * stride] = t;
    }
}
static u64 walk(const u64 *cells, u64 steps)
{
    u64 at = 0, sum = 0;
    for (u64 i = 0; i < steps; i++)
        sum += at = cells[at];
    return sum;
}

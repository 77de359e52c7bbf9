// Integer arithmetic in registers with branches: the length of Collatz sequences.
static u64 collatz(u64 limit)
{
    u64 steps = 0;
    for (u64 n = 1; n < limit; n++)
        for (u64 x = n; x != 1; steps++)
            x = x & 1 ? 3 * x + 1 : x >> 1;
    return steps;
}

// Small programs of well-known kinds: a sieve, queens, towers, a quicksort, a median filter, sparse and dense products,
// a hash table, a string search.
#include "region.h"

static u8 sieve[4096];
static NOINLINE u64 primes(void)
{
    u64 found = 0;
    for (u64 i = 2; i < sizeof sieve; i++)
        sieve[i] = 1;
    for (u64 i = 2; i < sizeof sieve; i++)
        if (sieve[i]) {
            found++;
            for (u64 j = i * i; j < sizeof sieve; j += i)
                sieve[j] = 0;
        }
    return found;
}

static NOINLINE u64 queens(u32 all, u32 columns, u32 left, u32 right)
{
    if (columns == all)
        return 1;
    u64 found = 0;
    u32 possible = all & ~(columns | left | right);
    while (possible) {
        u32 bit = possible & -possible;
        possible -= bit;
        found += queens(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return found;
}

static u32 pegs[3][12], heights[3];
static NOINLINE u64 towers(u32 n, u32 from, u32 to)
{
    if (n == 0)
        return 0;
    u32 other = 3 - from - to;
    u64 moves = towers(n - 1, from, other);
    pegs[to][heights[to]++] = pegs[from][--heights[from]];
    return moves + 1 + towers(n - 1, other, to);
}

static u32 numbers[512];
static NOINLINE void quicksort(u32 *x, long low, long high)
{
    while (low < high) {
        u32 pivot = x[(low + high) / 2];
        long i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i <= j) {
                u32 t = x[i];
                x[i++] = x[j];
                x[j--] = t;
            }
        }
        quicksort(x, low, j);
        low = i;
    }
}
static NOINLINE void shuffle(void)
{
    u64 seed = 7;
    for (u64 i = 0; i < 512; i++)
        numbers[i] = (u32)next(&seed);
}

static NOINLINE void median(const u32 *in, u32 *out, u64 n)
{
    for (u64 i = 1; i + 1 < n; i++) {
        u32 a = in[i - 1], b = in[i], c = in[i + 1];
        out[i] = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    }
}

static double dense_a[16][16], dense_b[16][16], dense_c[16][16];
static NOINLINE void products(void)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            double sum = 0;
            for (int k = 0; k < 16; k++)
                sum += dense_a[i][k] * dense_b[k][j];
            dense_c[i][j] = sum;
        }
}

static double values[600], vector[200], result[101];
static u32 columns_of[600], row_starts[101];
static NOINLINE void sparse(void)
{
    for (int r = 0; r < 100; r++) {
        double sum = 0;
        for (u32 i = row_starts[r]; i < row_starts[r + 1]; i++)
            sum += values[i] * vector[columns_of[i]];
        result[r] = sum;
    }
}

static u64 slots[256];
static NOINLINE u64 hash_table(u64 times)
{
    u64 seed = 3, found = 0;
    for (u64 i = 0; i < 256; i++)
        slots[i] = 0;
    for (u64 i = 0; i < times; i++) {
        u64 key = (next(&seed) & 0x1ff) + 1, at = key * 0x9e3779b97f4a7c15ul >> 56;
        while (slots[at] && slots[at] != key && (slots[at] & 7) != 5)
            at = (at + 1) & 255;
        found += slots[at] == key;
        slots[at] = key;
    }
    return found;
}

static char hay[1024];
static NOINLINE u64 search(const char *needle)
{
    u64 found = 0;
    for (u64 i = 0; i + 8 < sizeof hay; i++) {
        u64 j = 0;
        while (needle[j] && hay[i + j] == needle[j])
            j++;
        found += needle[j] == 0;
    }
    return found;
}

u64 run(u64 hart)
{
    u64 sum = hart, seed = 55;
    for (u64 i = 0; i < 600; i++)
        values[i] = (double)i, columns_of[i] = (u32)(next(&seed) % 200);
    for (u32 i = 0; i <= 100; i++)
        row_starts[i] = i * 6;
    for (u64 i = 0; i < sizeof hay; i++)
        hay[i] = "abc"[next(&seed) % 3];
    MEASURE("sieve", sum += primes());
    MEASURE("queens", sum += queens(63, 0, 0, 0));
    MEASURE("towers", heights[0] = 8, heights[1] = heights[2] = 0, sum += towers(8, 0, 2));
    MEASURE("shuffle", shuffle());
    MEASURE("quicksort", shuffle(), quicksort(numbers, 0, 511));
    MEASURE("median", median(numbers, (u32 *)slots, 500));
    MEASURE("dense product", products());
    MEASURE("sparse product", sparse());
    MEASURE("hash table", sum += hash_table(400));
    MEASURE("string search", sum += search("abca"));
    return sum + (u64)dense_c[1][2] + (u64)result[3];
}

// Small programs whose kinds the others do not have: chains of divisions under branches, decimal text, lists that are
// written as they are walked, records packed byte by byte, string comparison, recursion with two calls, a heap, a
// dynamic program, floating point under branches, jumps through a table in an order that is hard to predict.
#include "region.h"

static u64 seed = 1;
static u32 random_number(void)
{
    return next(&seed) >> 33;
}

static u32 values[256];
static NOINLINE u64 divisors(void)
{
    u64 sum = 0;
    for (u32 i = 0; i + 1 < 64; i++) {
        u64 a = values[i] | 1, b = values[i + 1] & 0xffff;
        while (b) {
            u64 t = a % b;
            a = b;
            b = t;
        }
        sum += a * i;
    }
    return sum;
}

static char text[2048];
static NOINLINE u64 decimal(void)
{
    char *to = text;
    for (u32 i = 0; i < 64; i++) {
        char digits[12];
        u32 n = 0, v = values[i] >> (i & 15);
        do {
            digits[n++] = '0' + v % 10;
            v /= 10;
        } while (v);
        while (n)
            *to++ = digits[--n];
        *to++ = ' ';
    }
    *to = 0;
    u64 sum = 0, v = 0;
    for (const char *c = text; *c; c++)
        if (*c == ' ') {
            sum += v;
            v = 0;
        } else {
            v = v * 10 + (*c - '0');
        }
    return sum;
}

static struct node {
    struct node *next;
    u64 key, seen;
} nodes[128], *head;
static NOINLINE u64 reversed(void)
{
    u64 sum = 0;
    for (u32 turn = 0; turn < 8; turn++) {
        struct node *before = 0, *n = head;
        while (n) {
            struct node *after = n->next;
            n->next = before;
            n->seen += turn;
            sum += n->key;
            before = n;
            n = after;
        }
        head = before;
    }
    return sum;
}

static u8 packed[1024];
static NOINLINE u64 records(void)
{
    u64 sum = 0;
    for (u32 i = 0; i < 64; i++) {
        u8 *p = packed + 12 * i;
        u32 v = values[i];
        p[0] = v;
        p[1] = v >> 8;
        p[2] = v >> 16;
        p[3] = v >> 24;
        *(u16 *)(p + 4) = v ^ i;
        *(u16 *)(p + 6) = v + i;
        *(u32 *)(p + 8) = *(u32 *)p + *(u32 *)(p + 4);
        sum += *(u16 *)(p + 10) + p[9];
    }
    return sum;
}

static char words[32][16];
static NOINLINE int compare(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (u8)*a - (u8)*b;
}
static NOINLINE u64 sorted_words(void)
{
    u8 order[32];
    for (u32 i = 0; i < 32; i++) {
        u32 j = i;
        for (; j > 0 && compare(words[order[j - 1]], words[i]) > 0; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    return order[0] + 100 * order[31];
}

static NOINLINE u64 ackermann(u64 m, u64 n)
{
    if (m == 0)
        return n + 1;
    if (n == 0)
        return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

static u32 heap[257];
static NOINLINE u64 heap_sorted(void)
{
    u32 n = 0;
    for (u32 i = 0; i < 200; i++) {
        u32 at = ++n, v = values[i];
        for (; at > 1 && heap[at / 2] > v; at /= 2)
            heap[at] = heap[at / 2];
        heap[at] = v;
    }
    u64 sum = 0;
    while (n) {
        sum = sum * 31 + heap[1];
        u32 v = heap[n--], at = 1;
        for (u32 child; (child = 2 * at) <= n; at = child) {
            if (child < n && heap[child + 1] < heap[child])
                child++;
            if (heap[child] >= v)
                break;
            heap[at] = heap[child];
        }
        heap[at] = v;
    }
    return sum;
}

static u16 row[2][34];
static NOINLINE u64 distance(const char *a, u32 m, const char *b, u32 n)
{
    for (u32 j = 0; j <= n; j++)
        row[0][j] = j;
    for (u32 i = 1; i <= m; i++) {
        u16 *to = row[i & 1], *from = row[~i & 1];
        to[0] = i;
        for (u32 j = 1; j <= n; j++) {
            u32 best = from[j - 1] + (a[i - 1] != b[j - 1]);
            if (from[j] + 1u < best)
                best = from[j] + 1;
            if (to[j - 1] + 1u < best)
                best = to[j - 1] + 1;
            to[j] = best;
        }
    }
    return row[m & 1][n];
}

static NOINLINE u64 mandelbrot(void)
{
    u64 steps = 0;
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++) {
            double cr = x * 0.375 - 2.0, ci = y * 0.25 - 1.0, r = 0, i = 0;
            for (int n = 0; n < 24; n++) {
                double rr = r * r, ii = i * i;
                if (rr + ii > 4.0)
                    break;
                i = 2.0 * r * i + ci;
                r = rr - ii + cr;
                steps++;
            }
        }
    return steps;
}

static double bodies[6][4];
static NOINLINE double forces(void)
{
    double energy = 0;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++) {
            double dx = bodies[i][0] - bodies[j][0], dy = bodies[i][1] - bodies[j][1];
            double d = dx * dx + dy * dy + 0.5, root = d;
            __asm__("fsqrt.d %0, %1" : "=f"(root) : "f"(d));
            double f = bodies[j][2] / (d * root);
            bodies[i][3] += f * dx;
            energy -= f * d;
        }
    return energy;
}

static float samples[160], taps[16], filtered[160];
static NOINLINE void filter(void)
{
    for (int i = 0; i + 16 <= 160; i++) {
        float sum = 0;
        for (int j = 0; j < 16; j++)
            sum += samples[i + j] * taps[j];
        filtered[i] = sum > 1.0f ? 1.0f : sum;
    }
}

static NOINLINE u64 machine(const u8 *code, u32 n)
{
    u64 stack[16], *top = stack, a = 1;
    *top = 1;
    for (u32 i = 0; i < n; i++)
        switch (code[i] & 7) {
        case 0: a += *top; break;
        case 1: a ^= a << 3; break;
        case 2: if (top < stack + 15) *++top = a; break;
        case 3: if (top > stack) a -= *top--; break;
        case 4: a = a * 5 + 1; break;
        case 5: *top = *top + a; break;
        case 6: if (a & 1) i++; break;
        case 7: a >>= 1; break;
        }
    return a;
}

static u32 short_loops[64];
static NOINLINE u64 nested(void)
{
    u64 sum = 0;
    for (u32 i = 0; i < 64; i++)
        for (u32 j = 0; j < (short_loops[i] & 3) + 1; j++)
            for (u32 k = 0; k <= j; k++)
                sum += i ^ k;
    return sum;
}

u64 run(u64 hart)
{
    for (u32 i = 0; i < 256; i++)
        values[i] = random_number();
    for (u32 i = 0; i < 64; i++)
        short_loops[i] = random_number() >> 5;
    for (u32 i = 0; i < 32; i++)
        for (u32 j = 0; j < 15; j++)
            words[i][j] = 'a' + (j < 3 ? random_number() % 2 : random_number() % 26);
    for (u32 i = 0; i < 127; i++)
        nodes[i * 37 & 127].next = &nodes[(i + 1) * 37 & 127], nodes[i].key = values[i];
    nodes[127 * 37 & 127].next = 0;
    head = nodes;
    for (u32 i = 0; i < 6; i++)
        for (u32 j = 0; j < 3; j++)
            bodies[i][j] = 1.0 + (random_number() & 1023) / 64.0;
    for (u32 i = 0; i < 160; i++)
        samples[i] = (random_number() & 255) / 256.0f;
    for (u32 i = 0; i < 16; i++)
        taps[i] = (i + 1) / 64.0f;
    u64 all = 0;
    MEASURE("divisors", all += divisors());
    MEASURE("decimal", all += decimal());
    MEASURE("list reversal", all += reversed());
    MEASURE("packed records", all += records());
    MEASURE("words in order", all += sorted_words());
    MEASURE("ackermann", all += ackermann(2, 12));
    MEASURE("heap", all += heap_sorted());
    MEASURE("edit distance", all += distance(words[0], 15, words[9], 15));
    MEASURE("mandelbrot", all += mandelbrot());
    MEASURE("forces", all += (u64)forces());
    MEASURE("filter", filter(); all += (u64)(1024.0f * filtered[100]));
    MEASURE("stack machine", all += machine((const u8 *)values, 600));
    MEASURE("short nested loops", all += nested());
    return mix(all, hart);
}

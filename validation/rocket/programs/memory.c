// Data cache: copies, conflicts in a set, lines written back by eviction, strides.
#include "region.h"

enum { CACHE = 16384, WAY = 4096 };
static u8 from[65536] PAGE, to[65536] PAGE;

static NOINLINE void copy_words(u64 *d, const u64 *s, u64 words)
{
    for (u64 i = 0; i < words; i += 4) {
        u64 a = s[i], b = s[i + 1], c = s[i + 2], e = s[i + 3];
        d[i] = a;
        d[i + 1] = b;
        d[i + 2] = c;
        d[i + 3] = e;
    }
}

static NOINLINE void copy_bytes(volatile u8 *d, const volatile u8 *s, u64 n)
{
    for (u64 i = 0; i < n; i++)
        d[i] = s[i];
}

static NOINLINE void fill(volatile u64 *d, u64 words)
{
    for (u64 i = 0; i < words; i++)
        d[i] = i;
}

static NOINLINE u64 sum_words(const volatile u64 *s, u64 words)
{
    u64 sum = 0;
    for (u64 i = 0; i < words; i++)
        sum += s[i];
    return sum;
}

// `lines` lines of one set, again and again.
static NOINLINE u64 conflicts(const volatile u8 *s, u64 lines, u64 times)
{
    u64 sum = 0;
    for (u64 t = 0; t < times; t++)
        for (u64 l = 0; l < lines; l++)
            sum += *(const volatile u64 *)(s + l * WAY);
    return sum;
}

static NOINLINE void write_conflicts(volatile u8 *d, u64 lines, u64 times)
{
    for (u64 t = 0; t < times; t++)
        for (u64 l = 0; l < lines; l++)
            *(volatile u64 *)(d + l * WAY) = t;
}

// Writes a line, and evicts it by loads of other lines of its set: a flush without an instruction for it.
static NOINLINE u64 flush_by_eviction(volatile u8 *d, const volatile u8 *other, u64 times)
{
    u64 sum = 0;
    for (u64 t = 0; t < times; t++) {
        *(volatile u64 *)(d + t % 64 * 64) = t;
        for (u64 l = 0; l < 8; l++)
            sum += *(const volatile u64 *)(other + l * WAY + t % 64 * 64);
    }
    return sum;
}

static NOINLINE u64 strides(const volatile u8 *s, u64 stride, u64 times)
{
    u64 sum = 0;
    for (u64 i = 0, at = 0; i < times; i++) {
        sum += s[at];
        at = (at + stride) & 65535;
    }
    return sum;
}

u64 run(u64 hart)
{
    u64 sum = hart;
    MEASURE("copy 4 KiB in the cache", copy_words((u64 *)to, (u64 *)from, 512));
    MEASURE("copy 32 KiB", copy_words((u64 *)to, (u64 *)from, 4096));
    MEASURE("copy bytes", copy_bytes(to, from, 1500));
    MEASURE("fill 32 KiB", fill((u64 *)to, 4096));
    MEASURE("sum 32 KiB", sum += sum_words((u64 *)from, 4096));
    MEASURE("4 lines of a set", sum += conflicts(from, 4, 60));
    MEASURE("5 lines of a set", sum += conflicts(from, 5, 60));
    MEASURE("8 lines of a set", sum += conflicts(from, 8, 60));
    MEASURE("5 written lines of a set", write_conflicts(to, 5, 60));
    MEASURE("8 written lines of a set", write_conflicts(to, 8, 60));
    MEASURE("flush by eviction", sum += flush_by_eviction(to, from, 100));
    MEASURE("stride 72", sum += strides(from, 72, 1000));
    MEASURE("stride 4160", sum += strides(from, 4160, 1000));
    return sum;
}

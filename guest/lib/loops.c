#include "loops.h"
#include "nagori.h"

enum { MAX_WINDOWS = 8 };

#define LOOP __attribute__((noinline, noclone))
#define WORD(p) (*(volatile uint64_t *)(p))
#define CONST_WORD(p) (*(const volatile uint64_t *)(p))

// The stride loops keep their variables in memory, as without optimisation; see
// docs/accuracy.md for why.
#define PLAIN __attribute__((noinline, noclone, optimize("O0")))

PLAIN void loop_read(const volatile char *base, size_t bytes, size_t stride)
{
    uint64_t sum = 0;
    for (size_t off = 0; off < bytes; off += stride)
        sum += CONST_WORD(base + off);
    (void)sum;
}

PLAIN void loop_write(volatile char *base, size_t bytes, size_t stride)
{
    for (size_t off = 0; off < bytes; off += stride)
        WORD(base + off) = off;
}

LOOP void loop_read_banks(const volatile char *base, size_t bytes, size_t stride, size_t bank,
                          size_t banks)
{
    const volatile char *volatile window[MAX_WINDOWS];
    for (size_t b = 0; b < banks; b++)
        window[b] = base + b * bank;
    uint64_t sum = 0;
    for (size_t off = 0; off < bytes; off += stride)
        for (size_t b = 0; b < banks; b++)
            sum += CONST_WORD(window[b] + off);
    __asm__ volatile("" : : "r"(sum));
}

LOOP void loop_write_banks(volatile char *base, size_t bytes, size_t stride, size_t bank,
                           size_t banks)
{
    volatile char *volatile window[MAX_WINDOWS];
    for (size_t b = 0; b < banks; b++)
        window[b] = base + b * bank;
    for (size_t off = 0; off < bytes; off += stride)
        for (size_t b = 0; b < banks; b++)
            WORD(window[b] + off) = off;
}

LOOP void loop_flush(const volatile char *base, size_t bytes)
{
    for (size_t off = 0; off < bytes; off += NAGORI_LINE)
        nagori_cflush_line(base + off);
}

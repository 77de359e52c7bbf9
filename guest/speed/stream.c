// The triad of three arrays, together 64 MiB.
#include "speed.h"
enum { N = 64 * MIB / 24 };
static u64 a[N] PAGE, b[N] PAGE, c[N] PAGE;
u64 run(u64 hart)
{
    u64 sum = hart;
    // The compiler must not know that nobody writes to these.
    __asm__ volatile("" : : "r"(b), "r"(c) : "memory");
    for (u64 pass = 0; pass < TIMES(10); pass++) {
        for (u64 i = 0; i < N; i++)
            a[i] = b[i] + 3 * c[i] + pass;
        sum = mix(sum, a[pass]);
    }
    return sum;
}

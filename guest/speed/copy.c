// Copies of 4 KiB, eight bytes at a time, unrolled.
#include "speed.h"
static u64 from[512], to[512];
u64 run(void)
{
    for (u64 i = 0; i < TIMES(60000); i++) {
        from[i & 511] = i;
        for (u64 k = 0; k < 512; k += 8) {
            u64 *d = to + k;
            const u64 *s = from + k;
            u64 v0 = s[0], v1 = s[1], v2 = s[2], v3 = s[3];
            u64 v4 = s[4], v5 = s[5], v6 = s[6], v7 = s[7];
            d[0] = v0, d[1] = v1, d[2] = v2, d[3] = v3;
            d[4] = v4, d[5] = v5, d[6] = v6, d[7] = v7;
        }
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    return to[7];
}

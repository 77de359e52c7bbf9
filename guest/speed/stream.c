// The triad of three arrays of 8 MiB each.
#include "speed.h"
enum { N = 1 << 20 };
static u64 a[N], b[N], c[N];
u64 run(void)
{
    u64 sum = 0;
    for (u64 pass = 0; pass < (TIMES(12) ? TIMES(12) : 1); pass++) {
        for (u64 i = 0; i < N; i++)
            a[i] = b[i] + 3 * c[i] + pass;
        sum += a[pass];
    }
    return sum;
}

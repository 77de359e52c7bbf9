// An interpreter's loop: a switch over random codes, by a jump table.
#include "speed.h"
enum { N = 4096 };
static u8 codes[N];
u64 run(void)
{
    u64 seed = 42, acc = 1, tmp = 3;
    for (u64 i = 0; i < N; i++)
        codes[i] = (u8)(next(&seed) & 15);
    for (u64 i = 0; i < TIMES(9000000); i++)
        switch (codes[i & (N - 1)]) {
        case 0: acc += tmp; break;
        case 1: acc -= i; break;
        case 2: acc ^= acc << 3; break;
        case 3: acc |= 5; break;
        case 4: tmp = acc; break;
        case 5: tmp += i; break;
        case 6: acc *= 3; break;
        case 7: acc >>= 1; break;
        case 8: tmp ^= acc; break;
        case 9: acc = ~acc; break;
        case 10: tmp <<= 1; break;
        case 11: acc += tmp << 2; break;
        case 12: acc &= ~1ul; break;
        case 13: tmp--; break;
        case 14: acc = acc > tmp ? acc : tmp; break;
        default: acc += 7; break;
        }
    return acc + tmp;
}

// Prediction: calls deeper than the return stack, indirect jumps and branches with patterns.
#include "region.h"

static NOINLINE u64 deep(u64 n)
{
    u64 below = n == 0 ? 0 : deep(n - 1);
    HIDE(below);
    return below + n;
}

static NOINLINE u64 fibonacci(u64 n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static NOINLINE u64 add_one(u64 x) { return x + 1; }
static NOINLINE u64 twice(u64 x) { return x * 2; }
static NOINLINE u64 mixed(u64 x) { return x ^ x >> 3; }
static NOINLINE u64 minus(u64 x) { return x - 7; }
static u64 (*const FUNCTIONS[])(u64) = {add_one, twice, mixed, minus};

// Calls functions in the order that `pattern` gives, two bits for each.
static NOINLINE u64 indirect(u64 pattern, u64 times)
{
    u64 x = 1;
    for (u64 i = 0; i < times; i++) {
        x = FUNCTIONS[pattern & 3](x);
        pattern = pattern >> 2 | pattern << 62;
    }
    return x;
}

static NOINLINE u64 dispatch(const u8 *code, u64 n)
{
    u64 a = 0, b = 1;
    for (u64 i = 0; i < n; i++) {
        switch (code[i]) {
        case 0: a += b; break;
        case 1: b += 3; break;
        case 2: a ^= b << 2; break;
        case 3: b = a + 1; break;
        case 4: a -= b; break;
        case 5: b ^= a; break;
        case 6: a = a << 1 | b >> 63; break;
        default: a++; break;
        }
        HIDE(a);
    }
    return a + b;
}

// Branches that are taken as the bits of `pattern` say, with its period.
static NOINLINE u64 branches(u64 pattern, u64 period, u64 times)
{
    u64 sum = 0, bits = pattern;
    for (u64 i = 0, left = period; i < times; i++) {
        if (bits & 1) {
            sum += i;
            HIDE(sum);
        }
        bits >>= 1;
        if (--left == 0) {
            bits = pattern;
            left = period;
        }
    }
    return sum;
}

static NOINLINE u64 nested(u64 outer, u64 inner)
{
    u64 sum = 0;
    for (u64 i = 0; i < outer; i++)
        for (u64 j = 0; j < inner; j++) {
            sum += j;
            HIDE(sum);
        }
    return sum;
}

static u8 code[512];

u64 run(u64 hart)
{
    u64 sum = hart, seed = 12345;
    for (u64 i = 0; i < sizeof code; i++)
        code[i] = next(&seed) & 7;
    MEASURE("calls 4 deep", for (u64 i = 0; i < 50; i++) sum += deep(4));
    MEASURE("calls 8 deep", for (u64 i = 0; i < 40; i++) sum += deep(8));
    MEASURE("calls 20 deep", for (u64 i = 0; i < 20; i++) sum += deep(20));
    MEASURE("fibonacci", sum += fibonacci(11));
    MEASURE("indirect, one target", sum += indirect(0, 200));
    MEASURE("indirect, two in turn", sum += indirect(0x4444444444444444, 200));
    MEASURE("indirect, four in turn", sum += indirect(0xe4e4e4e4e4e4e4e4, 200));
    MEASURE("indirect, random", sum += indirect(0x9e3779b97f4a7c15, 200));
    MEASURE("switch", sum += dispatch(code, sizeof code));
    MEASURE("branches of period 3", sum += branches(5, 3, 400));
    MEASURE("branches of period 7", sum += branches(0x2d, 7, 400));
    MEASURE("branches of period 40", sum += branches(0x9a3779b97f, 40, 400));
    MEASURE("loops of 3", sum += nested(60, 3));
    MEASURE("loops of 12", sum += nested(30, 12));
    return sum;
}

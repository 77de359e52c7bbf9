/* Non-temporal copies: the same bytes as any copy, with every alignment and length. */
#include "bare.h"
#include "nagori_nt.h"

/* Unless it optimizes for speed, GCC calls this for a copy whose alignment it does not know. */
#if !defined __OPTIMIZE__ || defined __OPTIMIZE_SIZE__
void *memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((u8 *)to)[i] = ((const u8 *)from)[i];
    return to;
}
#endif

enum { SIZE = 4096 };
static u8 from[SIZE] __attribute__((aligned(64)));
static u8 to[SIZE] __attribute__((aligned(64)));

static void fill(u64 seed)
{
    for (u32 i = 0; i < SIZE; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        from[i] = (u8)(seed >> 56);
        to[i] = 0xa5;
    }
}

/* The first byte that is not as it should be behind a copy of n bytes, or SIZE. */
static u64 wrong(u32 at, u32 source, u32 n)
{
    for (u32 i = 0; i < SIZE; i++)
        if (to[i] != (i >= at && i < at + n ? from[source + i - at] : 0xa5))
            return i;
    return SIZE;
}

void tests(void)
{
    group("nt.copy");
    for (u32 k = 0; k < 60; k++) {
        u32 at = k * 7 % 67, source = k * 5 % 19, n = k * k % 600;
        fill(k);
        CHECK("to", (u64)memcpy_nt(to + at, from + source, n), (u64)(to + at));
        note("k", k);
        CHECK("bytes", wrong(at, source, n), SIZE);
    }
    end_group();

    group("nt.set");
    for (u32 k = 0; k < 20; k++) {
        u32 at = k * 11 % 70, n = k * 37;
        fill(k);
        memset_nt(to + at, 0x3c, n);
        note("k", k);
        u64 bad = 0;
        for (u32 i = 0; i < SIZE; i++)
            bad += to[i] != (i >= at && i < at + n ? 0x3c : 0xa5);
        CHECK("bytes", bad, 0);
    }
    end_group();

    group("nt.intrinsics");
    fill(1);
    __riscv_ntl_store((u64 *)to, (u64)0x1122334455667788);
    __riscv_ntl_store((u32 *)(to + 8), 0x99aabbccu, __RISCV_NTLH_INNERMOST_PRIVATE);
    __riscv_ntl_store((u16 *)(to + 12), (u16)0xddee, __RISCV_NTLH_ALL_PRIVATE);
    __riscv_ntl_store(to + 14, (u8)0xff, __RISCV_NTLH_INNERMOST_SHARED);
    nagori_nt_fence();
    CHECK("first", *(u64 *)to, 0x1122334455667788);
    CHECK("second", nagori_nt_load64((u64 *)(to + 8)), 0xa5ffddee99aabbcc);
    end_group();
}

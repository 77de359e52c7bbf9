/* Misaligned loads and stores. The board traps them (address misaligned, as a Rocket core does); QEMU carries
 * them out. Either way an aligned part must not be changed by a store that traps. */
#include "bare.h"

static u8 buf[8192] __attribute__((aligned(4096)));
static u64 root[512] __attribute__((aligned(4096))), l1[512] __attribute__((aligned(4096))),
    l0[512] __attribute__((aligned(4096)));

#define LOAD(n, size)                                                       \
    for (u64 off = 0; off < 16; off++) {                                    \
        u64 x = 0x5eed;                                                     \
        u8 *p = buf + 64 + off;                                             \
        if (!off)                                                           \
            group("load." #n);                                              \
        note("offset", off);                                                \
        TRY(#n " %0, 0(%1)", "+r"(x), "r"(p));                              \
        if (off % size == 0) {                                              \
            EXPECT_NONE("aligned");                                         \
        } else if (on_qemu) {                                               \
            EXPECT_NONE("carried out");                                     \
        } else {                                                            \
            EXPECT_TRAP("traps", C_LOAD_MIS, p);                            \
            CHECK("rd kept", x, 0x5eed);                                    \
        }                                                                   \
    }                                                                       \
    end_group()
#define STORE(n, size)                                                      \
    for (u64 off = 0; off < 16; off++) {                                    \
        u8 *p = buf + 64 + off;                                             \
        if (!off)                                                           \
            group("store." #n);                                             \
        for (int i = 0; i < 32; i++)                                        \
            buf[64 + i] = 0x40 + i;                                         \
        note("offset", off);                                                \
        TRY(#n " %0, 0(%1)", , LIST("r"(0xa1a2a3a4a5a6a7a8ull), "r"(p)));   \
        if (off % size == 0 || on_qemu) {                                   \
            EXPECT_NONE("carried out");                                     \
            for (int i = 0; i < size; i++)                                  \
                CHECK("byte", p[i], 0xa8 - i);                              \
        } else {                                                            \
            EXPECT_TRAP("traps", C_STORE_MIS, p);                           \
            for (int i = 0; i < size; i++)                                  \
                CHECK("byte kept", p[i], 0x40 + off + i);                   \
        }                                                                   \
        CHECK("before", p[-1], off ? 0x40 + off - 1 : buf[63]);             \
        CHECK("after", p[size], 0x40 + off + size);                         \
    }                                                                       \
    end_group()

static u64 s_load(u64 va)
{
    u64 x = 0;
    TRY("ld %0, 0(%1)", "+r"(x), "r"(va));
    return x;
}
static u64 s_store(u64 va)
{
    TRY("sd zero, 0(%0)", , "r"(va));
    return 0;
}

void tests(void)
{
    struct hart *h = me();
    for (int i = 0; i < 8192; i++)
        buf[i] = i * 7;
    LOAD(lh, 2);
    LOAD(lhu, 2);
    LOAD(lw, 4);
    LOAD(lwu, 4);
    LOAD(ld, 8);
    STORE(sh, 2);
    STORE(sw, 4);
    STORE(sd, 8);

    /* across a page end, second page absent: alignment is checked first on the board (it may be either way by the
     * specification); QEMU finds the page fault and gives the address of the part that faults */
    root[2] = 0x80000000ull >> 2 | 0xcf;
    root[4] = (u64)l1 >> 2 | 1;
    l1[0] = (u64)l0 >> 2 | 1;
    l0[0] = (u64)buf >> 2 | 0xcf;
    csrw(satp, 8ull << 60 | (u64)root >> 12);
    SFENCE();
    u64 va = 0x100000ffcull;
    RUN(S, s_load, va);
    CHECK("page_cross.load.cause", h->cause, on_qemu ? C_LOAD_PF : C_LOAD_MIS);
    CHECK("page_cross.load.tval", h->tval, on_qemu ? va + 4 : va);
    *(u32 *)(buf + 0xffc) = 0x12345678;
    RUN(S, s_store, va);
    CHECK("page_cross.store.cause", h->cause, on_qemu ? C_STORE_PF : C_STORE_MIS);
    CHECK("page_cross.store.tval", h->tval, on_qemu ? va + 4 : va);
    CHECK("page_cross.store.nothing_written", *(u32 *)(buf + 0xffc), 0x12345678);
    if (!on_qemu) {
        RUN(S, s_load, 0x100005001ull); /* absent page and misaligned */
        CHECK("absent_page.cause", h->cause == C_LOAD_MIS || h->cause == C_LOAD_PF, 1);
        CHECK("absent_page.tval", h->tval, 0x100005001ull);
        /* handled in S when delegated */
        csrw(medeleg, 1 << C_LOAD_MIS);
        RUN(S, s_load, 0x100000001ull);
        CHECK("delegated.cause", h->cause, C_LOAD_MIS);
        CHECK("delegated.in_s", h->taken_in, S);
        CHECK("delegated.stval", h->tval, 0x100000001ull);
    }
    clean();
}

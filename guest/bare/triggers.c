/* Debug triggers (Sdtrig): mcontrol6 on instructions, loads and stores, as far as the machine has them. */
#include "bare.h"

#define tselect 0x7a0
#define tdata1 0x7a1
#define tdata2 0x7a2
#define tinfo 0x7a4
#define MCONTROL6 (6ull << 60)
#define HIT0 (1ull << 22)
#define MATCH(n) ((u64)(n) << 7)
#define IN_M (1ull << 6)
#define IN_S (1ull << 4)
#define IN_U (1ull << 3)
#define EXECUTE 4ull
#define STORE 2ull
#define LOAD 1ull
enum { NAPOT = 1, AT_LEAST = 2, BELOW = 3, MASK_LOW = 4 };

static u64 cell[16] __attribute__((aligned(64)));

/* Sets a trigger; whether the machine took all of it. */
static int set(u64 n, u64 data1, u64 data2)
{
    csrw(tselect, n);
    csrw(tdata1, MCONTROL6);
    csrw(tdata2, data2);
    csrw(tdata1, MCONTROL6 | data1);
    return csrr(tdata1) == (MCONTROL6 | data1);
}
static void off(u64 n) { set(n, 0, 0); }

static __attribute__((noinline)) u64 bump(u64 v) { TRY("addi %0, %0, 1", "+r"(v), ); return v; }
static __attribute__((noinline)) u64 load(u64 a) { u64 v = 5; TRY("ld %0, 0(%1)", "+r"(v), "r"(a)); return v; }
static __attribute__((noinline)) u64 byte(u64 a) { u64 v = 5; TRY("lbu %0, 0(%1)", "+r"(v), "r"(a)); return v; }
static __attribute__((noinline)) u64 store(u64 a) { TRY("sd %0, 0(%0)", , "r"(a)); return 0; }
static __attribute__((noinline)) u64 swap(u64 a)
{
    u64 v = 5;
    TRY("amoswap.d %0, %0, (%1)", "+r"(v), "r"(a));
    return v;
}
static __attribute__((noinline)) u64 read_tselect(void) { u64 v = 0; TRY_CSRR(tselect, v); return v; }

static void registers(void)
{
    u64 n = 0;
    for (; n < 64; n++) {
        csrw(tselect, n);
        if (csrr(tselect) != n)
            break;
    }
    CHECK("registers.some", n > 0 && n < 64, 1);
    csrw(tselect, 0);
    u64 info = 0;
    TRY_CSRR(tinfo, info);
    CHECK("registers.tinfo", info >> 6 & 1, 1);
    for (int mode = U; mode <= S; mode++) {
        RUN(mode, read_tselect);
        EXPECT_CAUSE(mode == U ? "registers.not_for_u" : "registers.not_for_s", C_ILLEGAL);
    }
}

static void execute(void)
{
    CHECK("execute.without", RUN(U, bump, 1), 2);
    EXPECT_NONE("execute.without_trap");
    u64 at = me()->want_epc;
    if (!set(1, EXECUTE | IN_U, at)) {
        skip("execute", "no such trigger");
        return;
    }
    CHECK("execute.not_done", RUN(U, bump, 1), 1);
    EXPECT_CAUSE("execute.cause", C_BREAK);
    CHECK("execute.epc", me()->epc, at);
    QEMU_DIFFERS("QEMU 7.2 gives no address");
    CHECK("execute.tval", me()->tval, at);
    csrw(tselect, 1);
    QEMU_DIFFERS("QEMU 7.2 does not say which trigger it was");
    CHECK("execute.hit", csrr(tdata1), MCONTROL6 | EXECUTE | IN_U | HIT0);
    CHECK("execute.again", RUN(U, bump, 1), 1);
    CHECK("execute.other_mode", RUN(S, bump, 1), 2);
    set(1, EXECUTE | IN_S, at);
    CHECK("execute.u_not_s", RUN(U, bump, 1), 2);
    RUN(S, bump, 1);
    EXPECT_CAUSE("execute.in_s", C_BREAK);
    off(1);
    CHECK("execute.off", RUN(S, bump, 1), 2);
    EXPECT_NONE("execute.off_no_trap");

    /* A loop that is hot long before it is watched. */
    u64 sum = 0;
    for (int i = 0; i < 3000; i++)
        sum += bump(i);
    CHECK("execute.loop", sum, 3000 * 3001 / 2);
    u64 hits = 0;
    csrs(mstatus, ST_MIE);
    set(1, EXECUTE | IN_M, at);
    for (int i = 0; i < 100; i++) {
        bump(i);
        hits += cause() == C_BREAK;
    }
    off(1);
    csrc(mstatus, ST_MIE);
    CHECK("execute.in_m", hits, 100);
    set(1, EXECUTE | IN_M, at);
    bump(1);
    QEMU_DIFFERS("QEMU 7.2 lets triggers fire in handlers");
    EXPECT_NONE("execute.not_without_mie");
    off(1);
}

static void data(void)
{
    cell[1] = 77;
    u64 a = (u64)&cell[1];
    CHECK("data.without", RUN(U, load, a), 77);
    if (!set(0, LOAD | IN_U, a)) {
        skip("data", "no such trigger");
        return;
    }
    CHECK("load.not_done", RUN(U, load, a), 5);
    EXPECT_CAUSE("load.cause", C_BREAK);
    CHECK("load.epc", me()->epc, me()->want_epc);
    QEMU_DIFFERS("QEMU 7.2 gives no address");
    CHECK("load.tval", me()->tval, a);
    CHECK("load.beside", RUN(U, load, a + 8), 0);
    EXPECT_NONE("load.beside_no_trap");
    RUN(U, store, a);
    EXPECT_NONE("load.not_stores");
    CHECK("load.stored", cell[1], a);
    set(0, STORE | IN_U, a);
    cell[1] = 78;
    RUN(U, store, a);
    EXPECT_CAUSE("store.cause", C_BREAK);
    CHECK("store.not_done", cell[1], 78);
    CHECK("store.not_loads", RUN(U, load, a), 78);
    RUN(U, swap, a);
    EXPECT_CAUSE("store.atomic", C_BREAK);
    CHECK("store.atomic_not_done", cell[1], 78);
    CHECK("store.other_mode", RUN(S, swap, a), 78);
    EXPECT_NONE("store.other_mode_no_trap");
    off(0);
    CHECK("data.off", RUN(U, load, a), 5);

    static const struct { const char *name; u64 how, data2; int first, last; } ranges[] = {
        {"napot", NAPOT, 16 | 7, 16, 31}, {"at_least", AT_LEAST, 16, 16, 63}, {"below", BELOW, 16, 0, 15},
        {"mask_low", MASK_LOW, 0, 16, 23},
    };
    for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        u64 base = (u64)cell, data2 = base + ranges[i].data2;
        if (ranges[i].how == MASK_LOW)
            data2 = 0xfffffff8ull << 32 | ((base + 16) & 0xfffffff8);
        if (!set(0, LOAD | IN_U | MATCH(ranges[i].how), data2)) {
            skip(ranges[i].name, "no such match");
            continue;
        }
        group(ranges[i].name);
        for (int k = 0; k < 64; k++) {
            note("byte", k);
            RUN(U, byte, base + k);
            CHECK("fires", cause(), k >= ranges[i].first && k <= ranges[i].last ? (u64)C_BREAK : NONE);
        }
        end_group();
    }
    off(0);
}

void tests(void)
{
    u64 v = 0;
    TRY_CSRR(tselect, v);
    if (cause() == C_ILLEGAL) {
        skip("triggers", "none");
        return;
    }
    registers();
    execute();
    data();
}

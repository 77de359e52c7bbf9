/* Cache control: CFLUSH.D.L1 in both forms, Zicbom, Zicboz, Zicbop. QEMU 7.2 has none of these (but prefetches are
 * hints everywhere), so that most of this runs on the board only. */
#include "bare.h"
asm(".option arch, +zicbom, +zicboz, +zicbop");

#define LINE 64
#define CBIE(n) ((u64)(n) << 4)
#define CBCFE (1ull << 6)
#define CBZE (1ull << 7)
static u64 page[512] __attribute__((aligned(4096)));
static u64 root[512] __attribute__((aligned(4096))), l1[512] __attribute__((aligned(4096))),
    l0[512] __attribute__((aligned(4096)));
#define VA 0x100000000ull

/* rs1 in a0; both forms of CFLUSH.D.L1 and the four CBOs */
enum { FLUSH_M, FLUSH_U, CLEAN, FLUSH, INVAL, ZERO, NOPS };
static u64 op0(u64 a) { TRY(".insn i 0x73, 0, x0, %0, -0x40", , "r"(a)); return 0; }
static u64 op1(u64 a) { TRY(".insn i 0x73, 0, x0, %0, -0x340", , "r"(a)); return 0; }
static u64 op2(u64 a) { TRY("cbo.clean (%0)", , "r"(a)); return 0; }
static u64 op3(u64 a) { TRY("cbo.flush (%0)", , "r"(a)); return 0; }
static u64 op4(u64 a) { TRY("cbo.inval (%0)", , "r"(a)); return 0; }
static u64 op5(u64 a) { TRY("cbo.zero (%0)", , "r"(a)); return 0; }
static u64 all_m(void) { TRY(".insn i 0x73, 0, x0, x0, -0x40", , ); return 0; }
static u64 all_u(void) { TRY(".insn i 0x73, 0, x0, x0, -0x340", , ); return 0; }
static u64 (*const op[NOPS])(u64) = {op0, op1, op2, op3, op4, op5};
static const char *const name[NOPS] = {"cflush_m", "cflush_u", "clean", "flush", "inval", "zero"};

static u64 prefetches(u64 a)
{
    TRY("prefetch.r 0(%0)\n prefetch.w 32(%0)\n prefetch.i -2048(%0)", , "r"(a));
    return 0;
}
static void hints(void)
{
    prefetches(NOTHING);
    EXPECT_NONE("prefetch.nowhere");
    prefetches((u64)page + 3);
    EXPECT_NONE("prefetch.unaligned");
    RUN(U, prefetches, 0);
    EXPECT_NONE("prefetch.in_u");
}

static void cflush(void)
{
    for (int i = 0; i < 512; i++)
        page[i] = 0x1000 + i;
    op0((u64)page);
    EXPECT_NONE("cflush_m.in_m");
    op0((u64)page + 13);
    EXPECT_NONE("cflush_m.unaligned");
    op1((u64)page + 64);
    EXPECT_NONE("cflush_u.in_m");
    all_m();
    EXPECT_NONE("cflush_m.all_in_m");
    all_u();
    EXPECT_NONE("cflush_u.all_in_m");
    static const char *const n[][4] = {{"cflush_m.in_u", "cflush_m.all_in_u", "cflush_u.in_u", "cflush_u.all_in_u"},
                                       {"cflush_m.in_s", "cflush_m.all_in_s", "cflush_u.in_s", "cflush_u.all_in_s"}};
    for (int mode = U; mode <= S; mode++) {
        RUN(mode, op0, page);
        EXPECT_CAUSE(n[mode][0], C_ILLEGAL);
        RUN(mode, all_m);
        EXPECT_CAUSE(n[mode][1], C_ILLEGAL);
        RUN(mode, op1, page);
        EXPECT_CAUSE(n[mode][2], NONE);
        RUN(mode, all_u);
        EXPECT_CAUSE(n[mode][3], NONE);
    }
    RUN(U, op0, NOTHING); /* the privilege is checked before the address */
    EXPECT_CAUSE("cflush_m.illegal_first", C_ILLEGAL);
    TRY(".insn i 0x73, 0, x1, x0, -0x340", , );
    EXPECT_CAUSE("cflush_u.rd_not_x0", C_ILLEGAL);
    TRY(".insn i 0x73, 0, x1, x0, -0x40", , );
    EXPECT_CAUSE("cflush_m.rd_not_x0", C_ILLEGAL);
    op1(NOTHING + 8);
    EXPECT_TRAP("cflush_u.nowhere", C_LOAD_ACC, NOTHING + 8);
    /* dirty data survives */
    group("cflush.data_kept");
    for (int i = 0; i < 512; i++) {
        page[i] = i * 3;
        if (i % 3 == 0)
            op1((u64)&page[i]);
    }
    all_u();
    for (int i = 0; i < 512; i++)
        CHECK("word", ((volatile u64 *)page)[i], i * 3);
    end_group();
    /* a register that holds zero is an address, not "all" */
    op1(0);
    CHECK("cflush_u.register_zero_is_address", cause(), C_LOAD_ACC);
}

static void gates(void)
{
    /* menvcfg and senvcfg: who may execute what */
    for (int o = CLEAN; o < NOPS; o++) {
        static const char *const n[] = {0, 0, "gate.clean", "gate.flush", "gate.inval", "gate.zero"};
        group(n[o]);
        for (u64 me_ = 0; me_ < 16; me_++)
            for (u64 se = 0; se < 16; se++) {
                if ((me_ & 3) == 2 || (se & 3) == 2)
                    continue; /* CBIE = 2 is reserved */
                csrw(menvcfg, me_ << 4);
                csrw(senvcfg, se << 4);
                u64 bits = o == INVAL ? 3 : o == ZERO ? 8 : 4;
                note("menvcfg", me_ << 4);
                note("senvcfg", se << 4);
                op[o]((u64)page);
                EXPECT_CAUSE("in M", NONE);
                RUN(S, op[o], page);
                EXPECT_CAUSE("in S", me_ & bits ? NONE : C_ILLEGAL);
                RUN(U, op[o], page);
                EXPECT_CAUSE("in U", (me_ & bits) && (se & bits) ? NONE : C_ILLEGAL);
            }
        end_group();
    }
    /* where CBIE says flush, inval keeps the data: dirty data is written back */
    group("inval.as_flush_keeps_data");
    csrw(menvcfg, CBIE(1) | CBCFE | CBZE);
    for (int i = 0; i < 512; i += 8) {
        page[i] = 0x77000 + i;
        RUN(S, op4, &page[i]);
        EXPECT_CAUSE("inval", NONE);
        CHECK("data", ((volatile u64 *)page)[i], 0x77000 + i);
    }
    end_group();
    clean();
}

static void zero(void)
{
    group("zero.block");
    for (u64 off = 0; off < 128; off++) {
        for (int i = 0; i < 32; i++)
            page[i] = ~0ull;
        op5((u64)page + 64 + off);
        EXPECT_CAUSE("any address in the block", NONE);
        note("offset", off);
        for (u64 i = 0; i < 32; i++)
            CHECK("word", ((volatile u64 *)page)[i], i / 8 == 1 + off / LINE ? 0 : ~0ull);
    }
    end_group();
    group("clean_flush.data_kept");
    for (int i = 0; i < 512; i++)
        page[i] = ~(u64)i;
    for (int i = 0; i < 512; i += 5) {
        op2((u64)&page[i] + 1);
        EXPECT_CAUSE("clean", NONE);
        op3((u64)&page[i] + 7);
        EXPECT_CAUSE("flush", NONE);
    }
    for (int i = 0; i < 512; i++)
        CHECK("word", ((volatile u64 *)page)[i], ~(u64)i);
    end_group();
}

/* CFLUSH faults as a load. CBO management is permitted where a load or a store is, zero where a store is; their
 * faults are those of a store with the address in rs1 as it is (CMO specification 2.5.1, 2.5.2). */
static void faults(void)
{
    for (int o = CLEAN; o < NOPS; o++) {
        static const char *const n[] = {0, 0, "nowhere.clean", "nowhere.flush", "nowhere.inval", "nowhere.zero"};
        op[o](NOTHING + 5);
        EXPECT_TRAP(n[o], C_STORE_ACC, NOTHING + 5);
    }
    root[2] = 0x80000000ull >> 2 | 0xcf;
    root[4] = (u64)l1 >> 2 | 1;
    l1[0] = (u64)l0 >> 2 | 1;
    csrw(menvcfg, CBIE(3) | CBCFE | CBZE);
    csrw(satp, 8ull << 60 | (u64)root >> 12);
    u64 va = VA + 3 * 4096 + 77;
    for (int o = FLUSH_U; o < NOPS; o++) {
        group(name[o]);
        for (u64 f = 0; f < 32; f++)
            for (u64 sm = 0; sm < 4; sm++) {
                int sum = sm & 1, mxr = sm >> 1;
                int invalid = !(f & 1) || ((f & 6) == 4) || !(f & 10);
                int user = !!(f & 16);
                int ld = (f & 2) || (mxr && (f & 8)), st = !!(f & 4);
                int ok = o == FLUSH_U ? ld : o == ZERO ? st : ld || st;
                if (o != FLUSH_U && o != ZERO && !ld && !st && (f & 8))
                    continue; /* only executable: unspecified */
                ok = ok && !invalid && !(user && !sum);
                csrc(mstatus, ST_SUM | ST_MXR);
                csrs(mstatus, (sum ? ST_SUM : 0) | (mxr ? ST_MXR : 0));
                l0[3] = (u64)page >> 2 | 0xc0 | f;
                SFENCE();
                RUN(S, op[o], va);
                note("pte", f);
                note("sum", sum);
                note("mxr", mxr);
                if (ok)
                    EXPECT_NONE("permitted");
                else
                    EXPECT_TRAP("page fault", o == FLUSH_U ? C_LOAD_PF : C_STORE_PF, va);
            }
        /* the range of addresses, and the absent page */
        csrc(mstatus, ST_SUM | ST_MXR);
        RUN(S, op[o], VA + 9 * 4096 + 1);
        EXPECT_TRAP("absent", o == FLUSH_U ? C_LOAD_PF : C_STORE_PF, VA + 9 * 4096 + 1);
        RUN(S, op[o], 0x8000000000000040ull);
        EXPECT_TRAP("non-canonical", o == FLUSH_U ? C_LOAD_PF : C_STORE_PF, 0x8000000000000040ull);
        l0[3] = NOTHING >> 2 | 0xcf;
        SFENCE();
        RUN(S, op[o], va);
        EXPECT_TRAP("mapped to nowhere", o == FLUSH_U ? C_LOAD_ACC : C_STORE_ACC, va);
        end_group();
    }
    l0[3] = (u64)page >> 2 | 0x4f; /* A but not D */
    SFENCE();
    RUN(S, op5, va);
    EXPECT_TRAP("zero.needs_d", C_STORE_PF, va);
    RUN(S, op1, va);
    EXPECT_NONE("cflush_u.needs_no_d");
    l0[3] = (u64)page >> 2 | 0x8f; /* D but not A */
    SFENCE();
    RUN(S, op1, va);
    EXPECT_TRAP("cflush_u.needs_a", C_LOAD_PF, va);
    RUN(S, prefetches, VA + 9 * 4096);
    EXPECT_NONE("prefetch.absent_page");
    /* zero goes to the physical page */
    l0[3] = (u64)page >> 2 | 0xcf;
    SFENCE();
    page[8] = page[15] = page[16] = 1;
    RUN(S, op5, va);
    EXPECT_NONE("zero.translated");
    CHECK("zero.translated_value",
          ((volatile u64 *)page)[8] | ((volatile u64 *)page)[15] << 1 | ((volatile u64 *)page)[16] << 2, 4);
    clean();
    csrw(menvcfg, CBIE(3) | CBCFE | CBZE);

    static const char *const n[] = {0, "pmp.cflush_u", "pmp.clean", "pmp.flush", "pmp.inval", "pmp.zero"};
    for (int o = FLUSH_U; o < NOPS; o++) {
        group(n[o]);
        for (u64 p = 0; p < 4; p++) {
            if (p == 2)
                continue;
            csrw(pmpaddr1, -1);
            csrw(pmpaddr0, (u64)page >> 2 | 0x1ff);
            csrw(pmpcfg0, 0x1f00 | 0x18 | p);
            SFENCE();
            int ok = o == ZERO ? p & 2 : p & 3;
            RUN(S, op[o], (u64)page + 100);
            note("perm", p);
            if (ok)
                EXPECT_NONE("permitted");
            else
                EXPECT_TRAP("denied", o == FLUSH_U ? C_LOAD_ACC : C_STORE_ACC, (u64)page + 100);
            op[o]((u64)page + 100);
            EXPECT_NONE("M");
        }
        end_group();
    }
    clean();
    csrw(pmpaddr1, 0);
}

void tests(void)
{
    hints();
    if (on_qemu) {
        skip("cflush, cbo", "not in QEMU 7.2");
        return;
    }
    cflush();
    gates();
    zero();
    faults();
}

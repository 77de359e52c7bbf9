/* F and D: fcsr, mstatus.FS, NaN boxing, rounding modes, flags at the edges. Operands and results are bit
 * patterns in integer registers; the compiler itself uses no FP register. */
#include "bare.h"
asm(".option arch, +d");

#define NX 1
#define UF 2
#define OF 4
#define DZ 8
#define NV 16
#define QS 0x7fc00000u /* canonical NaNs */
#define QD 0x7ff8000000000000ull
#define SS 0x7f800001u /* signalling */
#define SD_ 0x7ff0000000000001ull
#define INFS 0x7f800000u
#define INFD 0x7ff0000000000000ull
#define NEGS 0x80000000u
#define NEGD 0x8000000000000000ull
#define ONES 0x3f800000u
#define ONED 0x3ff0000000000000ull

static void fs_set(u64 v)
{
    csrc(mstatus, ST_FS);
    csrs(mstatus, v << 13);
}
static u64 fs_get(void) { return csrr(mstatus) >> 13 & 3; }
static void on(void) { fs_set(3); csrw(fcsr, 0); }

/* result and flags of one operation; sign-extended result for fmv.x.w */
struct rf { u64 r, f; };
#define S2(insn, a, b)                                                               \
    ({                                                                               \
        struct rf x_;                                                                \
        asm volatile("csrw fflags, zero\n fmv.w.x ft0, %2\n fmv.w.x ft1, %3\n " insn \
                     "\n fmv.x.w %0, ft2\n csrr %1, fflags"                          \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)), "r"((u64)(b)));     \
        x_.r &= 0xffffffff;                                                          \
        x_;                                                                          \
    })
#define D2(insn, a, b)                                                               \
    ({                                                                               \
        struct rf x_;                                                                \
        asm volatile("csrw fflags, zero\n fmv.d.x ft0, %2\n fmv.d.x ft1, %3\n " insn \
                     "\n fmv.x.d %0, ft2\n csrr %1, fflags"                          \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)), "r"((u64)(b)));     \
        x_;                                                                          \
    })
#define S3(insn, a, b, c)                                                                              \
    ({                                                                                                 \
        struct rf x_;                                                                                  \
        asm volatile("csrw fflags, zero\n fmv.w.x ft0, %2\n fmv.w.x ft1, %3\n fmv.w.x ft3, %4\n " insn \
                     "\n fmv.x.w %0, ft2\n csrr %1, fflags"                                            \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)), "r"((u64)(b)), "r"((u64)(c)));        \
        x_.r &= 0xffffffff;                                                                            \
        x_;                                                                                            \
    })
#define D3(insn, a, b, c)                                                                              \
    ({                                                                                                 \
        struct rf x_;                                                                                  \
        asm volatile("csrw fflags, zero\n fmv.d.x ft0, %2\n fmv.d.x ft1, %3\n fmv.d.x ft3, %4\n " insn \
                     "\n fmv.x.d %0, ft2\n csrr %1, fflags"                                            \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)), "r"((u64)(b)), "r"((u64)(c)));        \
        x_;                                                                                            \
    })
/* to an integer register (compare, class, convert): the instruction writes t0 */
#define SI(insn, a, b)                                                                  \
    ({                                                                                  \
        struct rf x_;                                                                   \
        asm volatile("csrw fflags, zero\n fmv.w.x ft0, %2\n fmv.w.x ft1, %3\n " insn    \
                     "\n mv %0, t0\n csrr %1, fflags"                                   \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)), "r"((u64)(b)) : "t0"); \
        x_;                                                                             \
    })
#define DI(insn, a, b)                                                                  \
    ({                                                                                  \
        struct rf x_;                                                                   \
        asm volatile("csrw fflags, zero\n fmv.d.x ft0, %2\n fmv.d.x ft1, %3\n " insn    \
                     "\n mv %0, t0\n csrr %1, fflags"                                   \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)), "r"((u64)(b)) : "t0"); \
        x_;                                                                             \
    })
#define IS(insn, a)                                                      \
    ({                                                                   \
        struct rf x_;                                                    \
        asm volatile("csrw fflags, zero\n mv t0, %2\n " insn             \
                     "\n fmv.x.w %0, ft2\n csrr %1, fflags"              \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)) : "t0"); \
        x_.r &= 0xffffffff;                                              \
        x_;                                                              \
    })
#define ID(insn, a)                                                      \
    ({                                                                   \
        struct rf x_;                                                    \
        asm volatile("csrw fflags, zero\n mv t0, %2\n " insn             \
                     "\n fmv.x.d %0, ft2\n csrr %1, fflags"              \
                     : "=&r"(x_.r), "=&r"(x_.f) : "r"((u64)(a)) : "t0"); \
        x_;                                                              \
    })
static void rf_(const char *name, int line, struct rf x, u64 r, u64 f)
{
    check_(name, line, x.r != r ? x.r : x.f, x.r != r ? r : f); /* the result first, then the flags */
}
#define RF(name, x, r, f) rf_(name, __LINE__, x, (u64)(r), f)

static u64 u_fadd(void) { TRY("fadd.s ft0, ft0, ft0", , ); return 0; }
static u64 u_frcsr(void) { u64 x = 0; TRY("csrr %0, fcsr", "+r"(x), ); return x; }

static void state(void)
{
    static u64 mem[2];
    u64 x = 0;
    fs_set(0);
    CHECK("fs.off", fs_get(), 0);
    CHECK("fs.off_sd", csrr(mstatus) >> 63, 0);
#define OFF(name, insn, outs, ins) TRY(insn, LIST(outs), LIST(ins)); EXPECT_CAUSE(name, C_ILLEGAL)
    OFF("fs_off.fadd.s", "fadd.s ft0, ft1, ft2", , );
    OFF("fs_off.fadd.d", "fadd.d ft0, ft1, ft2", , );
    OFF("fs_off.flw", "flw ft0, 0(%0)", , "r"(mem));
    OFF("fs_off.fsw", "fsw ft0, 0(%0)", , "r"(mem));
    OFF("fs_off.fld", "fld ft0, 0(%0)", , "r"(mem));
    OFF("fs_off.fsd", "fsd ft0, 0(%0)", , "r"(mem));
    OFF("fs_off.flw_bad_address", "flw ft0, 0(%0)", , "r"(NOTHING)); /* illegal comes first */
    OFF("fs_off.c.fld", ".half 0x2108", , ); /* c.fld fa0, 0(a0) */
    OFF("fs_off.c.fsdsp", ".half 0xa002", , ); /* c.fsdsp ft0, 0(sp) */
    OFF("fs_off.fmv.x.w", "fmv.x.w %0, ft0", "+r"(x), );
    OFF("fs_off.fmv.d.x", "fmv.d.x ft0, %0", , "r"(x));
    OFF("fs_off.feq", "feq.d %0, ft0, ft1", "+r"(x), );
    OFF("fs_off.fcvt", "fcvt.d.l ft0, %0", , "r"(x));
    OFF("fs_off.fmadd", "fmadd.d ft0, ft1, ft2, ft3", , );
    OFF("fs_off.fsgnj", "fmv.d ft0, ft1", , );
    OFF("fs_off.csr_fcsr", "csrr %0, fcsr", "+r"(x), );
    OFF("fs_off.csr_frm", "csrw frm, zero", , );
    OFF("fs_off.csr_fflags", "csrr %0, fflags", "+r"(x), );
    RUN(U, u_fadd);
    EXPECT_CAUSE("fs_off.in_u", C_ILLEGAL);
    RUN(S, u_frcsr);
    EXPECT_CAUSE("fs_off.in_s", C_ILLEGAL);
    fs_set(1);
    RUN(U, u_fadd);
    EXPECT_CAUSE("fs_on.in_u", NONE);
    RUN(S, u_frcsr);
    EXPECT_CAUSE("fs_on.in_s", NONE);

    /* Initial and Clean are kept until something is written */
    fs_set(1);
    CHECK("fs.initial", fs_get(), 1);
    fs_set(2);
    CHECK("fs.clean", fs_get(), 2);
    CHECK("fs.clean_sd", csrr(mstatus) >> 63, 0);
#define DIRTY(name, insn, outs, ins)                              \
    fs_set(2);                                                    \
    asm volatile(insn : outs : ins : "memory");                   \
    CHECK(name, csrr(mstatus) >> 63 << 2 | fs_get(), 7)
    DIRTY("fs_dirty.fadd", "fadd.d ft0, ft1, ft2", , );
    DIRTY("fs_dirty.flw", "flw ft0, 0(%0)", , "r"(mem));
    DIRTY("fs_dirty.fld", "fld ft0, 0(%0)", , "r"(mem));
    DIRTY("fs_dirty.fmv.w.x", "fmv.w.x ft0, zero", , );
    DIRTY("fs_dirty.fsgnj", "fmv.d ft0, ft1", , );
    DIRTY("fs_dirty.fcvt", "fcvt.s.w ft0, zero", , );
    DIRTY("fs_dirty.csr_fcsr", "csrw fcsr, zero", , );
    DIRTY("fs_dirty.csr_frm", "csrw frm, zero", , );
    DIRTY("fs_dirty.csr_fflags", "csrw fflags, zero", , );
    on();
    asm volatile("fmv.w.x ft0, %0\n fmv.w.x ft1, %0" ::"r"(SS));
    fs_set(2);
    asm volatile("feq.s %0, ft0, ft1" : "=r"(x));
    QEMU_DIFFERS("QEMU 7.2 sees writes of registers only");
    CHECK("fs_dirty.flags_only", fs_get(), 3); /* NV was raised: fflags changed */
    /* changes take effect on the very next instruction */
    on();
    TRY("csrc mstatus, %0\n fadd.s ft0, ft1, ft2", , "r"(ST_FS));
    EXPECT_CAUSE("fs_off.next_instruction", C_ILLEGAL);
    CHECK("fs_off.next_instruction_epc", me()->epc, me()->want_epc + 4);
    TRY("csrs mstatus, %0\n fadd.s ft0, ft1, ft2", , "r"(ST_FS));
    EXPECT_CAUSE("fs_on.next_instruction", NONE);
    TRY("fsrmi 5\n fadd.s ft0, ft1, ft2, dyn", , );
    EXPECT_CAUSE("frm.next_instruction", C_ILLEGAL);
    TRY("fsrmi 1\n fadd.s ft0, ft1, ft2, dyn", , );
    EXPECT_CAUSE("frm.next_instruction_good", NONE);
    /* the register file survives FS off */
    on();
    asm volatile("fmv.d.x fs11, %0" ::"r"(0x0123456789abcdefull));
    fs_set(0);
    fs_set(1);
    asm volatile("fmv.x.d %0, fs11" : "=r"(x));
    CHECK("fs.registers_kept", x, 0x0123456789abcdefull);
    on();
}

static void control(void)
{
    on();
    csrw(fcsr, -1);
    CHECK("fcsr.8_bits", csrr(fcsr), 0xff);
    CHECK("fcsr.frm", csrr(frm), 7);
    CHECK("fcsr.fflags", csrr(fflags), 0x1f);
    csrw(frm, 0x1a);
    CHECK("frm.3_bits", csrr(fcsr), 0x5f);
    csrw(fflags, 0xe5);
    CHECK("fflags.5_bits", csrr(fcsr), 0x45);
    u64 x;
    asm volatile("fsrmi 1\n fsflagsi 2\n frcsr %0" : "=r"(x));
    CHECK("fcsr.pseudo", x, 0x22);
    csrw(fcsr, 0);
    /* flags accumulate */
    asm volatile("fmv.w.x ft0, %0\n fmv.w.x ft1, zero\n fdiv.s ft2, ft0, ft1\n fdiv.s ft2, ft1, ft1" ::"r"(ONES));
    CHECK("fflags.accumulate", csrr(fflags), DZ | NV);

    group("rm.dynamic_reserved");
    for (u64 rm = 0; rm < 8; rm++) {
        csrw(frm, rm);
        u64 want = rm > 4 ? C_ILLEGAL : NONE, r = 0;
        note("frm", rm);
        TRY("fadd.s ft0, ft1, ft2, dyn", , );
        EXPECT_CAUSE("fadd.s", want);
        TRY("fmul.d ft0, ft1, ft2, dyn", , );
        EXPECT_CAUSE("fmul.d", want);
        TRY("fsqrt.d ft0, ft1, dyn", , );
        EXPECT_CAUSE("fsqrt.d", want);
        TRY("fmadd.s ft0, ft1, ft2, ft3, dyn", , );
        EXPECT_CAUSE("fmadd.s", want);
        TRY("fcvt.w.s %0, ft1, dyn", "+r"(r), );
        EXPECT_CAUSE("fcvt.w.s", want);
        TRY("fcvt.s.d ft0, ft1, dyn", , );
        EXPECT_CAUSE("fcvt.s.d", want);
        /* these do not round */
        TRY("fsgnj.s ft0, ft1, ft2", , );
        EXPECT_CAUSE("fsgnj.s", NONE);
        TRY("fmin.d ft0, ft1, ft2", , );
        EXPECT_CAUSE("fmin.d", NONE);
        TRY("feq.s %0, ft1, ft2", "+r"(r), );
        EXPECT_CAUSE("feq.s", NONE);
        TRY("fclass.d %0, ft1", "+r"(r), );
        EXPECT_CAUSE("fclass.d", NONE);
        TRY("fadd.s ft0, ft1, ft2, rtz", , );
        EXPECT_CAUSE("static rtz", NONE);
    }
    end_group();
    on();
    TRY(".word 0x0020d053", , ); /* fadd.s ft0, ft1, ft2 with rm = 5 */
    EXPECT_CAUSE("rm.static_5", C_ILLEGAL);
    TRY(".word 0x0020e053", , );
    EXPECT_CAUSE("rm.static_6", C_ILLEGAL);
    TRY(".word 0x0420f053", , ); /* fmt = 2: no half precision here */
    EXPECT_CAUSE("fmt.half", C_ILLEGAL);
    TRY(".word 0x0620f053", , ); /* fmt = 3: no quad */
    EXPECT_CAUSE("fmt.quad", C_ILLEGAL);
    TRY(".word 0x20203053", , ); /* fsgnj with funct3 3 */
    EXPECT_CAUSE("fsgnj.funct3_3", C_ILLEGAL);
    TRY(".word 0xa0203053", , );
    EXPECT_CAUSE("fcmp.funct3_3", C_ILLEGAL);
    TRY(".word 0x58107053", , ); /* fsqrt.s with rs2 = 1 */
    EXPECT_CAUSE("fsqrt.rs2", C_ILLEGAL);
    TRY(".word 0xe0101053", , ); /* fclass.s with rs2 = 1 */
    EXPECT_CAUSE("fclass.rs2", C_ILLEGAL);
    on();
}

static void boxing(void)
{
    static u64 mem[2] = {0xdeadbeef3f800000, 0};
    u64 x, y;
    on();
    asm volatile("flw ft0, 0(%1)\n fmv.x.d %0, ft0" : "=r"(x) : "r"(mem) : "memory");
    CHECK("box.flw", x, 0xffffffff3f800000);
    asm volatile("fmv.w.x ft0, %1\n fmv.x.d %0, ft0" : "=r"(x) : "r"(0x1234567880000001ull));
    CHECK("box.fmv.w.x", x, 0xffffffff80000001);
    asm volatile("fmv.w.x ft0, %1\n fadd.s ft0, ft0, ft0\n fmv.x.d %0, ft0" : "=r"(x) : "r"(ONES));
    CHECK("box.fadd.s", x, 0xffffffff40000000);
    asm volatile("fmv.d.x ft0, %1\n fmv.x.w %0, ft0" : "=r"(x) : "r"(0x1234567880000001ull));
    CHECK("unboxed.fmv.x.w_raw", x, 0xffffffff80000001);
    asm volatile("fmv.d.x ft0, %1\n fsw ft0, 8(%2)\n ld %0, 8(%2)"
                 : "=r"(x) : "r"(0x1234567880000001ull), "r"(mem) : "memory");
    CHECK("unboxed.fsw_raw", x, 0x80000001);
    /* a value that is not boxed counts as the canonical NaN */
#define UNBOXED(name, insn, b, wr, wf)                                              \
    asm volatile("csrw fflags, zero\n fmv.d.x ft0, %2\n fmv.w.x ft1, %3\n " insn    \
                 "\n fmv.x.d %0, ft2\n csrr %1, fflags"                             \
                 : "=&r"(x), "=&r"(y) : "r"(0xfffffffe3f800000ull), "r"((u64)(b))); \
    CHECK(name, x, wr);                                                             \
    CHECK("unboxed.flags", y, wf)
    UNBOXED("unboxed.fadd.s", "fadd.s ft2, ft0, ft1", ONES, 0xffffffff7fc00000, 0);
    UNBOXED("unboxed.fmul.s", "fmul.s ft2, ft1, ft0", ONES, 0xffffffff7fc00000, 0);
    UNBOXED("unboxed.fmin.s", "fmin.s ft2, ft0, ft1", ONES, 0xffffffff3f800000, 0);
    UNBOXED("unboxed.fsgnj.s", "fsgnj.s ft2, ft0, ft1", NEGS | ONES, 0xffffffffffc00000, 0);
    UNBOXED("unboxed.fsgnj.s_sign_source", "fsgnj.s ft2, ft1, ft0", NEGS | ONES, 0xffffffff3f800000, 0);
    UNBOXED("unboxed.fmv.s", "fsgnj.s ft2, ft0, ft0", 0, 0xffffffff7fc00000, 0);
    UNBOXED("unboxed.fsgnjn.s", "fsgnjn.s ft2, ft0, ft0", 0, 0xffffffffffc00000, 0);
    UNBOXED("unboxed.fsqrt.s", "fsqrt.s ft2, ft0", 0, 0xffffffff7fc00000, 0);
    UNBOXED("unboxed.fmadd.s", "fmadd.s ft2, ft1, ft1, ft0", ONES, 0xffffffff7fc00000, 0);
    UNBOXED("unboxed.fcvt.d.s", "fcvt.d.s ft2, ft0", 0, QD, 0);
#define UNBOXED_I(name, insn, wr, wf)                                                                               \
    asm volatile("csrw fflags, zero\n fmv.d.x ft0, %2\n fmv.w.x ft1, %3\n " insn "\n mv %0, t0\n csrr %1, fflags"   \
                 : "=&r"(x), "=&r"(y) : "r"(0xfffffffe3f800000ull), "r"((u64)ONES) : "t0");                         \
    CHECK(name, x, wr);                                                                                             \
    CHECK("unboxed.flags", y, wf)
    UNBOXED_I("unboxed.fclass.s", "fclass.s t0, ft0", 1 << 9, 0);
    UNBOXED_I("unboxed.feq.s", "feq.s t0, ft0, ft1", 0, 0);
    UNBOXED_I("unboxed.flt.s", "flt.s t0, ft0, ft1", 0, NV);
    UNBOXED_I("unboxed.fcvt.w.s", "fcvt.w.s t0, ft0", 0x7fffffff, NV);
    UNBOXED_I("unboxed.fcvt.lu.s", "fcvt.lu.s t0, ft0", -1, NV);
}

static void rounding(void)
{
    /* 1 + 2^-24 is a tie between 1 and 1 + 2^-23; 1 + 3 * 2^-24 between 1 + 2^-23 and 1 + 2^-22 */
    static const struct { const char *n; u32 a, b, r[5]; } t[] = {
        {"round.tie_to_even_down", 0x3f800000, 0x33800000,
         {0x3f800000, 0x3f800000, 0x3f800000, 0x3f800001, 0x3f800001}},
        {"round.tie_to_even_up", 0x3f800001, 0x33800000, {0x3f800002, 0x3f800001, 0x3f800001, 0x3f800002, 0x3f800002}},
        {"round.below_tie", 0x3f800000, 0x337fffff, {0x3f800000, 0x3f800000, 0x3f800000, 0x3f800001, 0x3f800000}},
        {"round.above_tie", 0x3f800000, 0x33800001, {0x3f800001, 0x3f800000, 0x3f800000, 0x3f800001, 0x3f800001}},
        {"round.neg_tie", 0xbf800000, 0xb3800000, {0xbf800000, 0xbf800000, 0xbf800001, 0xbf800000, 0xbf800001}},
        {"round.overflow", 0x7f7fffff, 0x7f7fffff, {0x7f800000, 0x7f7fffff, 0x7f7fffff, 0x7f800000, 0x7f800000}},
        {"round.neg_overflow", 0xff7fffff, 0xff7fffff, {0xff800000, 0xff7fffff, 0xff800000, 0xff7fffff, 0xff800000}}};
    on();
    for (unsigned i = 0; i < sizeof t / sizeof *t; i++) {
        group(t[i].n);
        for (u64 rm = 0; rm < 5; rm++) {
            csrw(frm, rm);
            note("rm", rm);
            struct rf x = S2("fadd.s ft2, ft0, ft1, dyn", t[i].a, t[i].b);
            RF("dynamic", x, t[i].r[rm], i >= 5 ? OF | NX : NX);
        }
        csrw(frm, 7); /* static modes do not look at frm */
        RF("rne", S2("fadd.s ft2, ft0, ft1, rne", t[i].a, t[i].b), t[i].r[0], i >= 5 ? OF | NX : NX);
        RF("rtz", S2("fadd.s ft2, ft0, ft1, rtz", t[i].a, t[i].b), t[i].r[1], i >= 5 ? OF | NX : NX);
        RF("rdn", S2("fadd.s ft2, ft0, ft1, rdn", t[i].a, t[i].b), t[i].r[2], i >= 5 ? OF | NX : NX);
        RF("rup", S2("fadd.s ft2, ft0, ft1, rup", t[i].a, t[i].b), t[i].r[3], i >= 5 ? OF | NX : NX);
        RF("rmm", S2("fadd.s ft2, ft0, ft1, rmm", t[i].a, t[i].b), t[i].r[4], i >= 5 ? OF | NX : NX);
        csrw(frm, 0);
        end_group();
    }
    /* x - x is +0, but -0 rounding down */
    RF("zero.sum", S2("fsub.s ft2, ft0, ft1, rne", ONES, ONES), 0, 0);
    RF("zero.sum_rdn", S2("fsub.s ft2, ft0, ft1, rdn", ONES, ONES), NEGS, 0);
    RF("zero.neg_neg", S2("fadd.s ft2, ft0, ft1, rne", NEGS, NEGS), NEGS, 0);
    RF("zero.pos_neg", D2("fadd.d ft2, ft0, ft1, rne", 0, NEGD), 0, 0);
    RF("zero.pos_neg_rdn", D2("fadd.d ft2, ft0, ft1, rdn", 0, NEGD), NEGD, 0);
    /* tininess is detected after rounding */
    RF("tiny.exact_24_bits", S2("fmul.s ft2, ft0, ft1, rne", 0x00800000, 0x3f7fffff), 0x00800000, UF | NX);
    RF("tiny.rounds_to_normal", S2("fmul.s ft2, ft0, ft1, rne", 0x00800001, 0x3f7ffffe), 0x00800000, NX);
    RF("tiny.exact_subnormal", S2("fmul.s ft2, ft0, ft1, rne", 0x00800000, 0x3f000000), 0x00400000, 0);
    RF("tiny.to_zero", S2("fmul.s ft2, ft0, ft1, rne", 1, 0x3f000000), 0, UF | NX);
    RF("tiny.to_least_rup", S2("fmul.s ft2, ft0, ft1, rup", 1, 0x3f000000), 1, UF | NX);
    RF("tiny.d", D2("fmul.d ft2, ft0, ft1, rne", 0x0010000000000000, 0x3fefffffffffffff), 0x0010000000000000, UF | NX);
}

static void arithmetic(void)
{
    on();
    RF("nan.inf_minus_inf", S2("fsub.s ft2, ft0, ft1", INFS, INFS), QS, NV);
    RF("nan.zero_times_inf", D2("fmul.d ft2, ft0, ft1", 0, INFD), QD, NV);
    RF("nan.zero_by_zero", D2("fdiv.d ft2, ft0, ft1", 0, NEGD), QD, NV);
    RF("nan.inf_by_inf", S2("fdiv.s ft2, ft0, ft1", INFS, INFS), QS, NV);
    RF("div.by_zero", S2("fdiv.s ft2, ft0, ft1", ONES, NEGS), INFS | NEGS, DZ);
    RF("div.inf_by_zero", S2("fdiv.s ft2, ft0, ft1", INFS, 0), INFS, 0);
    RF("div.inexact", D2("fdiv.d ft2, ft0, ft1", ONED, 0x4008000000000000), 0x3fd5555555555555, NX);
    RF("sqrt.neg", D2("fsqrt.d ft2, ft0", ONED | NEGD, 0), QD, NV);
    RF("sqrt.neg_zero", S2("fsqrt.s ft2, ft0", NEGS, 0), NEGS, 0);
    RF("sqrt.two", D2("fsqrt.d ft2, ft0", 0x4000000000000000, 0), 0x3ff6a09e667f3bcd, NX);
    RF("sqrt.subnormal", S2("fsqrt.s ft2, ft0", 0x00000002, 0), 0x1a800000, 0); /* of 2^-148 */
    RF("nan.quiet_payload_dropped", S2("fadd.s ft2, ft0, ft1", 0x7fc12345, ONES), QS, 0);
    RF("nan.sign_dropped", S2("fadd.s ft2, ft0, ft1", 0xffc00000, ONES), QS, 0);
    RF("nan.signalling", D2("fmul.d ft2, ft0, ft1", SD_, ONED), QD, NV);
    RF("fma.one_rounding", S3("fmadd.s ft2, ft0, ft1, ft3", 0x3f800001, 0x3f7ffffe, 0xbf800000), 0xa8800000, 0);
    RF("fmsub", D3("fmsub.d ft2, ft0, ft1, ft3", 0x4000000000000000, 0x4008000000000000, ONED), 0x4014000000000000, 0);
    RF("fnmsub", D3("fnmsub.d ft2, ft0, ft1, ft3", 0x4000000000000000, 0x4008000000000000, ONED),
       0xc014000000000000, 0);
    RF("fnmadd", D3("fnmadd.d ft2, ft0, ft1, ft3", 0x4000000000000000, 0x4008000000000000, ONED),
       0xc01c000000000000, 0);
    RF("fma.inf_zero_qnan", S3("fmadd.s ft2, ft0, ft1, ft3", INFS, 0, QS), QS, NV);
    RF("fma.inf_minus_inf", S3("fmadd.s ft2, ft0, ft1, ft3", INFS, ONES, INFS | NEGS), QS, NV);
    RF("fnmadd.zero_sign", S3("fnmadd.s ft2, ft0, ft1, ft3", ONES, 0, 0), NEGS, 0);
    RF("fmsub.zero_sign", S3("fmsub.s ft2, ft0, ft1, ft3", ONES, ONES, ONES), 0, 0);

    RF("fmin.zeros", S2("fmin.s ft2, ft0, ft1", 0, NEGS), NEGS, 0);
    RF("fmax.zeros", S2("fmax.s ft2, ft0, ft1", NEGS, 0), 0, 0);
    RF("fmin.qnan", D2("fmin.d ft2, ft0, ft1", QD, ONED), ONED, 0);
    RF("fmax.qnan", D2("fmax.d ft2, ft0, ft1", ONED, QD), ONED, 0);
    RF("fmin.snan", D2("fmin.d ft2, ft0, ft1", SD_, ONED), ONED, NV);
    RF("fmax.both_nan", S2("fmax.s ft2, ft0, ft1", 0xffc00001, 0x7fc00002), QS, 0);
    RF("fmin.inf", S2("fmin.s ft2, ft0, ft1", INFS | NEGS, ONES), INFS | NEGS, 0);
    RF("fsgnj", D2("fsgnj.d ft2, ft0, ft1", SD_, NEGD), SD_ | NEGD, 0);
    RF("fsgnjn", S2("fsgnjn.s ft2, ft0, ft1", ONES, NEGS), ONES, 0);
    RF("fsgnjx", S2("fsgnjx.s ft2, ft0, ft1", ONES | NEGS, NEGS), ONES, 0);

    RF("feq.qnan", SI("feq.s t0, ft0, ft1", QS, QS), 0, 0);
    RF("feq.snan", SI("feq.s t0, ft0, ft1", SS, ONES), 0, NV);
    RF("flt.qnan", DI("flt.d t0, ft0, ft1", QD, ONED), 0, NV);
    RF("fle.qnan", DI("fle.d t0, ft0, ft1", ONED, QD), 0, NV);
    RF("feq.zeros", DI("feq.d t0, ft0, ft1", 0, NEGD), 1, 0);
    RF("flt.zeros", DI("flt.d t0, ft0, ft1", NEGD, 0), 0, 0);
    RF("fle.neg", SI("fle.s t0, ft0, ft1", 0xc0000000, 0xbf800000), 1, 0);
    RF("flt.inf", SI("flt.s t0, ft0, ft1", 0xff800000, 0x7f800000), 1, 0);

    static const u32 cs[] = {0xff800000, 0xbf800000, 0x80000001, 0x80000000, 0, 1, 0x3f800000, 0x7f800000, SS, QS};
    static const u64 cd[] = {
        0xfff0000000000000, 0xbff0000000000000, 0x8000000000000001, NEGD, 0, 1, ONED, INFD, SD_, QD};
    group("fclass");
    for (int i = 0; i < 10; i++) {
        note("class", i);
        RF("single", SI("fclass.s t0, ft0", cs[i], 0), 1 << i, 0);
        RF("double", DI("fclass.d t0, ft0", cd[i], 0), 1 << i, 0);
    }
    end_group();
}

static void conversions(void)
{
    on();
    RF("w.nan", SI("fcvt.w.s t0, ft0", QS, 0), 0x7fffffff, NV);
    RF("w.neg_nan", SI("fcvt.w.s t0, ft0", 0xffc00000, 0), 0x7fffffff, NV);
    RF("w.neg_inf", SI("fcvt.w.s t0, ft0", 0xff800000, 0), 0xffffffff80000000, NV);
    RF("w.2p31", SI("fcvt.w.s t0, ft0", 0x4f000000, 0), 0x7fffffff, NV);
    RF("w.m2p31", SI("fcvt.w.s t0, ft0", 0xcf000000, 0), 0xffffffff80000000, 0);
    RF("w.inexact_rtz", DI("fcvt.w.d t0, ft0, rtz", 0xbff8000000000000, 0), -1, NX);
    RF("w.inexact_rne", DI("fcvt.w.d t0, ft0, rne", 0xc004000000000000, 0), -2, NX); /* -2.5 */
    RF("w.inexact_rmm", DI("fcvt.w.d t0, ft0, rmm", 0xc004000000000000, 0), -3, NX);
    RF("w.d_rounds_over", DI("fcvt.w.d t0, ft0, rup", 0x41dfffffffe00000, 0), 0x7fffffff, NV); /* 2^31 - 0.5 */
    RF("w.d_rounds_down", DI("fcvt.w.d t0, ft0, rdn", 0x41dfffffffe00000, 0), 0x7fffffff, NX);
    RF("wu.neg", SI("fcvt.wu.s t0, ft0", 0xbf800000, 0), 0, NV);
    RF("wu.neg_fraction", SI("fcvt.wu.s t0, ft0, rtz", 0xbf000000, 0), 0, NX);
    RF("wu.sign_extended", SI("fcvt.wu.s t0, ft0", 0x4f32d05e, 0), 0xffffffffb2d05e00, 0);
    RF("wu.2p32", SI("fcvt.wu.s t0, ft0", 0x4f800000, 0), -1, NV);
    RF("wu.nan", DI("fcvt.wu.d t0, ft0", QD, 0), -1, NV);
    RF("l.2p63", DI("fcvt.l.d t0, ft0", 0x43e0000000000000, 0), 0x7fffffffffffffff, NV);
    RF("l.m2p63", DI("fcvt.l.d t0, ft0", 0xc3e0000000000000, 0), NEGD, 0);
    RF("l.nan", SI("fcvt.l.s t0, ft0", SS, 0), 0x7fffffffffffffff, NV);
    RF("lu.2p63", DI("fcvt.lu.d t0, ft0", 0x43e0000000000000, 0), NEGD, 0);
    RF("lu.neg", DI("fcvt.lu.d t0, ft0", 0xbff0000000000000, 0), 0, NV);
    RF("lu.inf", SI("fcvt.lu.s t0, ft0", INFS, 0), -1, NV);
    RF("s.w", IS("fcvt.s.w ft2, t0", -1), 0xbf800000, 0);
    RF("s.wu_low_half", IS("fcvt.s.wu ft2, t0", 0x1ffffffffull), 0x4f800000, NX);
    RF("s.l", IS("fcvt.s.l ft2, t0, rtz", 0x7fffffffffffffff), 0x5effffff, NX);
    RF("s.lu", IS("fcvt.s.lu ft2, t0, rup", ~0ull), 0x5f800000, NX);
    RF("d.w", ID("fcvt.d.w ft2, t0", 0xffffffff80000000), 0xc1e0000000000000, 0);
    RF("d.wu", ID("fcvt.d.wu ft2, t0", 0xffffffff80000000), 0x41e0000000000000, 0);
    RF("d.l", ID("fcvt.d.l ft2, t0, rne", 0x7fffffffffffffff), 0x43e0000000000000, NX);
    RF("d.lu", ID("fcvt.d.lu ft2, t0, rdn", ~0ull), 0x43efffffffffffff, NX);
    u64 x, f;
    asm volatile("csrw fflags, zero\n fmv.d.x ft0, %2\n fcvt.s.d ft1, ft0\n fmv.x.d %0, ft1\n csrr %1, fflags"
                 : "=&r"(x), "=&r"(f) : "r"(SD_));
    CHECK("s.d_snan", x, 0xffffffff7fc00000);
    CHECK("s.d_snan_flags", f, NV);
    asm volatile("csrw fflags, zero\n fmv.d.x ft0, %2\n fcvt.s.d ft1, ft0, rne\n fmv.x.d %0, ft1\n csrr %1, fflags"
                 : "=&r"(x), "=&r"(f) : "r"(0x47f0000000000000));
    CHECK("s.d_overflow", x, 0xffffffff7f800000);
    CHECK("s.d_overflow_flags", f, OF | NX);
    asm volatile("csrw fflags, zero\n fmv.w.x ft0, %2\n fcvt.d.s ft1, ft0\n fmv.x.d %0, ft1\n csrr %1, fflags"
                 : "=&r"(x), "=&r"(f) : "r"(1ull));
    CHECK("d.s_subnormal", x, 0x36a0000000000000);
    CHECK("d.s_subnormal_flags", f, 0);
}

static void memory(void)
{
    static u64 m[64];
    u64 x;
    on();
    m[31] = 0x4142434445464748;
    asm volatile("mv a0, %1\n c.fld fa0, 248(a0)\n c.fsd fa0, 240(a0)\n fmv.x.d %0, fa0"
                 : "=r"(x) : "r"(m) : "a0", "memory");
    CHECK("c.fld", x, m[31]);
    CHECK("c.fsd", m[30], m[31]);
    asm volatile("mv t0, sp\n mv sp, %1\n c.fldsp fs11, 248(sp)\n c.fsdsp fs11, 504(sp)\n mv sp, t0\n fmv.x.d %0, fs11"
                 : "=r"(x) : "r"(m) : "t0", "memory");
    CHECK("c.fldsp", x, m[31]);
    CHECK("c.fsdsp", m[63], m[31]);
    asm volatile("fmv.d.x ft0, %0" ::"r"(0x1111ull));
    TRY("fld ft0, 8(%0)", , "r"(NOTHING));
    EXPECT_TRAP("fld.access", C_LOAD_ACC, NOTHING + 8);
    asm volatile("fmv.x.d %0, ft0" : "=r"(x));
    CHECK("fld.access_rd_kept", x, 0x1111);
    TRY("fsw ft0, 4(%0)", , "r"(NOTHING));
    EXPECT_TRAP("fsw.access", C_STORE_ACC, NOTHING + 4);
    if (!on_qemu) { /* QEMU carries them out */
        TRY("fld ft0, 4(%0)", , "r"(m));
        EXPECT_TRAP("fld.misaligned", C_LOAD_MIS, (u64)m + 4);
        TRY("flw ft0, 2(%0)", , "r"(m));
        EXPECT_TRAP("flw.misaligned", C_LOAD_MIS, (u64)m + 2);
        TRY("fsd ft0, 1(%0)", , "r"(m));
        EXPECT_TRAP("fsd.misaligned", C_STORE_MIS, (u64)m + 1);
    }
}

void tests(void)
{
    state();
    control();
    boxing();
    rounding();
    arithmetic();
    conversions();
    memory();
}

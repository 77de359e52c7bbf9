/* Base integer ISA, M and C at their edges. Register operations are compared on a grid of edge values with
 * references that work bit by bit (only and, or, xor and shifts by one), plus literals from the specification. */
#include "bare.h"

#define OPS(f)                                                                                                        \
    f(add) f(sub) f(sll) f(srl) f(sra) f(slt) f(sltu) f(xor) f(or) f(and) f(addw) f(subw) f(sllw) f(srlw) f(sraw)     \
    f(mul) f(mulh) f(mulhu) f(mulhsu) f(mulw) f(div) f(divu) f(rem) f(remu) f(divw) f(divuw) f(remw) f(remuw)
#define ASM_OP(n)                                                                                  \
    static u64 op_##n(u64 a, u64 b)                                                                \
    {                                                                                              \
        u64 r;                                                                                     \
        asm volatile(#n " %0, %1, %2" : "=r"(r) : "r"(a), "r"(b));                                 \
        return r;                                                                                  \
    }
OPS(ASM_OP)

/* ---- references ---- */
static u64 radd(u64 a, u64 b)
{
    while (b) {
        u64 c = a & b;
        a ^= b;
        b = c << 1;
    }
    return a;
}
static u64 rneg(u64 a) { return radd(~a, 1); }
static u64 sx(u64 a) { return (a & 0x80000000) ? a | 0xffffffff00000000 : a & 0xffffffff; }
static u64 zx(u64 a) { return a & 0xffffffff; }
static int neg(u64 a) { return (a & 0x8000000000000000) != 0; }
static u64 rsll(u64 a, u64 n) { for (u64 i = 0; i != n; i++) a <<= 1; return a; }
static u64 rsrl(u64 a, u64 n) { for (u64 i = 0; i != n; i++) a >>= 1; return a; }
static u64 rsra(u64 a, u64 n)
{
    u64 s = a & 0x8000000000000000;
    for (u64 i = 0; i != n; i++)
        a = a >> 1 | s;
    return a;
}
static u64 rltu(u64 a, u64 b)
{
    for (u64 m = 0x8000000000000000; m; m >>= 1)
        if ((a ^ b) & m)
            return (b & m) != 0;
    return 0;
}
static u64 rlt(u64 a, u64 b) { return rltu(a ^ 0x8000000000000000, b ^ 0x8000000000000000); }
static void rmulu(u64 a, u64 b, u64 *hi, u64 *lo)
{
    u64 h = 0, l = 0;
    for (u64 m = 0x8000000000000000; m; m >>= 1) {
        h = h << 1 | (l & 0x8000000000000000 ? 1 : 0);
        l <<= 1;
        if (b & m) {
            u64 n = radd(l, a);
            if (rltu(n, l))
                h = radd(h, 1);
            l = n;
        }
    }
    *hi = h;
    *lo = l;
}
static u64 mul_lo(u64 a, u64 b) { u64 h, l; rmulu(a, b, &h, &l); return l; }
static u64 mul_hi(u64 a, u64 b, int sa, int sb)
{
    u64 h, l;
    rmulu(a, b, &h, &l);
    if (sa && neg(a))
        h = radd(h, rneg(b));
    if (sb && neg(b))
        h = radd(h, rneg(a));
    return h;
}
static void rdivu(u64 a, u64 b, u64 *q, u64 *r)
{
    u64 rem = 0, quo = 0;
    for (u64 m = 0x8000000000000000; m; m >>= 1) {
        int top = neg(rem);
        rem = rem << 1 | (a & m ? 1 : 0);
        quo <<= 1;
        if (top || !rltu(rem, b)) {
            rem = radd(rem, rneg(b));
            quo |= 1;
        }
    }
    *q = quo;
    *r = rem;
}
static u64 quo_u(u64 a, u64 b) { u64 q, r; rdivu(a, b, &q, &r); return b ? q : ~0ull; }
static u64 rem_u(u64 a, u64 b) { u64 q, r; rdivu(a, b, &q, &r); return b ? r : a; }
static u64 quo_s(u64 a, u64 b)
{
    if (!b)
        return ~0ull;
    u64 q = quo_u(neg(a) ? rneg(a) : a, neg(b) ? rneg(b) : b);
    return neg(a) != neg(b) ? rneg(q) : q;
}
static u64 rem_s(u64 a, u64 b)
{
    if (!b)
        return a;
    u64 r = rem_u(neg(a) ? rneg(a) : a, neg(b) ? rneg(b) : b);
    return neg(a) ? rneg(r) : r;
}
#define REF(n, e) static u64 ref_##n(u64 a, u64 b) { return e; }
REF(add, radd(a, b)) REF(sub, radd(a, rneg(b))) REF(sll, rsll(a, b & 63)) REF(srl, rsrl(a, b & 63))
REF(sra, rsra(a, b & 63)) REF(slt, rlt(a, b)) REF(sltu, rltu(a, b)) REF(xor, (a | b) & ~(a & b))
REF(or, ~(~a & ~b)) REF(and, ~(~a | ~b)) REF(addw, sx(radd(a, b))) REF(subw, sx(radd(a, rneg(b))))
REF(sllw, sx(rsll(a, b & 31))) REF(srlw, sx(rsrl(zx(a), b & 31))) REF(sraw, rsra(sx(a), b & 31))
REF(mul, mul_lo(a, b)) REF(mulh, mul_hi(a, b, 1, 1)) REF(mulhu, mul_hi(a, b, 0, 0)) REF(mulhsu, mul_hi(a, b, 1, 0))
REF(mulw, sx(mul_lo(a, b))) REF(div, quo_s(a, b)) REF(divu, quo_u(a, b)) REF(rem, rem_s(a, b)) REF(remu, rem_u(a, b))
REF(divw, sx(quo_s(sx(a), sx(b)))) REF(divuw, sx(quo_u(zx(a), zx(b)))) REF(remw, sx(rem_s(sx(a), sx(b))))
REF(remuw, sx(rem_u(zx(a), zx(b))))

static const u64 edge[] = {
    0, 1, 2, 7, 31, 32, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x123456789abcdef0,
    0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xffffffff80000000, 0xfffffffffffffffe, ~0ull};
#define NEDGE (sizeof edge / sizeof *edge)

static void grid(void)
{
#define ROW(n) {"alu." #n, op_##n, ref_##n},
    static const struct { const char *name; u64 (*op)(u64, u64), (*ref)(u64, u64); } t[] = {OPS(ROW)};
    for (unsigned i = 0; i < sizeof t / sizeof *t; i++) {
        group(t[i].name);
        for (unsigned x = 0; x < NEDGE; x++)
            for (unsigned y = 0; y < NEDGE; y++) {
                note("a", edge[x]);
                note("b", edge[y]);
                CHECK("result", t[i].op(edge[x], edge[y]), t[i].ref(edge[x], edge[y]));
            }
        end_group();
    }
}

#define MIN64 0x8000000000000000ull
static void literals(void)
{
    CHECK("div.by_zero", op_div(42, 0), -1);
    CHECK("divu.by_zero", op_divu(42, 0), -1);
    CHECK("rem.by_zero", op_rem(-42, 0), -42);
    CHECK("remu.by_zero", op_remu(42, 0), 42);
    CHECK("div.overflow", op_div(MIN64, -1), MIN64);
    CHECK("rem.overflow", op_rem(MIN64, -1), 0);
    CHECK("divw.by_zero", op_divw(5, 0), -1);
    CHECK("divuw.by_zero", op_divuw(5, 0x100000000), -1);
    CHECK("remw.by_zero_sign", op_remw(0xffffffff, 0), -1);
    CHECK("remuw.by_zero_sign", op_remuw(0x80000000, 0), 0xffffffff80000000);
    CHECK("divw.overflow", op_divw(0x80000000, 0xffffffff), 0xffffffff80000000);
    CHECK("remw.overflow", op_remw(0x80000000, 0xffffffff), 0);
    CHECK("rem.sign_of_dividend", op_rem(-7, 2), -1);
    CHECK("rem.sign_of_dividend_2", op_rem(7, -2), 1);
    CHECK("div.to_zero", op_div(-7, 2), -3);
    CHECK("mulh.min_min", op_mulh(MIN64, MIN64), 0x4000000000000000);
    CHECK("mulhu.max_max", op_mulhu(-1, -1), -2);
    CHECK("mulhsu.m1_max", op_mulhsu(-1, -1), -1);
    CHECK("addw.overflow", op_addw(0x7fffffff, 1), 0xffffffff80000000);
    CHECK("subw.borrow", op_subw(0, 1), -1);
    CHECK("sll.64", op_sll(1, 64), 1);
    CHECK("sllw.32", op_sllw(1, 32), 1);
    CHECK("sraw.ignores_high", op_sraw(0x1280000000, 4), 0xfffffffff8000000);
    CHECK("srlw.bit31", op_srlw(0xffffffff80000000, 0), 0xffffffff80000000);

    u64 r, s;
#define IMM(name, text, in, want)                                        \
    asm volatile(text : "=r"(r) : "r"((u64)(in)));                       \
    CHECK(name, r, want)
    IMM("addi.min", "addi %0, %1, -2048", 0, -2048);
    IMM("addi.wrap", "addi %0, %1, 2047", -2047, 0);
    IMM("addiw.overflow", "addiw %0, %1, 1", 0x7fffffff, 0xffffffff80000000);
    IMM("addiw.sext", "addiw %0, %1, 0", 0x1ffffffff, -1);
    IMM("slti.neg", "slti %0, %1, -1", -2, 1);
    IMM("sltiu.sext_imm", "sltiu %0, %1, -1", -2, 1);
    IMM("sltiu.seqz", "sltiu %0, %1, 1", 0, 1);
    IMM("xori.not", "xori %0, %1, -1", 0x5555, ~0x5555ull);
    IMM("ori.sext", "ori %0, %1, -2048", 1, 0xfffffffffffff801);
    IMM("andi.sext", "andi %0, %1, -2048", 0x123456789abcdef0, 0x123456789abcd800);
    IMM("slli.63", "slli %0, %1, 63", 3, MIN64);
    IMM("srli.63", "srli %0, %1, 63", -1, 1);
    IMM("srai.63", "srai %0, %1, 63", MIN64, -1);
    IMM("srai.32", "srai %0, %1, 32", MIN64, 0xffffffff80000000);
    IMM("slliw.31", "slliw %0, %1, 31", 1, 0xffffffff80000000);
    IMM("srliw.31", "srliw %0, %1, 31", 0xffffffff80000000, 1);
    IMM("srliw.0", "srliw %0, %1, 0", 0x80000000, 0xffffffff80000000);
    IMM("sraiw.31", "sraiw %0, %1, 31", 0x80000000, -1);
    asm volatile("lui %0, 0x80000" : "=r"(r));
    CHECK("lui.sext", r, 0xffffffff80000000);
    asm volatile("lui %0, 0x7ffff" : "=r"(r));
    CHECK("lui.max", r, 0x7ffff000);
    asm volatile("1: auipc %0, 0x80000\n lla %1, 1b" : "=&r"(r), "=&r"(s));
    CHECK("auipc.sext", r, s + 0xffffffff80000000);
    asm volatile("1: auipc %0, 1\n lla %1, 1b" : "=&r"(r), "=&r"(s));
    CHECK("auipc.1", r, s + 4096);
    asm volatile("addi zero, %1, 5\n lui zero, 5\n mv %0, zero" : "=r"(r) : "r"(7ull));
    CHECK("x0.stays_zero", r, 0);
}

static void jumps(void)
{
    u64 r, s;
    /* jalr clears bit 0 of the sum */
    asm volatile(".option push\n .option norvc\n lla t0, 1f\n li %0, 1\n jalr t1, 1(t0)\n li %0, 2\n 1: lla %1, 1b\n"
                 " sub %1, %1, t1\n .option pop" : "=&r"(r), "=&r"(s)::"t0", "t1");
    CHECK("jalr.bit0_cleared", r, 1);
    CHECK("jalr.link", s, 4);
    asm volatile(".option push\n .option norvc\n lla t0, 1f\n jalr t0, -4(t0)\n 2: j 3f\n 1: li %0, 9\n 3: lla %1, 2b\n"
                 " sub %0, t0, %1\n .option pop" : "=&r"(r), "=&r"(s)::"t0");
    CHECK("jalr.rd_is_rs1", r, 0); /* 1f - 4 is 2: the jump itself */
    asm volatile("lla t0, 1f\n c.jalr t0\n 1: lla %1, 1b\n mv %0, ra" : "=&r"(r), "=&r"(s)::"t0", "ra");
    CHECK("c.jalr.link_is_pc_2", r, s);
    asm volatile("li %0, 1\n lla t0, 1f\n c.jr t0\n li %0, 2\n 1:" : "=&r"(r)::"t0");
    CHECK("c.jr", r, 1);
    asm volatile(".option push\n .option norvc\n jal %0, 1f\n 2: nop\n 1: lla %1, 2b\n .option pop"
                 : "=&r"(r), "=&r"(s));
    CHECK("jal.link", r, s);
    /* far and backward */
    asm volatile(".option push\n .option norvc\n .option norelax\n li %0, 0\n j 2f\n 1: addi %0, %0, 1\n j 3f\n"
                 ".skip 60000\n 2: j 1b\n .skip 60000\n 3: .option pop" : "=&r"(r));
    CHECK("jal.far", r, 1);

    static const u64 v[] = {0, 1, 0x7fffffffffffffff, MIN64, ~0ull, 0x80000000};
#define BRANCH(n, cond)                                                                          \
    group("branch." #n);                                                                         \
    for (int i = 0; i < 6; i++)                                                                  \
        for (int j = 0; j < 6; j++) {                                                            \
            u64 a = v[i], b = v[j];                                                              \
            asm volatile("li %0, 1\n " #n " %1, %2, 1f\n li %0, 0\n 1:" : "=&r"(r) : "r"(a), "r"(b)); \
            note("a", a);                                                                        \
            note("b", b);                                                                        \
            CHECK("taken", r, (cond) ? 1 : 0);                                                   \
        }                                                                                        \
    end_group()
    BRANCH(beq, !(a ^ b));
    BRANCH(bne, a ^ b);
    BRANCH(blt, rlt(a, b));
    BRANCH(bge, !rlt(a, b));
    BRANCH(bltu, rltu(a, b));
    BRANCH(bgeu, !rltu(a, b));
}

static void memory(void)
{
    static u64 buf[4];
    u64 r;
    buf[0] = 0xf1e2d3c4b5a69788;
#define LD(n, off, want)                                                          \
    asm volatile(#n " %0, " #off "(%1)" : "=r"(r) : "r"(buf) : "memory");         \
    CHECK("load." #n "_" #off, r, want)
    LD(lb, 0, 0xffffffffffffff88);
    LD(lb, 7, 0xfffffffffffffff1);
    LD(lbu, 0, 0x88);
    LD(lbu, 3, 0xb5);
    LD(lh, 0, 0xffffffffffff9788);
    LD(lhu, 6, 0xf1e2);
    LD(lw, 0, 0xffffffffb5a69788);
    LD(lw, 4, 0xfffffffff1e2d3c4);
    LD(lwu, 4, 0xf1e2d3c4);
    LD(ld, 0, 0xf1e2d3c4b5a69788);
    asm volatile("ld %0, -2048(%1)" : "=r"(r) : "r"((u64)buf + 2048) : "memory");
    CHECK("load.min_offset", r, buf[0]);
    asm volatile("ld %0, 2040(%1)" : "=r"(r) : "r"((u64)buf - 2040) : "memory");
    CHECK("load.max_offset", r, buf[0]);
    buf[1] = -1;
    asm volatile("sb %0, 9(%1)" ::"r"(0x1234567890ull), "r"(buf) : "memory");
    CHECK("store.sb", buf[1], 0xffffffffffff90ff);
    asm volatile("sh %0, 12(%1)" ::"r"(0x1234567890ull), "r"(buf) : "memory");
    CHECK("store.sh", buf[1], 0xffff7890ffff90ff);
    asm volatile("sw %0, 8(%1)" ::"r"(0x1234567890ull), "r"(buf) : "memory");
    CHECK("store.sw", buf[1], 0xffff789034567890);
    asm volatile("sd %0, -8(%1)" ::"r"(0x1234567890ull), "r"(buf + 2) : "memory");
    CHECK("store.sd", buf[1], 0x1234567890);
    CHECK("store.neighbour", buf[0], 0xf1e2d3c4b5a69788);
}

static void compressed(void)
{
    static u64 buf[64];
    u64 r;
#define C1(name, text, in, want)                                                     \
    asm volatile("mv a0, %1\n li a1, 3\n " text "\n mv %0, a0" : "=r"(r) : "r"((u64)(in)) : "a0", "a1"); \
    CHECK(name, r, want)
    C1("c.li", "c.li a0, -32", 0, -32);
    C1("c.lui", "c.lui a0, 0x1f", 0, 0x1f000);
    C1("c.lui_neg", "c.lui a0, 0xfffe0", 0, 0xfffffffffffe0000);
    C1("c.addi", "c.addi a0, -32", 31, -1);
    C1("c.addiw", "c.addiw a0, 1", 0x7fffffff, 0xffffffff80000000);
    C1("c.addiw_sext_w", "c.addiw a0, 0", 0x180000000, 0xffffffff80000000);
    C1("c.slli", "c.slli a0, 63", 1, MIN64);
    C1("c.srli", "c.srli a0, 63", MIN64, 1);
    C1("c.srai", "c.srai a0, 63", MIN64, -1);
    C1("c.srai_32", "c.srai a0, 32", MIN64, 0xffffffff80000000);
    C1("c.andi", "c.andi a0, -32", 0x1234567f, 0x12345660);
    C1("c.sub", "c.sub a0, a1", 1, -2);
    C1("c.xor", "c.xor a0, a1", 5, 6);
    C1("c.or", "c.or a0, a1", 4, 7);
    C1("c.and", "c.and a0, a1", 6, 2);
    C1("c.addw", "c.addw a0, a1", 0x7fffffff, 0xffffffff80000002);
    C1("c.subw", "c.subw a0, a1", 0x80000001, 0x7ffffffe);
    C1("c.mv", "c.mv a0, a1", 1, 3);
    C1("c.add", "c.add a0, a1", -3, 0);
    asm volatile("mv t0, sp\n c.addi4spn a0, sp, 1020\n sub %0, a0, t0" : "=r"(r)::"t0", "a0");
    CHECK("c.addi4spn", r, 1020);
    asm volatile("mv t0, sp\n c.addi16sp sp, -512\n sub %0, sp, t0\n c.addi16sp sp, 496\n c.addi16sp sp, 16"
                 : "=r"(r)::"t0");
    CHECK("c.addi16sp", r, -512);
    for (int i = 0; i < 64; i++)
        buf[i] = 0x8000000100000000ull + i;
    asm volatile("mv a0, %1\n c.ld a1, 248(a0)\n mv %0, a1" : "=r"(r) : "r"(buf) : "a0", "a1", "memory");
    CHECK("c.ld", r, buf[31]);
    asm volatile("mv a0, %1\n c.lw a1, 124(a0)\n mv %0, a1" : "=r"(r) : "r"(buf) : "a0", "a1", "memory");
    CHECK("c.lw", r, 0xffffffff80000001);
    asm volatile("mv a0, %0\n li a1, 77\n c.sd a1, 240(a0)\n c.sw a1, 64(a0)" ::"r"(buf) : "a0", "a1", "memory");
    CHECK("c.sd", buf[30], 77);
    CHECK("c.sw", buf[8], 0x800000010000004d);
    asm volatile("mv t0, sp\n mv sp, %1\n c.ldsp a0, 504(sp)\n c.sdsp a0, 496(sp)\n c.lwsp a1, 252(sp)\n"
                 " c.swsp a0, 248(sp)\n mv sp, t0\n mv %0, a1" : "=r"(r) : "r"(buf) : "t0", "a0", "a1", "memory");
    CHECK("c.ldsp_sdsp", buf[62], buf[63]);
    CHECK("c.lwsp", r, 0xffffffff80000001);
    CHECK("c.swsp", buf[31], 0x800000010000003f);
    asm volatile("li a0, 0\n c.li %0, 1\n c.beqz a0, 1f\n c.li %0, 2\n 1: c.bnez a0, 2f\n c.addi %0, 4\n 2: c.j 3f\n"
                 "c.addi %0, 8\n 3:" : "=&r"(r)::"a0");
    CHECK("c.branches", r, 5);
}

/* A 4-byte instruction across a page end, and across every 2-byte offset around a line end. */
static u16 pages[4096] __attribute__((aligned(4096)));
static void straddling(void)
{
    group("straddle.page_and_line");
    for (u64 at = 2048 - 4; at < 2048 + 4; at++)
        for (int line = 0; line < 2; line++) {
            u64 i = line ? at - 2048 + 32 : at;
            pages[i] = 0x5537;      /* lui a0, 0x12345 */
            pages[i + 1] = 0x1234;
            pages[i + 2] = 0x2505;  /* c.addiw a0, 1 */
            pages[i + 3] = 0x8082;  /* ret */
            FENCE_I();
            register u64 a0 asm("a0") = 0;
            asm volatile("jalr %1" : "+r"(a0) : "r"(&pages[i]) : "ra");
            u64 got = a0;
            note("halfword", i);
            CHECK("value", got, 0x12345001);
        }
    end_group();
}

void tests(void)
{
    grid();
    literals();
    jumps();
    memory();
    compressed();
    straddling();
}

/* A extension: every AMO in both widths, LR/SC, alignment and kinds of faults. */
#include "bare.h"

#define FUNCS(f) f(swap) f(add) f(xor) f(and) f(or) f(min) f(max) f(minu) f(maxu)
#define AMO_FN(n)                                                                       \
    static u64 w_##n(void *p, u64 v)                                                    \
    {                                                                                   \
        u64 r;                                                                          \
        asm volatile("amo" #n ".w %0, %2, (%1)" : "=r"(r) : "r"(p), "r"(v) : "memory"); \
        return r;                                                                       \
    }                                                                                   \
    static u64 d_##n(void *p, u64 v)                                                    \
    {                                                                                   \
        u64 r;                                                                          \
        asm volatile("amo" #n ".d %0, %2, (%1)" : "=r"(r) : "r"(p), "r"(v) : "memory"); \
        return r;                                                                       \
    }
FUNCS(AMO_FN)

static u64 ref(int op, u64 m, u64 v)
{
    i64 a = (i64)m, b = (i64)v;
    switch (op) {
    case 0: return v;
    case 1: return m + v;
    case 2: return m ^ v;
    case 3: return m & v;
    case 4: return m | v;
    case 5: return a < b ? m : v;
    case 6: return a > b ? m : v;
    case 7: return m < v ? m : v;
    default: return m > v ? m : v;
    }
}
static u64 sx(u64 a) { return (u64)(i64)(i32)a; }

static void amos(void)
{
#define ROW(n) {"amo" #n ".w", "amo" #n ".d", w_##n, d_##n},
    static const struct { const char *w, *d; u64 (*fw)(void *, u64), (*fd)(void *, u64); } t[] = {FUNCS(ROW)};
    static const u64 v[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff,
                            0x8000000000000000, 0xffffffff80000000, ~0ull, 0x123456789abcdef0};
    static u64 cell[4];
    for (int op = 0; op < 9; op++) {
        group(t[op].d);
        for (unsigned i = 0; i < 11; i++)
            for (unsigned j = 0; j < 11; j++) {
                note("memory", v[i]);
                note("operand", v[j]);
                cell[1] = v[i];
                CHECK("old", t[op].fd(&cell[1], v[j]), v[i]);
                CHECK("new", cell[1], ref(op, v[i], v[j]));
            }
        end_group();
        group(t[op].w);
        for (int half = 0; half < 2; half++)
            for (unsigned i = 0; i < 11; i++)
                for (unsigned j = 0; j < 11; j++) {
                    note("memory", v[i]);
                    note("operand", v[j]);
                    note("half", half);
                    u32 *c = (u32 *)&cell[1];
                    c[half] = (u32)v[i];
                    c[!half] = 0x5a5a5a5a;
                    CHECK("old", t[op].fw(&c[half], v[j]), sx(v[i]));
                    /* signed and unsigned order of words is that of their sign- and zero-extended values */
                    u64 m = op >= 7 ? (u32)v[i] : sx(v[i]), o = op >= 7 ? (u32)v[j] : sx(v[j]);
                    CHECK("new", c[half], (u32)ref(op, m, o));
                    CHECK("other half", c[!half], 0x5a5a5a5a);
                }
        end_group();
    }
    /* rd = rs2, rd = x0, orderings */
    u64 x = 5;
    cell[0] = 7;
    asm volatile("amoadd.d %0, %0, (%1)" : "+r"(x) : "r"(cell) : "memory");
    CHECK("amo.rd_is_rs2", x << 8 | cell[0], 0x70c);
    void *p = cell;
    asm volatile("amoswap.d.aqrl %0, %1, (%0)" : "+r"(p) : "r"(9ull) : "memory");
    CHECK("amo.rd_is_rs1", (u64)p << 8 | cell[0], 0xc09);
    asm volatile("amoadd.d.aq zero, %0, (%1)" ::"r"(1ull), "r"(cell) : "memory");
    asm volatile("amoadd.w.rl zero, %0, (%1)" ::"r"(1ull), "r"(cell) : "memory");
    CHECK("amo.rd_x0", cell[0], 11);
}

static u64 sc_d(void *p, u64 v)
{
    u64 r;
    asm volatile("sc.d %0, %2, (%1)" : "=r"(r) : "r"(p), "r"(v) : "memory");
    return r;
}
static u64 lr_d(void *p) { u64 r; asm volatile("lr.d %0, (%1)" : "=r"(r) : "r"(p) : "memory"); return r; }

static void reservations(void)
{
    static u64 cell[64] __attribute__((aligned(512)));
    u64 r, f;
    cell[0] = 0x8765432187654321;
    int tries = 0;
    do {
        asm volatile("lr.d %0, (%2)\n sc.d %1, %3, (%2)" : "=&r"(r), "=&r"(f) : "r"(cell), "r"(0x1111ull) : "memory");
    } while (f && r == 0x8765432187654321 && ++tries < 1000);
    CHECK("lrsc.d_succeeds", f, 0);
    CHECK("lrsc.d_old", r, 0x8765432187654321);
    CHECK("lrsc.d_new", cell[0], 0x1111);
    cell[0] = 0x8765432187654321;
    tries = 0;
    do {
        asm volatile("lr.w %0, (%2)\n sc.w %1, %3, (%2)"
                     : "=&r"(r), "=&r"(f) : "r"(cell), "r"(0x92222222ull) : "memory");
    } while (f && ++tries < 1000);
    CHECK("lrsc.w_succeeds", f, 0);
    CHECK("lrsc.w_old_sext", r, 0xffffffff87654321);
    CHECK("lrsc.w_new", cell[0], 0x8765432192222222);
    /* an SC, whether it succeeds or not, ends the reservation */
    f = sc_d(cell, 0x3333);
    CHECK("sc.after_sc_fails", f != 0, 1);
    CHECK("sc.after_sc_no_store", cell[0], 0x8765432192222222);
    /* another address: certainly outside the reservation set (which is at most a page, here a line) */
    lr_d(cell);
    f = sc_d(&cell[32], 0x4444);
    CHECK("sc.other_address_fails", f != 0, 1);
    CHECK("sc.other_address_no_store", cell[32], 0);
    f = sc_d(cell, 0x5555);
    CHECK("sc.after_failed_sc_fails", f != 0, 1);
    CHECK("sc.failed_no_store", cell[0], 0x8765432192222222);
    f = 0x77;
    asm volatile("lr.d t0, (%1)\n sc.d %0, %2, (%1)" : "=&r"(f) : "r"(&cell[1]), "r"(6ull) : "t0", "memory");
    CHECK("sc.result_0_or_nonzero", f == 0 ? cell[1] == 6 : cell[1] == 0, 1);
    /* a newer LR takes over from the older */
    lr_d(cell);
    lr_d(&cell[32]);
    f = sc_d(cell, 0x6666);
    CHECK("sc.only_latest_lr", f != 0, 1);
    /* a loop that is constrained ends: 1000 increments */
    cell[2] = 0;
    for (int i = 0; i < 1000; i++)
        asm volatile("1: lr.w t0, (%0)\n addi t0, t0, 1\n sc.w.rl t0, t0, (%0)\n bnez t0, 1b"
                     ::"r"(&cell[2]) : "t0", "memory");
    CHECK("lrsc.loop", cell[2], 1000);
}

static void faults(void)
{
    static u64 cell[2];
    u64 x = 0x1234;
    for (u64 off = 1; off < 8; off++) {
        char *p = (char *)cell + off;
        if (off == 1)
            group("misaligned");
        note("offset", off);
        TRY("amoadd.d %0, %0, (%1)", "+r"(x), "r"(p));
        EXPECT_TRAP("amo.d", C_STORE_MIS, p);
        TRY("lr.d %0, (%1)", "+r"(x), "r"(p));
        EXPECT_TRAP("lr.d", C_LOAD_MIS, p);
        if (on_qemu)
            continue; /* an SC without a reservation fails there before it looks at the address, which is legal */
        TRY("sc.d %0, %0, (%1)", "+r"(x), "r"(p));
        EXPECT_TRAP("sc.d", C_STORE_MIS, p);
    }
    for (u64 off = 1; off < 4; off++) {
        char *p = (char *)cell + off;
        note("offset", off);
        TRY("amoswap.w %0, %0, (%1)", "+r"(x), "r"(p));
        EXPECT_TRAP("amo.w", C_STORE_MIS, p);
        TRY("lr.w %0, (%1)", "+r"(x), "r"(p));
        EXPECT_TRAP("lr.w", C_LOAD_MIS, p);
    }
    end_group();
    CHECK("misaligned.rd_kept", x, 0x1234);
    CHECK("misaligned.no_store", cell[0] | cell[1], 0);
}

void tests(void)
{
    amos();
    reservations();
    faults();
}

/* Code that is written as data: fence.i, patches in place, in another mode, in the same page as data. */
#include "bare.h"

static u32 code[2048] __attribute__((aligned(4096)));
typedef u64 (*fn0)(void);
static u32 addi_a0(u32 imm) { return imm << 20 | 10 << 7 | 0x13; }
#define RET 0x00008067

static u64 copy_and_call(u64 n)
{
    /* in S or U: writes code and runs it itself */
    code[512] = addi_a0((u32)n);
    code[513] = RET;
    FENCE_I();
    return ((fn0)&code[512])();
}
__attribute__((naked, noinline)) static u64 patch_self(u64 insn)
{
    (void)insn;
    asm volatile("lla t0, 1f\n sw a0, 0(t0)\n fence.i\n .balign 4\n .option push\n .option norvc\n 1: li a0, 1\n ret\n"
                 " .option pop");
}

void tests(void)
{
    fn0 f = (fn0)code;
    group("patch.rewrite");
    for (u32 i = 0; i < 200; i++) {
        code[0] = addi_a0(i);
        code[1] = RET;
        FENCE_I();
        note("i", i);
        CHECK("value", f(), i);
    }
    end_group();
    /* only the last word of a long straight line changes */
    group("patch.late_word");
    for (u32 i = 0; i < 20; i++) {
        for (int k = 0; k < 300; k++)
            code[k] = 0x00150513; /* addi a0, a0, 1 */
        code[0] = addi_a0(0);
        code[299] = 0x00050513 | i << 20;
        code[300] = RET;
        FENCE_I();
        note("i", i);
        CHECK("value", f(), 298 + i);
    }
    end_group();
    CHECK("patch.self", patch_self(addi_a0(42)), 42);
    CHECK("patch.self_again", patch_self(addi_a0(43)), 43);
    /* a loop whose body is patched while it runs: each round adds what it was patched to */
    group("patch.loop");
    code[0] = addi_a0(0);
    code[1] = RET;
    FENCE_I();
    u64 sum = 0;
    for (u32 i = 0; i < 100; i++) {
        sum += f();
        code[0] = addi_a0(i);
        FENCE_I();
    }
    CHECK("sum", sum, 98 * 99 / 2);
    end_group();
    /* compressed code replaces a full instruction: boundaries move */
    code[0] = 0x25052505; /* c.addiw a0, 1 twice */
    code[1] = RET;
    FENCE_I();
    register u64 a0 asm("a0") = 5;
    asm volatile("jalr %1" : "+r"(a0) : "r"(code) : "ra");
    u64 got = a0;
    CHECK("patch.to_compressed", got, 7);
    /* data in the code's page changes all the time */
    group("patch.data_in_page");
    code[0] = addi_a0(11);
    code[1] = RET;
    FENCE_I();
    for (u32 i = 0; i < 500; i++) {
        ((volatile u32 *)code)[1000] = i;
        note("i", i);
        CHECK("value", f(), 11);
        CHECK("data", ((volatile u32 *)code)[1000], i);
    }
    end_group();
    /* bytes and halves too */
    code[0] = addi_a0(0);
    FENCE_I();
    f();
    ((volatile u8 *)code)[3] = 0x07;
    FENCE_I();
    CHECK("patch.byte_store", f(), 0x70);
    ((volatile u16 *)code)[1] = 0x0120;
    FENCE_I();
    CHECK("patch.half_store", f(), 0x12);
    u64 r;
    asm volatile("amoswap.w %0, %1, (%2)" : "=r"(r) : "r"(addi_a0(99)), "r"(code) : "memory");
    FENCE_I();
    CHECK("patch.amo", f(), 99);
    asm volatile("1: lr.w t0, (%0)\n sc.w t0, %1, (%0)\n bnez t0, 1b" ::"r"(code), "r"(addi_a0(77)) : "t0", "memory");
    FENCE_I();
    CHECK("patch.sc", f(), 77);
    /* in S and U */
    group("patch.in_s_and_u");
    for (u64 i = 0; i < 50; i++)
        for (int mode = U; mode <= S; mode++) {
            u64 v = RUN(mode, copy_and_call, i * 8 + mode);
            note("i", i);
            CHECK("ended", me()->ended, 1);
            CHECK("value", v, i * 8 + mode);
        }
    end_group();
    /* M writes, U runs: the trap and return between do not replace fence.i, which M gives */
    group("patch.m_writes_u_runs");
    for (u32 i = 0; i < 50; i++) {
        code[0] = addi_a0(i);
        code[1] = RET;
        FENCE_I();
        u64 v = RUN(U, code);
        CHECK("value", v, i);
    }
    end_group();
    /* an instruction across two lines and two pages, one half patched at a time */
    u16 *h = (u16 *)code;
    h[2047] = 0x0513; /* addi a0, zero, i */
    h[2049] = 0x8082; /* ret */
    group("patch.straddling_half");
    for (u16 i = 0; i < 50; i++) {
        h[2048] = i << 4;
        FENCE_I();
        CHECK("second half", ((fn0)(h + 2047))(), i);
    }
    for (u16 i = 0; i < 50; i++) {
        h[2047] = i & 1 ? 0x0513 : 0x0533; /* addi a0, zero, 0x310 -> */
        h[2048] = i & 1 ? 0x0310 : 0x0000; /* add a0, zero, zero */
        FENCE_I();
        CHECK("both halves", ((fn0)(h + 2047))(), i & 1 ? 0x31 : 0);
    }
    end_group();
}

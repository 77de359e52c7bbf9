/* Synchronous exceptions: cause, mepc, mtval, mstatus; trap return; delegation; TVM, TW, TSR; vectors. */
#include "bare.h"

static u32 code[16] __attribute__((aligned(64)));

/* mtval of an illegal instruction is zero or the instruction (privileged spec, mtval) */
static void expect_illegal(const char *name, int line, u64 insn)
{
    struct hart *h = me();
    expect_trap_(name, line, C_ILLEGAL, h->tval ? insn : 0);
}
#define ILLEGAL(name, insn) expect_illegal(name, __LINE__, insn)

/* runs a single encoding from a buffer */
static void exec_word(u32 insn)
{
    if ((insn & 3) == 3) {
        code[0] = insn;
        code[1] = 0x00008067; /* ret */
    } else {
        code[0] = 0x80820000 | (insn & 0xffff); /* c.ret after it */
    }
    code[2] = 0x00008067;
    FENCE_I();
    arm();
    me()->want_epc = (u64)code;
    asm volatile("jalr %0" ::"r"(code) : "ra", "a0", "a1", "a2", "a3", "a4", "a5", "s1", "t0", "t1", "memory");
    disarm();
}

static void synchronous(void)
{
    u64 x = 0x1234, far = NOTHING;

    TRY("csrrw zero, 0xc00, zero", , ); /* cycle is read-only */
    ILLEGAL("illegal.csr_write", 0xc0001073);
    TRY("ebreak", , );
    CHECK("ebreak.cause", cause(), C_BREAK);
    CHECK("ebreak.epc", me()->epc, me()->want_epc);
    CHECK("ebreak.tval_zero_or_pc", me()->tval == 0 || me()->tval == me()->epc, 1);
    TRY("c.ebreak", , );
    CHECK("c.ebreak.cause", cause(), C_BREAK);
    CHECK("c.ebreak.epc", me()->epc, me()->want_epc);
    TRY("ecall", , );
    EXPECT_TRAP("ecall.m", C_ECALL_M, 0);
    TRY("ld %0, 16(%1)", "+r"(x), "r"(far));
    EXPECT_TRAP("load.access", C_LOAD_ACC, far + 16);
    CHECK("load.access.rd_kept", x, 0x1234);
    TRY("lbu %0, 3(%1)", "+r"(x), "r"(far));
    EXPECT_TRAP("lbu.access", C_LOAD_ACC, far + 3);
    TRY("sd %0, -16(%1)", , LIST("r"(x), "r"(far + 64)));
    EXPECT_TRAP("store.access", C_STORE_ACC, far + 48);
    TRY("sb %0, 7(%1)", , LIST("r"(x), "r"(far)));
    EXPECT_TRAP("sb.access", C_STORE_ACC, far + 7);
    {
        /* registers that c.lw can name; no compiler of Debian has a constraint for them */
        register u64 data asm("s0") = x, base asm("s1") = far;
        TRY("c.lw %0, 4(%1)", "+r"(data), "r"(base));
        EXPECT_TRAP("c.lw.access", C_LOAD_ACC, far + 4);
        CHECK("c.lw.access.rd_kept", data, x);
    }
    TRY("ld zero, 0(%0)", , "r"(far));
    EXPECT_TRAP("load_x0.access", C_LOAD_ACC, far);
    TRY("lr.d %0, (%1)", "+r"(x), "r"(far));
    EXPECT_TRAP("lr.access", C_LOAD_ACC, far);
    TRY("amoadd.w %0, %0, (%1)", "+r"(x), "r"(far));
    QEMU_DIFFERS("QEMU reports an AMO to no memory as a load");
    EXPECT_TRAP("amo.access", C_STORE_ACC, far);
    TRY("ld %0, 0(%1)", "+r"(x), "r"(NOTHING_HIGH));
    EXPECT_TRAP("load.access_high", C_LOAD_ACC, NOTHING_HIGH);

    RUN(M, NOTHING);
    CHECK("fetch.access.cause", me()->cause, C_IFETCH_ACC);
    CHECK("fetch.access.epc", me()->epc, NOTHING);
    CHECK("fetch.access.tval", me()->tval, NOTHING);
    RUN(S, NOTHING + 2);
    CHECK("fetch.access_s.cause", me()->cause, C_IFETCH_ACC);
    CHECK("fetch.access_s.tval", me()->tval, NOTHING + 2);
    CHECK("fetch.access_s.mpp", me()->status & ST_MPP, ST_MPP_S);
}

/* jalr to nowhere has retired: the link register is written and the fault is the target's */
__attribute__((naked, noinline)) static void jump_nowhere(void)
{
    asm volatile("li t0, 0x200000\n li t2, 0\n lla t1, 1f\n jalr t2, 1(t0)\n 1: ret");
}
__attribute__((naked, noinline)) static void do_ecall(void) { asm volatile("li a7, 0\n ecall\n ret"); }
__attribute__((naked, noinline)) static void do_nothing(void) { asm volatile("ret"); }

static void modes(void)
{
    struct hart *h = me();
    RUN(M, jump_nowhere);
    CHECK("jalr_nowhere.epc", h->epc, NOTHING);
    CHECK("jalr_nowhere.link", h->regs[7], h->regs[6]);

    static const struct { int mode; u64 cause; const char *n1, *n2, *n3; } m[] = {
        {U, C_ECALL_U, "ecall_u.cause", "ecall_u.mpp", "ecall_u.tval"},
        {S, C_ECALL_S, "ecall_s.cause", "ecall_s.mpp", "ecall_s.tval"},
        {M, C_ECALL_M, "ecall_m.cause", "ecall_m.mpp", "ecall_m.tval"}};
    for (int i = 0; i < 3; i++) {
        RUN(m[i].mode, do_ecall);
        CHECK(m[i].n1, h->cause, m[i].cause);
        CHECK(m[i].n2, (h->status & ST_MPP) >> 11, m[i].mode);
        CHECK(m[i].n3, h->tval, 0);
    }
    RUN(U, do_ecall);
    CHECK("ecall_u.epc", h->epc, (u64)do_ecall + 2);

    /* MPIE takes MIE, MIE becomes 0, and mret gives it back */
    csrs(mstatus, ST_MIE);
    TRY("ecall", , );
    u64 after = csrr(mstatus);
    CHECK("trap.mpie_from_mie1", h->status & (ST_MIE | ST_MPIE), ST_MPIE);
    CHECK("trap.mpp_m", h->status & ST_MPP, ST_MPP_M);
    CHECK("mret.mie_from_mpie1", after & (ST_MIE | ST_MPIE), ST_MIE | ST_MPIE);
    CHECK("mret.mpp_becomes_u", after & ST_MPP, 0);
    csrc(mstatus, ST_MIE);
    TRY("ecall", , );
    after = csrr(mstatus);
    CHECK("trap.mpie_from_mie0", h->status & (ST_MIE | ST_MPIE), 0);
    CHECK("mret.mie_from_mpie0", after & (ST_MIE | ST_MPIE), ST_MPIE);

    /* a trap to M leaves the S bits alone */
    csrs(mstatus, ST_SIE | ST_SPP);
    csrc(mstatus, ST_SPIE);
    RUN(U, do_ecall);
    CHECK("trap_m.keeps_s_bits", h->status & (ST_SIE | ST_SPIE | ST_SPP), ST_SIE | ST_SPP);
    clean();
}

static void trap_return(void)
{
    struct hart *h = me();
    /* MPRV falls on mret to less than M, stays on mret to M */
    csrs(mstatus, ST_MPRV | ST_MPP_M);
    csrs(mstatus, ST_MPIE);
    RUN(S, do_nothing);
    QEMU_DIFFERS("QEMU 7.2 keeps MPRV (privileged 1.11)");
    CHECK("mret.clears_mprv_to_s", h->status & ST_MPRV, 0);
    CHECK("mret.mie_from_mpie1_to_s", h->status & ST_MPIE, ST_MPIE); /* the trap moved MIE back to MPIE */
    clean();
    RUN(S, do_nothing);
    CHECK("mret.mie_from_mpie0_to_s", h->status & ST_MPIE, 0);
    csrs(mstatus, ST_MPRV);
    RUN(U, do_nothing);
    QEMU_DIFFERS("QEMU 7.2 keeps MPRV (privileged 1.11)");
    CHECK("mret.clears_mprv_to_u", h->status & ST_MPRV, 0);
    csrs(mstatus, ST_MPRV);
    RUN(M, do_nothing);
    CHECK("mret.keeps_mprv_to_m", h->status & ST_MPRV, ST_MPRV);
    clean();

    /* sret from M to S, then to U */
    u64 st;
    asm volatile("lla t0, 1f\n csrw sepc, t0\n csrs mstatus, %1\n csrc mstatus, %2\n lla t0, 2f\n csrw mepc, t0\n"
                 "lla t0, 3f\n csrw mtvec, t0\n sret\n .balign 4\n 3: csrr %0, mstatus\n lla t0, mtrap\n"
                 "csrw mtvec, t0\n j 4f\n 2:\n 1: ecall\n 4:"
                 : "=&r"(st)
                 : "r"(ST_SPP | ST_SPIE | ST_MPRV), "r"(ST_SIE)
                 : "t0", "memory");
    CHECK("sret_in_m.to_s", st & ST_MPP, ST_MPP_S);
    CHECK("sret_in_m.spp_becomes_u", st & ST_SPP, 0);
    CHECK("sret_in_m.sie_from_spie", st & (ST_SIE | ST_SPIE), ST_SIE | ST_SPIE);
    QEMU_DIFFERS("QEMU 7.2 keeps MPRV (privileged 1.11)");
    CHECK("sret_in_m.clears_mprv", st & ST_MPRV, 0);
    clean();
    asm volatile("lla t0, 1f\n csrw sepc, t0\n csrc mstatus, %1\n csrs mstatus, %2\n"
                 "lla t0, 3f\n csrw mtvec, t0\n sret\n .balign 4\n 3: csrr %0, mstatus\n lla t0, mtrap\n"
                 "csrw mtvec, t0\n j 4f\n 1: ecall\n 4:"
                 : "=&r"(st)
                 : "r"(ST_SPP | ST_SPIE), "r"(ST_SIE)
                 : "t0", "memory");
    CHECK("sret_in_m.to_u", st & ST_MPP, 0);
    CHECK("sret_in_m.sie_from_spie0", st & (ST_SIE | ST_SPIE), ST_SPIE);
    clean();

    /* mepc and sepc: bit 0 reads as zero, an odd value does not reach the pc */
    csrw(mepc, 0x80000003);
    QEMU_DIFFERS("QEMU 7.2 keeps bit 0 until the return");
    CHECK("mepc.bit0_zero", csrr(mepc), 0x80000002);
    csrw(sepc, 0x80000005);
    QEMU_DIFFERS("QEMU 7.2 keeps bit 0 until the return");
    CHECK("sepc.bit0_zero", csrr(sepc), 0x80000004);
}

static u64 do_mret(void) { TRY("mret", , ); return 0; }
static u64 do_sret(void) { TRY("sret", , ); return 0; }
static u64 do_wfi(void) { TRY("wfi", , ); return 0; }
static u64 do_sfence(void) { TRY("sfence.vma", , ); return 0; }
static u64 do_satp_r(void) { u64 x = 0; TRY("csrr %0, satp", "+r"(x), ); return x; }
static u64 do_satp_w(void) { TRY("csrw satp, zero", , ); return 0; }
__attribute__((naked)) static void do_sret_ok(void)
{
    asm volatile("lla t0, 1f\n csrw sepc, t0\n li t0, 0x100\n csrc sstatus, t0\n sret\n 1: li a7, 0\n ecall");
}
__attribute__((naked)) static void do_sret_ok_s(void)
{
    asm volatile("lla t0, 1f\n csrw sepc, t0\n li t0, 0x122\n csrs sstatus, t0\n csrci sstatus, 2\n sret\n"
                 " 1: li a7, 0\n ecall");
}

static void privilege(void)
{
    struct hart *h = me();
    RUN(S, do_mret);
    ILLEGAL("mret.in_s", 0x30200073);
    CHECK("mret.in_s.mpp", h->status & ST_MPP, ST_MPP_S);
    RUN(U, do_mret);
    ILLEGAL("mret.in_u", 0x30200073);
    CHECK("mret.in_u.mpp", h->status & ST_MPP, 0);
    RUN(U, do_sret);
    ILLEGAL("sret.in_u", 0x10200073);
    RUN(U, do_sfence);
    ILLEGAL("sfence.in_u", 0x12000073);
    RUN(S, do_sfence);
    EXPECT_NONE("sfence.in_s");

    RUN(S, do_sret_ok);
    CHECK("sret.s_to_u.cause", h->cause, C_ECALL_U);
    CHECK("sret.s_to_u.spp", h->status & ST_SPP, 0);
    clean();
    RUN(S, do_sret_ok_s);
    CHECK("sret.s_to_s.cause", h->cause, C_ECALL_S);
    CHECK("sret.s_to_s.spp_becomes_u", h->status & ST_SPP, 0);
    CHECK("sret.s_to_s.sie", h->status & (ST_SIE | ST_SPIE), ST_SIE | ST_SPIE);
    clean();

    csrs(mstatus, ST_TSR);
    RUN(S, do_sret);
    ILLEGAL("tsr.sret_in_s", 0x10200073);
    csrc(mstatus, ST_TSR);

    csrs(mstatus, ST_TVM);
    RUN(S, do_sfence);
    ILLEGAL("tvm.sfence", 0x12000073);
    RUN(S, do_satp_r);
    ILLEGAL("tvm.satp_read", (0x18002573 & 0xfffff07f) | (h->tval & 0xf80));
    RUN(S, do_satp_w);
    ILLEGAL("tvm.satp_write", 0x18001073);
    u64 x = 1;
    TRY("csrr %0, satp", "+r"(x), );
    EXPECT_NONE("tvm.satp_in_m");
    TRY("sfence.vma", , );
    EXPECT_NONE("tvm.sfence_in_m");
    csrc(mstatus, ST_TVM);
    RUN(S, do_satp_r);
    EXPECT_NONE("tvm0.satp_read");

    /* TW: S and U trap (nothing is pending that could end the wfi within the time limit). */
    csrs(mstatus, ST_TW);
    RUN(S, do_wfi);
    ILLEGAL("tw.wfi_in_s", 0x10500073);
    RUN(U, do_wfi);
    ILLEGAL("tw.wfi_in_u", 0x10500073);
    csrw(mie, 1 << MSI); /* pending and enabled: must not stall in M whatever TW says */
    wr32(MSIP(0), 1);
    TRY("wfi", , );
    EXPECT_NONE("tw.wfi_in_m");
    clean();
}

static u64 d_ecall(void) { TRY("ecall", , ); return 0; }
static u64 d_illegal(void) { TRY(".word 0xc0001073", , ); return 0; }
static u64 d_load(void) { u64 x = 0; TRY("ld %0, 8(%1)", "+r"(x), "r"(NOTHING)); return 0; }
static u64 d_store(void) { TRY("sd zero, 8(%0)", , "r"(NOTHING)); return 0; }
static u64 d_break(void) { TRY("ebreak", , ); return 0; }

static void delegation(void)
{
    struct hart *h = me();
    static const struct { const char *n, *nu; u64 (*fn)(void); int cause, cause_u; u64 tval; } d[] = {
        {"deleg.illegal_s", "deleg.illegal_u", d_illegal, C_ILLEGAL, C_ILLEGAL, ANY},
        {"deleg.load_s", "deleg.load_u", d_load, C_LOAD_ACC, C_LOAD_ACC, NOTHING + 8},
        {"deleg.store_s", "deleg.store_u", d_store, C_STORE_ACC, C_STORE_ACC, NOTHING + 8},
        {"deleg.break_s", "deleg.break_u", d_break, C_BREAK, C_BREAK, ANY},
        {"deleg.ecall_s", "deleg.ecall_u", d_ecall, C_ECALL_S, C_ECALL_U, 0},
    };
    for (unsigned i = 0; i < sizeof d / sizeof *d; i++)
        for (int mode = U; mode <= S; mode++) {
            const char *n = mode == S ? d[i].n : d[i].nu;
            u64 c = mode == S ? d[i].cause : d[i].cause_u;
            if (c == C_ECALL_S)
                continue; /* its delegation is of no use and would catch the end of run() */
            group(n);
            csrw(medeleg, 1ull << c);
            CHECK("medeleg bit", csrr(medeleg), 1ull << c);
            csrs(mstatus, ST_SIE);
            csrc(mstatus, ST_SPIE);
            RUN(mode, d[i].fn);
            expect_trap_("trap", __LINE__, c, d[i].tval);
            CHECK("taken in S", h->taken_in, S);
            CHECK("SPP", !!(h->status & ST_SPP), mode);
            CHECK("SIE, SPIE", h->status & (ST_SIE | ST_SPIE), ST_SPIE);
            csrw(medeleg, ~(1ull << c) & 0xb3ff & ~(1ull << 9) & ~(1ull << 8));
            RUN(mode, d[i].fn);
            expect_trap_("not delegated", __LINE__, c, d[i].tval);
            CHECK("taken in M", h->taken_in, M);
            clean();
            end_group();
        }
    /* SIE = 0 before: SPIE becomes 0 */
    csrw(medeleg, 1 << C_LOAD_ACC);
    csrc(mstatus, ST_SIE);
    csrs(mstatus, ST_SPIE);
    RUN(S, d_load);
    CHECK("deleg.spie_from_sie0", h->status & (ST_SIE | ST_SPIE), 0);
    /* traps in M stay in M */
    csrw(medeleg, 0xb3ff);
    d_load();
    CHECK("deleg.m_stays_in_m", h->taken_in, M);
    CHECK("deleg.m_cause", h->cause, C_LOAD_ACC);
    csrw(medeleg, -1);
    QEMU_DIFFERS("QEMU lets the bit be written");
    CHECK("medeleg.ecall_m_zero", csrr(medeleg) >> 11 & 1, 0);
    csrw(medeleg, 0);
    CHECK("medeleg.all_zero", csrr(medeleg), 0);
    /* a delegated trap writes no M register */
    csrw(medeleg, 1 << C_LOAD_ACC | 1 << C_ECALL_U);
    csrw(mcause, 11);
    csrw(mtval, 0x55);
    RUN(S, d_load);
    CHECK("deleg.mtval_untouched", csrr(mtval) == 0x55 || csrr(mtval) == 0, 1); /* end of run() may zero it */
    clean();

    /* fetch fault, delegated: sepc = stval = the address */
    csrw(medeleg, 1 << C_IFETCH_ACC);
    RUN(U, NOTHING);
    CHECK("deleg.fetch.cause", h->cause, C_IFETCH_ACC);
    CHECK("deleg.fetch.in_s", h->taken_in, S);
    CHECK("deleg.fetch.epc", h->epc, NOTHING);
    CHECK("deleg.fetch.tval", h->tval, NOTHING);
    clean();
}

static void vectored(void)
{
    struct hart *h = me();
    csrw(mtvec, (u64)vec_m | 1);
    CHECK("mtvec.vectored", csrr(mtvec), (u64)vec_m | 1);
    vec_slot = 99;
    TRY("ebreak", , );
    CHECK("mtvec.exception_to_base", vec_slot, 0);
    CHECK("mtvec.exception_cause", h->cause, C_BREAK);
    vec_slot = 99;
    wr32(MSIP(0), 1);
    csrw(mie, 1 << MSI);
    TRY("csrs mstatus, %0\n nop\n nop", , "r"(ST_MIE));
    csrc(mstatus, ST_MIE);
    CHECK("mtvec.msi_slot", vec_slot, MSI);
    CHECK("mtvec.msi_cause", h->irq[0], MSI);
    clean();
    csrw(mtvec, (u64)vec_m | 1);
    csrw(mie, 1 << SSI);
    csrw(mip, 1 << SSI);
    TRY("csrs mstatus, %0\n nop\n nop", , "r"(ST_MIE));
    csrc(mstatus, ST_MIE);
    CHECK("mtvec.ssi_slot", vec_slot, SSI);
    clean();

    csrw(stvec, (u64)vec_s | 1);
    CHECK("stvec.vectored", csrr(stvec), (u64)vec_s | 1);
    csrw(medeleg, 1 << C_LOAD_ACC);
    vec_slot = 99;
    RUN(U, d_load);
    CHECK("stvec.exception_to_base", vec_slot, 0);
    CHECK("stvec.exception_in_s", h->taken_in, S);
    vec_slot = 99;
    csrw(mideleg, 1 << SSI);
    csrw(mie, 1 << SSI);
    csrw(mip, 1 << SSI);
    RUN(U, do_nothing);
    CHECK("stvec.ssi_slot", vec_slot, SSI);
    CHECK("stvec.ssi_in_s", h->irq[0], SSI | 0x100);
    clean();
}

/* Reserved encodings that an RV64IMAFDC core without further extensions does not have. */
static const struct { const char *name; u32 insn; } bad[] = {
    {"enc.c.zero", 0x0000},
    {"enc.ones", 0xffffffff},
    {"enc.load_funct3_7", 0x00057003 | 10 << 7},
    {"enc.store_funct3_4", 0x00a54023},
    {"enc.branch_funct3_2", 0x00002063},
    {"enc.branch_funct3_3", 0x00003063},
    {"enc.jalr_funct3_1", 0x00051067},
    {"enc.miscmem_funct3_7", 0x0000700f},
    {"enc.slli_bit26", 0x04051513},
    {"enc.srai_bit31", 0xc0055513},
    {"enc.slliw_shamt5", 0x0205151b},
    {"enc.sraiw_shamt5", 0x4205551b},
    {"enc.op_funct7_7f", 0xfeb50533},
    {"enc.sub_funct3_1", 0x40b51533},
    {"enc.opw_funct3_2", 0x00b5253b},
    {"enc.mulw_funct3_1", 0x02b5153b},
    {"enc.amo_funct3_0", 0x00b5052f},
    {"enc.amo_funct3_4", 0x00b5452f},
    {"enc.amo_funct5_6", 0x30b5352f},
    {"enc.lr_rs2", 0x1015352f},
    {"enc.system_funct3_4", 0x00054573},
    {"enc.ecall_rd", 0x000000f3},
    {"enc.ecall_rs1", 0x00008073},
    {"enc.system_imm_003", 0x00300073}, /* 0x002 is uret, long gone */
    {"enc.uret", 0x00200073},
    {"enc.sret_rd", 0x102000f3},
    {"enc.wfi_rs1", 0x10508073},
    {"enc.sfence_rd", 0x120000f3},
    {"enc.custom0", 0x0000000b},
    {"enc.custom1", 0x0000002b},
    {"enc.op_48bit", 0x0000001f},
    {"enc.reserved_6b", 0x0000006b},
    {"enc.c.addi4spn_0", 0x0004},
    {"enc.c.q0_funct3_4", 0x8000},
    {"enc.c.addiw_rd0", 0x2001},
    {"enc.c.addi16sp_0", 0x6101},
    {"enc.c.lui_0", 0x6481},
    {"enc.c.alu_w_2", 0x9c41},
    {"enc.c.alu_w_3", 0x9c61},
    {"enc.c.lwsp_rd0", 0x4002},
    {"enc.c.ldsp_rd0", 0x6002},
    {"enc.c.jr_0", 0x8002},
};

static void encodings(void)
{
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        exec_word(bad[i].insn);
        ILLEGAL(bad[i].name, (bad[i].insn & 3) == 3 ? bad[i].insn : bad[i].insn & 0xffff);
    }
    /* hints and reserved fields that must not trap */
    static const struct { const char *name; u32 insn; } good[] = {
        {"enc.fence_all_fields", 0x0ff5050f}, /* rd, rs1 are ignored */
        {"enc.fence.tso", 0x8330000f},
        {"enc.fence_fm_reserved", 0x1330000f},
        {"enc.fence_0_0", 0x0000000f},
        {"enc.pause", 0x0100000f},
        {"enc.fence.i_fields", 0x1235150f},
        {"enc.prefetch.r", 0x00156013},
        {"enc.prefetch.w", 0x00356013},
        {"enc.prefetch.i", 0x00056013},
        {"enc.ntl.all", 0x00500033},
        {"enc.ntl.p1", 0x00200033},
        {"enc.c.ntl.all", 0x9016},
        {"enc.c.nop_imm", 0x0005},
        {"enc.c.li_x0", 0x4005},
        {"enc.c.lui_x0", 0x6005},
        {"enc.c.slli_x0", 0x0006},
        {"enc.c.slli_shamt0", 0x0502},
        {"enc.c.srli_shamt0", 0x8101},
        {"enc.c.add_x0", 0x902a},
        {"enc.c.mv_x0", 0x802a},
        {"enc.lui_x0", 0x00001037},
    };
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        exec_word(good[i].insn);
        EXPECT_NONE(good[i].name);
    }
}

void tests(void)
{
    synchronous();
    modes();
    trap_return();
    privilege();
    delegation();
    vectored();
    encodings();
}

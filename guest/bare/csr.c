/* Control and status registers: existence, privilege, read-only numbers, WARL fields, views, counters. */
#include "bare.h"

static u32 code[8] __attribute__((aligned(64)));

/* csrrs a0, csr, zero and the like from a buffer; a0 on return is what was read */
static u64 exec_csr(u32 funct3, u32 csr, u32 rs1, u32 rd)
{
    register u64 a0 asm("a0") = 0x5eed;
    code[0] = csr << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x73;
    code[1] = 0x00008067;
    FENCE_I();
    arm();
    me()->want_epc = (u64)code;
    asm volatile("li a1, 0\n jalr %1" : "+r"(a0) : "r"(code) : "ra", "a1", "memory");
    disarm();
    return a0;
}
#define CSRRW 1
#define CSRRS 2
#define CSRRC 3
#define A0 10
#define A1 11 /* holds zero in exec_csr */

static u64 has_h(void) { return csrr(misa) >> 7 & 1; }

static u64 traps_seen[4096 / 64];
static u64 sweep(void)
{
    for (u32 c = 0; c < 4096; c++) {
        exec_csr(CSRRS, c, 0, A0);
        u64 bit = 1ull << (c & 63);
        if (cause() == C_ILLEGAL && me()->epc == (u64)code)
            traps_seen[c / 64] |= bit;
        else
            traps_seen[c / 64] &= ~bit;
        if (cause() != NONE && cause() != C_ILLEGAL)
            return c;
    }
    return 0;
}
static int trapped(u32 c) { return traps_seen[c / 64] >> (c & 63) & 1; }

static void privileges(void)
{
    csrw(mcounteren, 0);
    for (int mode = U; mode <= S; mode++) {
        group(mode == U ? "privilege.from_u" : "privilege.from_s");
        run(mode, (u64)sweep, 0, 0);
        CHECK("finished", me()->ended, 1);
        for (u32 c = 0; c < 4096; c++) {
            u32 level = c >> 8 & 3;
            if (level == 2 && mode == S && has_h())
                continue; /* S is HS mode then */
            if ((int)level > mode) {
                note("csr", c);
                CHECK("traps", trapped(c), 1);
            }
        }
        /* cycle .. hpmcounter31 are closed by mcounteren */
        for (u32 c = 0xc00; c < 0xc20; c++) {
            note("csr", c);
            CHECK("counter traps", trapped(c), 1);
        }
        end_group();
        static const u16 s_csr[] = {0x100, 0x104, 0x105, 0x106, 0x10a, 0x140, 0x141, 0x142, 0x143, 0x144, 0x180};
        if (mode == S) {
            group("privilege.s_csrs_exist");
            for (unsigned i = 0; i < sizeof s_csr / sizeof *s_csr; i++) {
                note("csr", s_csr[i]);
                CHECK("readable", trapped(s_csr[i]), 0);
            }
            end_group();
        }
    }
    group("exist.m");
    csrw(mcounteren, -1);
    sweep();
    static const u16 m_csr[] = {0x300, 0x301, 0x302, 0x303, 0x304, 0x305, 0x306, 0x30a, 0x320, 0x340, 0x341, 0x342,
                                0x343, 0x344, 0x3a0, 0x3a2, 0xb00, 0xb02, 0xc00, 0xc01, 0xc02, 0xf11, 0xf12, 0xf13,
                                0xf14, 0xf15, 0x100, 0x104, 0x105, 0x106, 0x10a, 0x140, 0x180, 0x14d};
    for (unsigned i = 0; i < sizeof m_csr / sizeof *m_csr; i++) {
        note("csr", m_csr[i]);
        CHECK("readable", trapped(m_csr[i]), 0);
    }
    for (u32 c = 0x3b0; c < 0x3c0; c++) {
        note("csr", c);
        CHECK("pmpaddr", trapped(c), 0);
    }
    end_group();
    group("exist.hpm"); /* Zihpm: 29 counters and selectors, at least as zeros */
    for (u32 n = 3; n < 32; n++) {
        note("n", n);
        QEMU_DIFFERS("16 programmable counters");
        CHECK("mhpmcounter", trapped(0xb00 + n), 0);
        QEMU_DIFFERS("16 programmable counters");
        CHECK("mhpmevent", trapped(0x320 + n), 0);
        QEMU_DIFFERS("16 programmable counters");
        CHECK("hpmcounter", trapped(0xc00 + n), 0);
    }
    end_group();
    group("absent.m");
    static const u16 none[] = {0x3a1, 0x3a3, 0x7b0, 0x7b1, 0xb01, 0xb80, 0xc80, 0xc81, 0xc82, 0xbff, 0x000, 0x005,
                               0x310, 0x4c0, 0x9c0, 0xffe};
    for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
        note("csr", none[i]);
        CHECK("traps", trapped(none[i]), 1);
    }
    if (!has_h())
        for (u32 c = 0x600; c < 0x690; c++) {
            note("csr", c);
            CHECK("hypervisor", trapped(c), 1);
        }
    end_group();

    /* numbers with the two top bits set are read-only */
    group("read_only.sweep");
    for (u32 c = 0xc00; c < 0x1000; c++) {
        note("csr", c);
        exec_csr(CSRRW, c, 0, 0);
        EXPECT_CAUSE("csrrw", C_ILLEGAL);
    }
    end_group();
    exec_csr(CSRRS, 0xf14, A1, A0);
    QEMU_DIFFERS("QEMU 7.2 looks at the value, not at the register number");
    EXPECT_CAUSE("read_only.csrrs_reg_with_zero", C_ILLEGAL);
    exec_csr(CSRRC, 0xf14, A1, A0);
    QEMU_DIFFERS("QEMU 7.2 looks at the value, not at the register number");
    EXPECT_CAUSE("read_only.csrrc_reg_with_zero", C_ILLEGAL);
    u64 r = exec_csr(CSRRC, 0xf14, 0, A0);
    EXPECT_NONE("read_only.csrrc_x0");
    CHECK("mhartid", r, 0);
    exec_csr(CSRRS | 4, 0xf14, 0, A0);
    EXPECT_NONE("read_only.csrrsi_0");
    exec_csr(CSRRS | 4, 0xf14, 1, A0);
    EXPECT_CAUSE("read_only.csrrsi_1", C_ILLEGAL);
    r = exec_csr(CSRRW | 4, 0xf14, 0, A0);
    EXPECT_CAUSE("read_only.csrrwi_0", C_ILLEGAL);
    CHECK("read_only.rd_kept", r, 0x5eed);
    clean();
}

static void operations(void)
{
    u64 x;
    csrw(mscratch, 0xff00ff00ff00ff00);
    asm volatile("csrrs %0, mscratch, %1" : "=r"(x) : "r"(0x0f0f0f0f0f0f0f0f));
    u64 y = csrr(mscratch);
    asm volatile("csrrc %0, mscratch, %1" : "=r"(x) : "r"(0xffff));
    u64 z = csrr(mscratch);
    u64 v = 0x123;
    asm volatile("csrrw %0, mscratch, %0" : "+r"(v));
    u64 w;
    asm volatile("csrrwi %0, mscratch, 31" : "=r"(w));
    u64 a, b, c, d;
    asm volatile("csrrci %0, mscratch, 5\n csrrsi %1, mscratch, 4\n csrr %2, mscratch" : "=&r"(a), "=&r"(b), "=&r"(c));
    asm volatile("csrrwi zero, mscratch, 3\n csrrs %0, mscratch, zero" : "=r"(d));
    csrw(mscratch, me());
    CHECK("csrrs.old", x, 0xff0fff0fff0fff0full);
    CHECK("csrrs.new", y, 0xff0fff0fff0fff0full);
    CHECK("csrrc.new", z, 0xff0fff0fff0f0000ull);
    CHECK("csrrw.swap_same_reg", v, 0xff0fff0fff0f0000ull);
    CHECK("csrrw.new", w, 0x123);
    CHECK("csrrwi.new", a, 31);
    CHECK("csrrci.new", b, 26);
    CHECK("csrrsi.new", c, 30);
    CHECK("csrrwi.x0", d, 3);
}

static void warl(void)
{
    u64 m = csrr(misa);
    CHECK("misa.mxl", m >> 62, 2);
    CHECK("misa.imafdcsu", m & 0x14112d, 0x14112d); /* U S M I F D C A */
    CHECK("misa.e", m >> 4 & 1, 0);

    static const char *const mpp[] = {"mstatus.mpp_0", "mstatus.mpp_1", "", "mstatus.mpp_3"};
    for (u64 i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        csrc(mstatus, ST_MPP);
        csrs(mstatus, i << 11);
        CHECK(mpp[i], csrr(mstatus) >> 11 & 3, i);
        csrw(mstatus, (csrr(mstatus) & ~ST_MPP) | 2ull << 11);
        QEMU_DIFFERS("QEMU 7.2 stores the reserved value");
        CHECK("mstatus.mpp_never_2", (csrr(mstatus) >> 11 & 3) != 2, 1);
    }
    clean();
    u64 st = csrr(mstatus);
    CHECK("mstatus.uxl", st >> 32 & 3, 2);
    CHECK("mstatus.sxl", st >> 34 & 3, 2);
    csrw(mstatus, st | 3ull << 32 | 3ull << 34 | 3ull << 36);
    QEMU_DIFFERS("QEMU 7.2 stores any UXL");
    CHECK("mstatus.xl_big_endian_fixed", csrr(mstatus) >> 32 & 0x3f, 0xa);
    csrw(mstatus, st);
    static const struct { const char *n; u64 b; } bits[] = {
        {"mstatus.sie", ST_SIE}, {"mstatus.spie", ST_SPIE}, {"mstatus.mpie", ST_MPIE}, {"mstatus.spp", ST_SPP},
        {"mstatus.mprv", ST_MPRV}, {"mstatus.sum", ST_SUM}, {"mstatus.mxr", ST_MXR}, {"mstatus.tvm", ST_TVM},
        {"mstatus.tw", ST_TW}, {"mstatus.tsr", ST_TSR}};
    for (unsigned i = 0; i < sizeof bits / sizeof *bits; i++) {
        csrs(mstatus, bits[i].b);
        u64 on = csrr(mstatus);
        csrc(mstatus, bits[i].b);
        u64 off = csrr(mstatus);
        CHECK(bits[i].n, (on ^ off), bits[i].b);
    }
    CHECK("mstatus.xs_zero", st >> 15 & 3, 0);

    csrw(mtvec, (u64)mtrap | 2);
    CHECK("mtvec.mode_2_not_kept", (csrr(mtvec) & 3) < 2, 1);
    csrw(mtvec, (u64)mtrap | 3);
    CHECK("mtvec.mode_3_not_kept", (csrr(mtvec) & 3) < 2, 1);
    csrw(mtvec, mtrap);
    CHECK("mtvec.direct", csrr(mtvec), (u64)mtrap);
    csrw(stvec, (u64)strap | 3);
    CHECK("stvec.mode_3_not_kept", (csrr(stvec) & 3) < 2, 1);
    csrw(stvec, strap);
    CHECK("stvec.direct", csrr(stvec), (u64)strap);

    /* satp: a mode that is not implemented makes the whole write void */
    u64 good = 8ull << 60 | 0x80123;
    csrw(satp, good);
    CHECK("satp.sv39", csrr(satp), good);
    group("satp.unsupported_mode_void");
    for (u64 mode = 1; mode < 16; mode++) {
        if (mode == 8 || (on_qemu && (mode == 9 || mode == 10))) /* QEMU has Sv48 and Sv57 */
            continue;
        note("mode", mode);
        csrw(satp, mode << 60 | 0x80456);
        CHECK("satp", csrr(satp), good);
    }
    end_group();
    csrw(satp, 8ull << 60 | 0xfffffffffffull);
    CHECK("satp.ppn_44_bits", csrr(satp) & 0xfffffffffffull, 0xfffffffffffull);
    csrw(satp, 0);
    CHECK("satp.bare", csrr(satp), 0);

    csrw(mcause, IRQ(7));
    CHECK("mcause.interrupt", csrr(mcause), IRQ(7));
    csrw(mcause, 15);
    CHECK("mcause.15", csrr(mcause), 15);
    csrw(scause, IRQ(9));
    CHECK("scause.interrupt", csrr(scause), IRQ(9));
    csrw(mtval, 0x123456789aull);
    CHECK("mtval", csrr(mtval), 0x123456789aull);
    csrw(stval, -8);
    CHECK("stval.negative", csrr(stval), -8);
    csrw(sscratch, 0x0123456789abcdef);
    CHECK("sscratch", csrr(sscratch), 0x0123456789abcdef);
    csrw(mepc, 0xffffffc012345678);
    CHECK("mepc.high_half", csrr(mepc), 0xffffffc012345678);
    csrw(sepc, 0xffffffc012345678);
    CHECK("sepc.high_half", csrr(sepc), 0xffffffc012345678);
    clean();

    csrw(menvcfg, -1);
    u64 e = csrr(menvcfg);
    if (on_qemu)
        skip("menvcfg", "no Zicbom, Zicboz in QEMU 7.2");
    else {
        CHECK("menvcfg.cbie_cbcfe_cbze", e & 0xf0, 0xf0);
        CHECK("menvcfg.stce", e >> 63, 1);
        CHECK("menvcfg.rest_zero", e & ~(1ull << 63) & ~ADUE & ~0xf1ull, 0);
        csrw(senvcfg, -1);
        CHECK("senvcfg.cbie_cbcfe_cbze", csrr(senvcfg) & 0xf0, 0xf0);
        CHECK("senvcfg.rest_zero", csrr(senvcfg) & ~0xf1ull, 0);
        csrw(menvcfg, 0);
        csrw(menvcfg, 2 << 4);
        CHECK("menvcfg.cbie_never_2", (csrr(menvcfg) >> 4 & 3) != 2, 1);
        csrw(senvcfg, 0);
        csrw(senvcfg, 2 << 4);
        CHECK("senvcfg.cbie_never_2", (csrr(senvcfg) >> 4 & 3) != 2, 1);
    }
    clean();
}

static u64 read_sstatus(void) { return csrr(sstatus); }
static void views(void)
{
    u64 visible = ST_SIE | ST_SPIE | ST_SPP | ST_FS | ST_SUM | ST_MXR;
    u64 base = csrr(mstatus);
    csrs(mstatus, visible | ST_MPIE | ST_MPP_M | ST_MPRV | ST_TVM | ST_TW | ST_TSR);
    u64 s = csrr(sstatus);
    CHECK("sstatus.shows", s & 0xfffffff, visible);
    CHECK("sstatus.sd", s >> 63, 1);
    CHECK("sstatus.uxl", s >> 32 & 3, 2);
    CHECK("mstatus.sd", csrr(mstatus) >> 63, 1);
    csrw(sstatus, 0);
    CHECK("sstatus.write_0", csrr(mstatus) & (visible | ST_MPIE | ST_MPP | ST_MPRV | ST_TVM | ST_TW | ST_TSR),
          ST_MPIE | ST_MPP_M | ST_MPRV | ST_TVM | ST_TW | ST_TSR);
    CHECK("sstatus.sd_clear", csrr(mstatus) >> 63, 0);
    CHECK("sstatus.uxl_kept", csrr(sstatus) >> 32 & 3, 2);
    csrw(mstatus, base);
    /* from S mode, all ones without MXL trouble: M's bits stay */
    csrw(sstatus, -1ull & ~ST_SIE);
    CHECK("sstatus.ones_keep_m_bits",
          csrr(mstatus) & (ST_MIE | ST_MPIE | ST_MPP | ST_MPRV | ST_TVM | ST_TW | ST_TSR),
          base & (ST_MIE | ST_MPIE | ST_MPP | ST_MPRV | ST_TVM | ST_TW | ST_TSR));
    CHECK("sstatus.ones", csrr(mstatus) & visible, visible & ~ST_SIE);
    csrw(mstatus, base);
    u64 r = RUN(S, read_sstatus);
    CHECK("sstatus.read_in_s", me()->ended, 1);
    CHECK("sstatus.read_in_s.value", r & (ST_MPP | ST_MIE | ST_MPIE), 0);
    clean();

    csrw(mie, -1);
    u64 mie_bits = csrr(mie);
    CHECK("mie.writable", mie_bits & 0xaaa, 0xaaa);
    CHECK("mie.zero_bits", mie_bits & 0x111, 0);
    CHECK("sie.nothing_delegated", csrr(sie), 0);
    csrw(sie, -1);
    csrw(mie, 0);
    csrw(sie, -1);
    CHECK("sie.write_nothing_delegated", csrr(mie), 0);
    csrw(mideleg, 0x222);
    CHECK("mideleg.s_bits", csrr(mideleg) & 0x222, 0x222);
    csrw(sie, -1);
    CHECK("sie.write_delegated", csrr(mie) & 0xaaa, 0x222);
    CHECK("sie.read_delegated", csrr(sie) & 0xfff, 0x222);
    csrw(mie, 0xaaa);
    csrw(mideleg, 0x020);
    CHECK("sie.masked_by_mideleg", csrr(sie) & 0xfff, 0x020);
    csrw(sie, 0);
    CHECK("sie.write_masked_by_mideleg", csrr(mie) & 0xaaa, 0xa8a);
    clean();

    /* mip: S bits are writable in M, M bits are not */
    csrw(mip, -1);
    CHECK("mip.writable", csrr(mip) & 0xaaa, 0x222);
    CHECK("sip.nothing_delegated", csrr(sip), 0);
    csrw(mideleg, 0x222);
    CHECK("sip.delegated", csrr(sip) & 0xfff, 0x222);
    csrw(sip, 0);
    CHECK("sip.only_ssip_writable", csrr(mip) & 0xaaa, 0x220);
    csrw(mip, 0);
    csrw(sip, -1);
    CHECK("sip.set_ssip", csrr(mip) & 0xaaa, 0x002);
    csrw(mideleg, 0x220);
    csrw(sip, 0);
    CHECK("sip.ssip_needs_delegation", csrr(mip) & 0xaaa, 0x002);
    csrw(mip, 0);
    csrw(mideleg, 0);
    CHECK("mip.clear", csrr(mip) & 0xaaa, 0);
    clean();
}

static u64 try_cycle(void) { u64 x = 0; TRY("rdcycle %0", "+r"(x), ); return x; }
static u64 try_time(void) { u64 x = 0; TRY("rdtime %0", "+r"(x), ); return x; }
static u64 try_instret(void) { u64 x = 0; TRY("rdinstret %0", "+r"(x), ); return x; }
static u64 try_hpm3(void) { u64 x = 0; TRY("csrr %0, hpmcounter3", "+r"(x), ); return x; }
static u64 try_hpm31(void) { u64 x = 0; TRY("csrr %0, hpmcounter31", "+r"(x), ); return x; }
static u64 try_stimecmp(void) { u64 x = 0; TRY("csrr %0, 0x14d", "+r"(x), ); return x; }

static void counters(void)
{
    static const struct { const char *n; u64 (*fn)(void); int bit; } c[] = {
        {"counteren.cycle", try_cycle, 0}, {"counteren.time", try_time, 1}, {"counteren.instret", try_instret, 2},
        {"counteren.hpm3", try_hpm3, 3}, {"counteren.hpm31", try_hpm31, 31}};
    for (unsigned i = 0; i < 5; i++) {
        group(c[i].n);
        for (int m = 0; m < 2; m++)
            for (int s = 0; s < 2; s++) {
                u64 bit = 1ull << c[i].bit;
                csrw(mcounteren, m ? bit : 0xffffffff & ~bit);
                csrw(scounteren, s ? bit : 0xffffffff & ~bit);
                int m_on = csrr(mcounteren) >> c[i].bit & 1, s_on = csrr(scounteren) >> c[i].bit & 1;
                note("mcounteren", csrr(mcounteren));
                note("scounteren", csrr(scounteren));
                if (!m)
                    CHECK("can be cleared", m_on, 0);
                if (!s)
                    CHECK("can be cleared", s_on, 0);
                if (c[i].bit < 3)
                    CHECK("can be set", m_on == m && s_on == s, 1);
                if (on_qemu && c[i].bit == 31)
                    continue;
                run(S, (u64)c[i].fn, 0, 0);
                EXPECT_CAUSE("from S", m_on ? NONE : C_ILLEGAL);
                run(U, (u64)c[i].fn, 0, 0);
                EXPECT_CAUSE("from U", m_on && s_on ? NONE : C_ILLEGAL);
                c[i].fn();
                EXPECT_CAUSE("from M", NONE);
            }
        end_group();
    }
    clean();

    /* stimecmp from S: menvcfg.STCE and mcounteren.TM */
    csrw(menvcfg, 0);
    csrw(mcounteren, 7);
    RUN(S, try_stimecmp);
    EXPECT_CAUSE("stimecmp.stce0_from_s", C_ILLEGAL);
    csrw(menvcfg, 1ull << 63);
    if (csrr(menvcfg) >> 63) {
        RUN(S, try_stimecmp);
        EXPECT_CAUSE("stimecmp.stce1_from_s", NONE);
        csrw(mcounteren, 5);
        RUN(S, try_stimecmp);
        EXPECT_CAUSE("stimecmp.tm0_from_s", C_ILLEGAL);
        RUN(U, try_stimecmp);
        EXPECT_CAUSE("stimecmp.from_u", C_ILLEGAL);
    } else
        skip("stimecmp", "no Sstc");
    clean();

    u64 a = csrr(cycle), b = csrr(cycle);
    CHECK("cycle.advances", b > a, 1);
    a = csrr(instret), b = csrr(instret);
    CHECK("instret.advances", b > a, 1);
    a = csrr(time);
    u64 t = rd64(MTIME);
    b = csrr(time);
    CHECK("time.is_mtime", a <= t && t <= b, 1);
    csrw(mcycle, 0x123456789abcdef0);
    CHECK("mcycle.write", csrr(mcycle) - 0x123456789abcdef0 < 1000000000, 1);
    CHECK("cycle.shadows_mcycle", csrr(cycle) - 0x123456789abcdef0 < 1000000000, 1);
    csrw(minstret, 0x123456789abcdef0);
    CHECK("minstret.write", csrr(minstret) - 0x123456789abcdef0 < 1000000000, 1);
    CHECK("instret.shadows_minstret", csrr(instret) - 0x123456789abcdef0 < 1000000000, 1);
    /* QEMU counts host time unless it runs with -icount; the board counts instructions that retire. The value
     * written is what the next instruction reads: the write comes after the writer's own increment. */
    asm volatile("csrw minstret, %2\n csrr %0, minstret\n nop\n nop\n nop\n c.nop\n csrr %1, minstret"
                 : "=&r"(a), "=&r"(b) : "r"(1000));
    QEMU_DIFFERS("does not count instructions");
    CHECK("minstret.written_value_is_read", a, 1000);
    QEMU_DIFFERS("does not count instructions");
    CHECK("minstret.counts", b - a, 5);
    asm volatile("csrr %0, minstret\n li t0, 100\n 1: addi t0, t0, -1\n beqz t0, 2f\n j 1b\n 2: csrr %1, minstret"
                 : "=&r"(a), "=&r"(b)::"t0");
    QEMU_DIFFERS("does not count instructions");
    CHECK("minstret.loop", b - a, 2 + 100 * 3 - 1);
    /* csrr, then four of the handler. ecall and ebreak do not retire, says the specification; Rocket counts them. */
    asm volatile("lla t0, 2f\n csrw mtvec, t0\n csrr %0, minstret\n 1: .word 0x00000073\n csrr %1, minstret\n j 3f\n"
                 " .balign 4\n .option push\n .option norvc\n 2: csrr t0, mepc\n addi t0, t0, 4\n csrw mepc, t0\n"
                 " mret\n"
                 " .option pop\n 3: lla t0, mtrap\n csrw mtvec, t0" : "=&r"(a), "=&r"(b)::"t0", "memory");
    QEMU_DIFFERS("does not count instructions");
    CHECK("minstret.ecall", b - a == 5 || b - a == 6, 1);
    csrw(mcountinhibit, 5);
    CHECK("mcountinhibit", csrr(mcountinhibit) & 7, 5);
    a = csrr(mcycle);
    u64 ia = csrr(minstret);
    asm volatile("nop\n nop\n nop\n nop");
    b = csrr(mcycle);
    u64 ib = csrr(minstret);
    QEMU_DIFFERS("QEMU 7.2 jumps when inhibited");
    CHECK("mcountinhibit.cycle_stands", b - a, 0);
    QEMU_DIFFERS("QEMU 7.2 jumps when inhibited");
    CHECK("mcountinhibit.instret_stands", ib - ia, 0);
    csrw(mcycle, 77);
    csrw(minstret, 78);
    CHECK("mcountinhibit.mcycle_writable", csrr(mcycle), 77);
    CHECK("mcountinhibit.minstret_writable", csrr(minstret), 78);
    csrw(mcountinhibit, 0);
    a = csrr(mcycle);
    ia = csrr(minstret);
    asm volatile("nop\n nop\n nop\n nop");
    CHECK("mcountinhibit.cycle_goes_on", csrr(mcycle) > a, 1);
    CHECK("mcountinhibit.instret_goes_on", csrr(minstret) > ia, 1);
    csrw(mcountinhibit, -1);
    QEMU_DIFFERS("keeps the bit");
    CHECK("mcountinhibit.bit1_zero", csrr(mcountinhibit) >> 1 & 1, 0);
    clean();
}

void tests(void)
{
    privileges();
    operations();
    warl();
    views();
    counters();
}

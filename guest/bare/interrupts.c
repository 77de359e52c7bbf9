/* Interrupts: CLINT, software pending bits, delegation, enables by mode, priorities, wfi, PLIC and UART, Sstc. */
#include "bare.h"

#define BIT(n) (1ull << (n))
#define ALL (BIT(MEI) | BIT(MSI) | BIT(MTI) | BIT(SEI) | BIT(SSI) | BIT(STI))

#define UART_IRQ 10
#define PLIC_PRIO(n) (PLIC + 4 * (n))
#define PLIC_PENDING (PLIC + 0x1000)
#define PLIC_ENABLE(ctx) (PLIC + 0x2000 + 0x80 * (ctx))
#define PLIC_THRESHOLD(ctx) (PLIC + 0x200000 + 0x1000 * (ctx))
#define PLIC_CLAIM(ctx) (PLIC + 0x200004 + 0x1000 * (ctx))
#define CTX_M 0 /* of hart 0 */
#define CTX_S 1

static u64 mip_now(void) { return csrr(mip) & ALL; }
static u8 uart_rd(int r) { u8 v = *(volatile u8 *)(UART + r); FENCE(); return v; }
static void uart_wr(int r, u8 v) { FENCE(); *(volatile u8 *)(UART + r) = v; asm volatile("fence io, io" ::: "memory"); }

/* Interrupts are taken "within a bounded time" after they become pending; some instructions are enough on both. */
static void settle(void)
{
    for (volatile int i = 0; i < 50; i++)
        ;
}
/* Printing uses the UART and so moves its interrupt line: while that is looked at, results wait here. */
static struct { const char *name; int line; u64 got, want; const char *qemu; } later[64];
static int nlater;
static void later_(const char *name, int line, u64 got, u64 want)
{
    later[nlater].name = name;
    later[nlater].line = line;
    later[nlater].got = got;
    later[nlater].want = want;
    later[nlater++].qemu = qemu_why;
    qemu_why = 0;
}
#define LATER(name, got, want) later_(name, __LINE__, got, want)
static void report(void)
{
    for (int i = 0; i < nlater; i++) {
        qemu_why = later[i].qemu;
        check_(later[i].name, later[i].line, later[i].got, later[i].want);
    }
    nlater = 0;
}
/* opens MIE for a while; the handler masks what it takes in mie and logs it */
static void window(void)
{
    me()->nirq = me()->irq[0] = 0;
    csrs(mstatus, ST_MIE);
    settle();
    csrc(mstatus, ST_MIE);
}
static u64 idle(void)
{
    settle();
    return 0;
}
static u64 in_mode(int mode, int sie)
{
    me()->nirq = me()->irq[0] = 0;
    csrc(mstatus, ST_SIE | ST_MPIE);
    if (sie)
        csrs(mstatus, ST_SIE);
    RUN(mode, idle);
    csrc(mstatus, ST_SIE);
    return me()->nirq;
}
static void quiet(void)
{
    clean();
    me()->nirq = 0;
    me()->irq[0] = 0;
    uart_wr(1, 0);
}
/* the UART asks as long as its transmitter is empty; reading IIR takes it back */
static void uart_raise(void)
{
    while (!(uart_rd(5) & 0x40))
        ;
    uart_wr(1, 0);
    uart_rd(2);
    uart_wr(1, 2);
    settle();
}
static void uart_drop(void)
{
    uart_rd(2);
    uart_wr(1, 0);
}
static void plic_off(void)
{
    for (int c = 0; c < 2; c++) {
        wr32(PLIC_ENABLE(c), 0);
        wr32(PLIC_THRESHOLD(c), 0);
    }
    wr32(PLIC_PRIO(UART_IRQ), 0);
}

static void clint(void)
{
    quiet();
    CHECK("msip.clear", mip_now(), 0);
    wr32(MSIP(0), 1);
    CHECK("msip.pending", mip_now(), BIT(MSI));
    CHECK("msip.reads_back", rd32(MSIP(0)), 1);
    wr32(MSIP(0), 0xfffffffe);
    CHECK("msip.only_bit_0", mip_now(), 0);
    CHECK("msip.reads_zero", rd32(MSIP(0)), 0);

    u64 a = rd64(MTIME);
    settle();
    u64 b;
    do
        b = rd64(MTIME);
    while (b == a); /* a clock that stands would hang here */
    CHECK("mtime.advances", b > a, 1);
    u32 lo = rd32(MTIME);
    u32 hi = rd32(MTIME + 4);
    CHECK("mtime.halves", ((u64)hi << 32 | lo) >= b, 1);

    wr64(MTIMECMP(0), 0);
    settle();
    CHECK("mtimecmp.past", mip_now(), BIT(MTI));
    wr64(MTIMECMP(0), -1);
    settle();
    CHECK("mtimecmp.future", mip_now(), 0);
    CHECK("mtimecmp.reads_back", rd64(MTIMECMP(0)), -1);
    wr32(MTIMECMP(0), 0x1234);
    CHECK("mtimecmp.low_half", rd64(MTIMECMP(0)), 0xffffffff00001234);
    wr32(MTIMECMP(0) + 4, 0x7fffffff);
    CHECK("mtimecmp.high_half", rd64(MTIMECMP(0)), 0x7fffffff00001234);
    u64 soon = rd64(MTIME) + 200;
    wr64(MTIMECMP(0), soon);
    while (!(mip_now() & BIT(MTI)))
        ;
    CHECK("mtimecmp.not_early", rd64(MTIME) >= soon, 1);
    /* software cannot write the M bits */
    wr64(MTIMECMP(0), 0);
    settle();
    csrc(mip, BIT(MTI));
    settle();
    CHECK("mip.mtip_not_writable", mip_now(), BIT(MTI));
    wr64(MTIMECMP(0), -1);
    settle();
    csrs(mip, BIT(MTI) | BIT(MSI) | BIT(MEI));
    CHECK("mip.m_bits_not_writable", mip_now(), 0);
    quiet();
}

__attribute__((naked, noinline)) static void spin(void) { asm volatile("j ."); }
__attribute__((naked, noinline)) static void s_after_sret(void) { asm volatile("nop\n li a7, 0x454e44\n ecall"); }
__attribute__((naked, noinline)) static void s_opens_by_sret(void)
{
    asm volatile("lla t0, %0\n csrw sepc, t0\n li t0, 0x120\n csrs sstatus, t0\n sret" ::"i"(s_after_sret));
}
static u64 s_opens_by_sstatus(void)
{
    u64 at;
    asm volatile("csrsi sstatus, 2\n 1: nop\n csrci sstatus, 2\n lla %0, 1b" : "=r"(at)::"memory");
    return at;
}
static u64 s_raises_ssip(void)
{
    u64 at;
    asm volatile("csrsi sip, 2\n 1: nop\n csrci sip, 2\n lla %0, 1b" : "=r"(at)::"memory");
    return at;
}

static void enables(void)
{
    struct hart *h = me();
    quiet();
    wr32(MSIP(0), 1);
    csrw(mie, BIT(MSI));
    settle();
    CHECK("m.mie0_not_taken", h->nirq, 0);
    window();
    CHECK("m.mie1_taken", h->nirq, 1);
    CHECK("m.cause", h->irq[0], MSI);
    CHECK("m.status", h->irq_status & (ST_MIE | ST_MPIE | ST_MPP), ST_MPIE | ST_MPP_M);
    csrw(mie, 0);
    window();
    CHECK("m.masked_not_taken", h->nirq, 0);
    /* less privileged modes are open to M interrupts whatever MIE is */
    csrw(mie, BIT(MSI));
    CHECK("s.m_interrupt", in_mode(S, 0), 1);
    CHECK("s.m_interrupt_mpp", h->irq_status & ST_MPP, ST_MPP_S);
    csrw(mie, BIT(MSI));
    CHECK("u.m_interrupt", in_mode(U, 0), 1);
    CHECK("u.m_interrupt_mpp", h->irq_status & ST_MPP, 0);
    CHECK("u.m_interrupt_mie", h->irq_status & (ST_MIE | ST_MPIE), 0);

    /* mret that opens MIE: the interrupt comes before the first instruction of the target */
    quiet();
    wr32(MSIP(0), 1);
    csrw(mie, BIT(MSI));
    csrs(mstatus, ST_MPIE);
    RUN(M, idle);
    CHECK("mret.opens_mie.taken", h->nirq, 1);
    CHECK("mret.opens_mie.epc", h->irq_epc, (u64)idle);
    quiet();
    wr32(MSIP(0), 1);
    csrw(mie, BIT(MSI));
    RUN(U, idle);
    CHECK("mret.to_u.epc", h->irq_epc, (u64)idle);

    /* a csr write that opens it: at the latest the next instruction but one; spec: as if before the next one */
    quiet();
    wr32(MSIP(0), 1);
    csrw(mie, BIT(MSI));
    u64 after;
    asm volatile("csrsi mstatus, 8\n 1: nop\n nop\n lla %0, 1b" : "=r"(after)::"memory");
    csrc(mstatus, ST_MIE);
    CHECK("csr_write.opens_mie.epc", h->irq_epc, after);
    quiet();
    wr32(MSIP(0), 1);
    csrs(mstatus, ST_MIE);
    asm volatile("csrsi mie, 8\n 1: nop\n nop\n lla %0, 1b" : "=r"(after)::"memory");
    csrc(mstatus, ST_MIE);
    CHECK("csr_write.opens_msie.epc", h->irq_epc, after);
    quiet();

    /* out of the tightest loop, in each mode */
    static const char *const loop[] = {"loop.u", "loop.s", "", "loop.m"};
    for (int mode = U; mode <= M; mode += mode == S ? 2 : 1) {
        quiet();
        csrw(mie, BIT(MTI));
        wr64(MTIMECMP(0), rd64(MTIME) + 1000);
        h->irq_ends = 1;
        if (mode == M)
            csrs(mstatus, ST_MPIE);
        RUN(mode, spin);
        CHECK(loop[mode], h->irq[0], MTI);
        CHECK("loop.epc", h->irq_epc, (u64)spin);
    }
    /* sret, sstatus, sip and mideleg open the S level at once */
    quiet();
    csrw(mideleg, BIT(SSI));
    csrw(mie, BIT(SSI));
    csrw(mip, BIT(SSI));
    RUN(S, s_opens_by_sret);
    CHECK("sret.opens_sie.taken", h->irq[0], 0x100 | SSI);
    CHECK("sret.opens_sie.epc", h->irq_epc, (u64)s_after_sret);
    quiet();
    csrw(mideleg, BIT(SSI));
    csrw(mie, BIT(SSI));
    csrw(mip, BIT(SSI));
    u64 want = RUN(S, s_opens_by_sstatus);
    CHECK("sstatus.opens_sie.epc", h->irq_epc, want);
    quiet();
    csrw(mideleg, BIT(SSI));
    csrw(mie, BIT(SSI));
    csrs(mstatus, ST_SIE);
    want = RUN(S, s_raises_ssip);
    CHECK("sip.ssip_at_once.cause", h->irq[0], 0x100 | SSI);
    CHECK("sip.ssip_at_once.epc", h->irq_epc, want);

    /* supervisor interrupts that are not delegated go to M */
    quiet();
    csrw(mie, BIT(SSI));
    csrw(mip, BIT(SSI));
    CHECK("ssi.pending", mip_now(), BIT(SSI));
    window();
    CHECK("ssi.not_delegated_in_m", h->irq[0], SSI);
    csrw(mie, BIT(SSI));
    CHECK("ssi.not_delegated_in_s", in_mode(S, 0), 1);
    CHECK("ssi.not_delegated_in_s_cause", h->irq[0], SSI);
    csrw(mip, 0);
    csrw(mie, BIT(STI));
    csrw(mip, BIT(STI));
    window();
    CHECK("sti.not_delegated_in_m", h->irq[0], STI);
    csrw(mip, BIT(SEI));
    csrw(mie, BIT(SEI));
    window();
    CHECK("sei.not_delegated_in_m", h->irq[0], SEI);
    quiet();

    static const struct { int n; const char *m, *s0, *s1, *u; } k[] = {
        {SSI, "deleg.ssi.m_never", "deleg.ssi.s_sie0", "deleg.ssi.s_sie1", "deleg.ssi.u"},
        {STI, "deleg.sti.m_never", "deleg.sti.s_sie0", "deleg.sti.s_sie1", "deleg.sti.u"},
        {SEI, "deleg.sei.m_never", "deleg.sei.s_sie0", "deleg.sei.s_sie1", "deleg.sei.u"}};
    for (int i = 0; i < 3; i++) {
        u64 b = BIT(k[i].n);
        csrw(mideleg, b);
        csrw(mip, b);
        csrw(mie, b);
        window();
        CHECK(k[i].m, h->nirq, 0);
        CHECK(k[i].s0, in_mode(S, 0), 0);
        in_mode(S, 1);
        CHECK(k[i].s1, h->nirq << 16 | h->irq[0], 0x10000 | 0x100 | k[i].n);
        CHECK("deleg.spp_sie_spie", h->irq_status & (ST_SPP | ST_SIE | ST_SPIE), ST_SPP | ST_SPIE);
        csrw(mie, b);
        in_mode(U, 0);
        CHECK(k[i].u, h->nirq << 16 | h->irq[0], 0x10000 | 0x100 | k[i].n);
        CHECK("deleg.spp_u", h->irq_status & ST_SPP, 0);
        quiet();
    }
}

static u64 order(void)
{
    struct hart *h = me();
    u64 o = 0;
    for (u64 i = 0; i < h->nirq && i < 8; i++)
        o = o << 8 | (h->irq[i] & 0xff) | (h->irq[i] >> 8 ? 0x80 : 0);
    return o;
}

static void raise_all(int ext)
{
    wr32(MSIP(0), 1);
    wr64(MTIMECMP(0), 0);
    if (ext) {
        wr32(PLIC_PRIO(UART_IRQ), 1);
        wr32(PLIC_ENABLE(CTX_M), 1 << UART_IRQ);
        uart_raise();
    }
    csrw(mip, BIT(SSI) | BIT(STI) | BIT(SEI));
    settle();
}

static void priorities(void)
{
    quiet();
    plic_off();
    raise_all(1);
    LATER("order.all_pending", mip_now(), ALL);
    csrw(mie, ALL);
    window();
    QEMU_DIFFERS("QEMU 7.2 without AIA takes the lowest number first");
    LATER("order.in_m", order(), 0x0b0307090105);
    /* MIE comes back with mret only, so one handler does not interrupt another; the same in S */
    csrw(mideleg, BIT(SSI) | BIT(STI) | BIT(SEI));
    csrw(mie, ALL);
    in_mode(S, 1);
    QEMU_DIFFERS("QEMU 7.2 without AIA takes the lowest number first");
    LATER("order.s_delegated", order(), 0x0b0307898185);
    csrw(mie, ALL);
    in_mode(U, 0);
    QEMU_DIFFERS("QEMU 7.2 without AIA takes the lowest number first");
    LATER("order.u_delegated", order(), 0x0b0307898185);
    csrw(mie, ALL);
    in_mode(S, 0);
    QEMU_DIFFERS("QEMU 7.2 without AIA takes the lowest number first");
    LATER("order.s_sie0", order(), 0x0b0307);
    csrw(mie, ALL);
    window();
    QEMU_DIFFERS("QEMU 7.2 without AIA takes the lowest number first");
    LATER("order.m_delegated", order(), 0x0b0307);
    /* M level comes before S level, whatever the order of the causes: SEI to S, SSI and STI to M */
    csrw(mideleg, BIT(SEI));
    csrw(mie, BIT(SEI) | BIT(SSI) | BIT(STI));
    in_mode(S, 1);
    LATER("order.m_before_s", order(), 0x010589);
    /* each bit by itself, so that no enable stands for another */
    static const u8 c[] = {MEI, MSI, MTI, SEI, SSI, STI};
    csrw(mideleg, 0);
    static const char *const n[] = {"enable.mei", "enable.msi", "enable.mti", "enable.sei", "enable.ssi", "enable.sti"};
    for (int i = 0; i < 6; i++) {
        csrw(mie, BIT(c[i]));
        window();
        LATER(n[i], order(), c[i]);
    }
    uart_drop();
    plic_off();
    report();
    quiet();
}

static u64 s_wfi(void)
{
    asm volatile("wfi");
    return 0;
}

__attribute__((naked, noinline)) static void wfi_then_spin(void) { asm volatile("wfi\n j ."); }

static void wait(void)
{
    struct hart *h = me();
    quiet();
    csrw(mie, BIT(MTI));
    u64 t = rd64(MTIME) + 2000;
    wr64(MTIMECMP(0), t);
    while (!(mip_now() & BIT(MTI))) /* wfi may end early */
        asm volatile("wfi");
    CHECK("wfi.mie0_wakes", rd64(MTIME) >= t, 1);
    CHECK("wfi.mie0_no_trap", h->nirq, 0);
    /* already pending: no stall */
    asm volatile("wfi");
    CHECK("wfi.pending_goes_on", h->nirq, 0);
    quiet();
    /* M with MIE = 1, S and U's M interrupts: the trap comes with epc after the wfi (also if wfi ended early). On a
     * host that is busy the timer may come before the wfi: then again. */
    static const char *const n[] = {"", "wfi.s_epc", "", "wfi.m_epc"};
    for (int mode = S; mode <= M; mode += 2) {
        int tries = 0;
        do {
            quiet();
            csrw(mie, BIT(MTI));
            h->irq_ends = 1;
            if (mode == M)
                csrs(mstatus, ST_MPIE);
            wr64(MTIMECMP(0), rd64(MTIME) + 2000);
            RUN(mode, wfi_then_spin);
        } while (h->irq_epc <= (u64)wfi_then_spin && ++tries < 100);
        CHECK(n[mode], h->irq_epc, (u64)wfi_then_spin + 4);
        CHECK("wfi.cause", h->irq[0], MTI);
    }
    /* S: delegated, SIE = 0: wakes without a trap */
    quiet();
    csrw(mideleg, BIT(SSI));
    csrw(mie, BIT(SSI));
    csrw(mip, BIT(SSI));
    h->nirq = 0;
    csrc(mstatus, ST_SIE | ST_MPIE);
    RUN(S, s_wfi);
    CHECK("wfi.s_sie0_wakes", h->ended, 1);
    CHECK("wfi.s_sie0_no_trap", h->nirq, 0);
    quiet();
}

static void external(void)
{
    struct hart *h = me();
    quiet();
    plic_off();
    uart_drop();
    /* drain what may be pending from before */
    wr32(PLIC_PRIO(UART_IRQ), 1);
    wr32(PLIC_ENABLE(CTX_M), 1 << UART_IRQ);
    for (u32 n; (n = rd32(PLIC_CLAIM(CTX_M))) != 0;)
        wr32(PLIC_CLAIM(CTX_M), n);
    LATER("plic.nothing", rd32(PLIC_CLAIM(CTX_M)), 0);
    LATER("plic.enable_reads_back", rd32(PLIC_ENABLE(CTX_M)), 1 << UART_IRQ);
    LATER("plic.priority_reads_back", rd32(PLIC_PRIO(UART_IRQ)), 1);
    LATER("uart.iir_none", uart_rd(2) & 0xf, 1);

    uart_raise();
    LATER("plic.meip", mip_now(), BIT(MEI));
    LATER("plic.pending_bit", rd32(PLIC_PENDING) >> UART_IRQ & 1, 1);
    csrw(mie, BIT(MEI));
    window();
    LATER("plic.m_taken", h->irq[0], MEI);
    u32 id = rd32(PLIC_CLAIM(CTX_M));
    LATER("plic.claim", id, UART_IRQ);
    settle();
    LATER("plic.claim_lowers", mip_now(), 0);
    LATER("plic.claimed_not_pending", rd32(PLIC_PENDING) >> UART_IRQ & 1, 0);
    LATER("plic.second_claim", rd32(PLIC_CLAIM(CTX_M)), 0);
    /* the device still asks: completion brings it back */
    wr32(PLIC_CLAIM(CTX_M), id);
    settle();
    QEMU_DIFFERS("QEMU's PLIC looks at edges only");
    LATER("plic.level_comes_back", mip_now(), BIT(MEI));
    id = rd32(PLIC_CLAIM(CTX_M));
    LATER("uart.iir_thre", uart_rd(2) & 0xf, 2);
    LATER("uart.iir_read_clears", uart_rd(2) & 0xf, 1);
    wr32(PLIC_CLAIM(CTX_M), id);
    settle();
    LATER("plic.gone_with_the_device", mip_now(), 0);

    /* priority 0 never interrupts; the threshold masks what is not above it */
    static const struct { u32 prio, threshold, want; } p[] = {
        {0, 0, 0}, {1, 0, 1}, {1, 1, 0}, {2, 1, 1}, {7, 7, 0}, {7, 6, 1}, {3, 5, 0}};
    u64 wrong = 0;
    for (unsigned i = 0; i < sizeof p / sizeof *p; i++) {
        wr32(PLIC_PRIO(UART_IRQ), p[i].prio);
        wr32(PLIC_THRESHOLD(CTX_M), p[i].threshold);
        uart_raise();
        wrong |= (mip_now() != (p[i].want ? BIT(MEI) : 0)) << i;
        uart_drop();
        wr32(PLIC_PRIO(UART_IRQ), 1);
        wr32(PLIC_THRESHOLD(CTX_M), 0);
        for (u32 n; (n = rd32(PLIC_CLAIM(CTX_M))) != 0;)
            wr32(PLIC_CLAIM(CTX_M), n);
    }
    LATER("plic.priority_threshold", wrong, 0); /* a bit for each row */
    /* an interrupt that is not enabled in a context */
    wr32(PLIC_ENABLE(CTX_M), 0);
    uart_raise();
    LATER("plic.not_enabled", mip_now(), 0);
    LATER("plic.not_enabled_pending", rd32(PLIC_PENDING) >> UART_IRQ & 1, 1);

    /* S context: SEIP */
    wr32(PLIC_ENABLE(CTX_S), 1 << UART_IRQ);
    settle();
    QEMU_DIFFERS("QEMU 7.2 does not look again when an enable changes");
    LATER("plic.enabled_while_pending", mip_now(), BIT(SEI));
    uart_raise();
    LATER("plic.seip", mip_now(), BIT(SEI));
    csrw(mideleg, BIT(SEI));
    csrw(mie, BIT(SEI));
    in_mode(S, 1);
    LATER("plic.s_taken", h->irq[0], 0x100 | SEI);
    LATER("plic.seip_in_sip", csrr(sip) & BIT(SEI), BIT(SEI));
    /* software's SEIP bit is apart from the PLIC's line */
    csrc(mip, BIT(SEI));
    LATER("seip.line_not_clearable", mip_now(), BIT(SEI));
    csrs(mip, BIT(SSI)); /* must not copy the line into the software bit */
    id = rd32(PLIC_CLAIM(CTX_S));
    LATER("plic.s_claim", id, UART_IRQ);
    settle();
    LATER("seip.rmw_does_not_latch", mip_now(), BIT(SSI));
    uart_drop();
    wr32(PLIC_CLAIM(CTX_S), id);
    settle();
    csrs(mip, BIT(SEI));
    LATER("seip.software_bit", mip_now(), BIT(SEI) | BIT(SSI));
    csrw(mip, 0);
    LATER("seip.software_bit_clear", mip_now(), 0);
    plic_off();
    report();
    quiet();
}

static u64 s_read_sip(void) { return csrr(sip); }
static u64 s_write_stimecmp(u64 v)
{
    csrw(stimecmp, v);
    return csrr(stimecmp);
}
static void sstc(void)
{
    struct hart *h = me();
    quiet();
    csrw(menvcfg, 1ull << 63);
    if (!(csrr(menvcfg) >> 63)) {
        skip("sstc", "menvcfg.STCE is not writable");
        return;
    }
    csrw(stimecmp, -1);
    settle();
    CHECK("sstc.future", mip_now(), 0);
    csrw(stimecmp, 0);
    settle();
    CHECK("sstc.past", mip_now(), BIT(STI));
    csrc(mip, BIT(STI));
    settle();
    QEMU_DIFFERS("QEMU 7.2 keeps STIP writable");
    CHECK("sstc.stip_read_only_clear", mip_now(), BIT(STI));
    csrw(stimecmp, -1);
    settle();
    CHECK("sstc.future_again", mip_now(), 0);
    csrs(mip, BIT(STI));
    QEMU_DIFFERS("QEMU 7.2 keeps STIP writable");
    CHECK("sstc.stip_read_only_set", mip_now(), 0);
    if (on_qemu)
        csrc(mip, BIT(STI));
    csrw(mideleg, BIT(STI));
    csrw(mie, BIT(STI));
    u64 t = csrr(time) + 500;
    u64 r = RUN(S, s_write_stimecmp, t);
    CHECK("sstc.s_write", r, t);
    h->nirq = 0;
    while (!(RUN(S, s_read_sip) & BIT(STI)))
        ;
    CHECK("sstc.not_early", csrr(time) >= t, 1);
    in_mode(S, 1);
    CHECK("sstc.taken_in_s", h->irq[0], 0x100 | STI);
    /* MTI has its own comparator */
    csrw(stimecmp, -1);
    wr64(MTIMECMP(0), 0);
    settle();
    CHECK("sstc.mtimecmp_apart", mip_now(), BIT(MTI));
    wr64(MTIMECMP(0), -1);
    /* switched off, STIP is software's again */
    csrw(stimecmp, 0);
    settle();
    csrw(menvcfg, 0);
    csrw(mip, BIT(STI));
    CHECK("sstc.off_stip_writable", mip_now(), BIT(STI));
    csrw(mip, 0);
    QEMU_DIFFERS("QEMU 7.2 keeps STIP from the comparator");
    CHECK("sstc.off_stip_clear", mip_now(), 0);
    csrw(menvcfg, 1ull << 63);
    csrw(stimecmp, -1);
    settle();
    quiet();
}

void tests(void)
{
    clint();
    enables();
    priorities();
    wait();
    external();
    sstc();
}

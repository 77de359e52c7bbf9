/* See bare.h. Compiled without F/D so that it never touches mstatus.FS. */
#include "bare.h"
_Static_assert(sizeof(struct hart) == 2048, "HART_SHIFT in crt.S");
_Static_assert(offsetof(struct hart, want_epc) == 512, "TRY and crt.S");
_Static_assert(offsetof(struct hart, mstack) == 520, "crt.S");
_Static_assert(offsetof(struct hart, ctx) == 536, "crt.S");
_Static_assert(offsetof(struct hart, stack) == 656, "crt.S");
#define MAGIC_END 0x454e44

int on_qemu;
const char *qemu_why;
static u64 passed, failed;
static const char *group_name;
static u64 group_failed;
static const char *note_key[6];
static u64 note_val[6];
static int notes;

static void putc_(char c)
{
    while (!(*(volatile u8 *)(UART + 5) & 0x20))
        ;
    *(volatile u8 *)UART = c;
}
void put(const char *s)
{
    for (; *s; s++)
        putc_(*s);
}
void puthex(u64 v)
{
    int i = 60;
    put("0x");
    while (i > 0 && !(v >> i))
        i -= 4;
    for (; i >= 0; i -= 4)
        putc_("0123456789abcdef"[v >> i & 15]);
}
static void putdec(u64 v)
{
    char b[24];
    int n = 0;
    do
        b[n++] = '0' + v % 10;
    while (v /= 10);
    while (n)
        putc_(b[--n]);
}
static void exit_code(u64 code)
{
    *(volatile u32 *)0x100000 = code ? (u32)(code << 16 | 0x3333) : 0x5555;
    for (;;)
        ;
}
void finish(void)
{
    putdec(passed);
    put(" passed, ");
    putdec(failed);
    put(" failed\n");
    exit_code(failed > 100 ? 100 : failed);
    __builtin_unreachable();
}
static void verdict(const char *name, const char *field, int line, u64 got, u64 want)
{
    const char *why = qemu_why;
    qemu_why = 0;
    if (why && got != want) {
        if (!group_name)
            skip(name, why);
        return;
    }
    if (got == want) {
        if (group_name)
            return;
        passed++;
        put("ok ");
        put(name);
        put("\n");
        return;
    }
    if (group_name && ++group_failed > 10) /* enough to see what is wrong */
        return;
    if (!group_name)
        failed++;
    put(group_name ? "  fail " : "FAIL ");
    put(name);
    put(field);
    put(" line ");
    putdec(line);
    put(" got ");
    puthex(got);
    put(" want ");
    puthex(want);
    for (int i = 0; i < notes; i++) {
        put(" ");
        put(note_key[i]);
        put("=");
        puthex(note_val[i]);
    }
    put("\n");
}
void check_(const char *name, int line, u64 got, u64 want) { verdict(name, "", line, got, want); }
void note(const char *key, u64 value)
{
    for (int i = 0; i < notes; i++)
        if (note_key[i] == key) {
            note_val[i] = value;
            return;
        }
    if (notes < 6) {
        note_key[notes] = key;
        note_val[notes++] = value;
    }
}
void group(const char *name)
{
    group_name = name;
    group_failed = 0;
    notes = 0;
}
void end_group(void)
{
    const char *n = group_name;
    group_name = 0;
    notes = 0;
    check_(n, 0, group_failed, 0);
}
void skip(const char *name, const char *why)
{
    put("skip ");
    put(name);
    put(": ");
    put(why);
    put("\n");
}
void expect_trap_(const char *name, int line, u64 cause, u64 tval)
{
    struct hart *h = me();
    if (h->cause != cause)
        verdict(name, ".cause", line, h->cause, cause);
    else if (h->ntraps != 1)
        verdict(name, ".count", line, h->ntraps, 1);
    else if (h->epc != h->want_epc)
        verdict(name, ".epc", line, h->epc, h->want_epc);
    else if (tval != ANY)
        verdict(name, ".tval", line, h->tval, tval);
    else
        verdict(name, "", line, 0, 0);
}
void expect_cause_(const char *name, int line, u64 cause) { verdict(name, ".cause", line, me()->cause, cause); }
void expect_none_(const char *name, int line) { verdict(name, ".cause", line, me()->cause, NONE); }

static void fatal(struct hart *h, u64 cause, u64 epc, u64 tval)
{
    put("FAIL unexpected trap hart ");
    putdec(csrr(mhartid));
    put(" cause ");
    puthex(cause);
    put(" epc ");
    puthex(epc);
    put(" tval ");
    puthex(tval);
    put(" ra ");
    puthex(h->regs[1]);
    put("\n");
    putdec(passed);
    put(" passed, ");
    putdec(failed + 1);
    put(" failed\n");
    exit_code(0x7f);
}

static u64 insn_len(u64 pc) { return (*(volatile u16 *)pc & 3) == 3 ? 4 : 2; }

static void record(struct hart *h, u64 cause, u64 epc, u64 tval, u64 status, u64 mode)
{
    if (h->ntraps++)
        return;
    h->cause = cause;
    h->epc = epc;
    h->tval = tval;
    h->status = status;
    h->taken_in = mode;
}

static void leave_run(struct hart *h, u64 ended)
{
    static const u8 reg[15] = {1, 2, 3, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27};
    for (int i = 0; i < 15; i++)
        h->regs[reg[i]] = h->ctx[i];
    h->regs[4] = (u64)h;
    h->ended = ended;
    h->in_run = 0;
    h->armed = 0;
    csrw(mepc, h->ctx[0]);
    csrc(mstatus, ST_MPIE | ST_MPRV);
    csrs(mstatus, ST_MPP_M);
}

void trap_m(struct hart *h)
{
    u64 cause = csrr(mcause), epc = csrr(mepc), tval = csrr(mtval), status = csrr(mstatus);
    if (h->depth++)
        fatal(h, cause, epc, tval);
    if (cause >> 63) {
        u64 n = cause & 63;
        if (h->nirq < 32)
            h->irq[h->nirq] = n;
        h->nirq++;
        h->irq_epc = epc;
        h->irq_status = status;
        csrc(mie, 1ull << n); /* level interrupts: mask, or they come again at once */
        if (h->irq_ends && h->in_run)
            leave_run(h, 0);
    } else if (cause >= 8 && cause <= 11 && h->regs[17] == MAGIC_END && h->in_run) {
        leave_run(h, 1);
        if (h->cause == NONE) /* what mstatus was when the function ended */
            h->status = status;
    } else if (h->armed) {
        record(h, cause, epc, tval, status, M);
        if (h->ntraps > 1000)
            fatal(h, cause, epc, tval);
        csrw(mepc, epc + insn_len(epc));
    } else if (h->in_run) {
        record(h, cause, epc, tval, status, M);
        leave_run(h, 0);
    } else {
        fatal(h, cause, epc, tval);
    }
    h->depth--;
}

void trap_s(struct hart *h)
{
    u64 cause = csrr(scause), epc = csrr(sepc), tval = csrr(stval), status = csrr(sstatus);
    if (cause >> 63) {
        u64 n = cause & 63;
        if (h->nirq < 32)
            h->irq[h->nirq] = n | 0x100;
        h->nirq++;
        h->irq_epc = epc;
        h->irq_status = status;
        csrc(sie, 1ull << n);
        if (h->irq_ends)
            end_run();
    } else if (cause == C_ECALL_U && h->sregs[17] == MAGIC_END) {
        end_run();
    } else if (h->armed) {
        record(h, cause, epc, tval, status, S);
        csrw(sepc, epc + insn_len(epc));
    } else {
        record(h, cause, epc, tval, status, S);
        end_run();
    }
}

void end_run(void)
{
    asm volatile("li a7, 0x454e44\n ecall" ::: "memory", "a7");
    __builtin_unreachable();
}

u64 run_enter(u64 fn, u64 a0, u64 a1);
u64 run(int mode, u64 fn, u64 a0, u64 a1)
{
    struct hart *h = me();
    h->ntraps = 0;
    h->cause = NONE;
    h->epc = h->tval = h->status = h->taken_in = 0;
    h->ended = 0;
    h->in_run = 1;
    csrc(mstatus, ST_MPP);
    csrs(mstatus, (u64)mode << 11);
    return run_enter(fn, a0, a1);
}

/* pmp entry 0 opens everything to S and U, as they have no access where no entry matches */
void clean(void)
{
    struct hart *h = me();
    u64 dead = 0;
    csrw(mie, 0);
    csrw(mideleg, 0);
    csrw(medeleg, 0);
    csrw(satp, 0);
    SFENCE();
    csrw(pmpaddr0, -1);
    csrw(pmpcfg0, 0x1f);
    csrw(mtvec, mtrap);
    csrw(stvec, strap);
    csrw(mscratch, h);
    csrw(sscratch, h);
    csrw(mcounteren, 7);
    csrw(scounteren, 7);
    csrw(mcountinhibit, 0);
    TRY_CSRW(menvcfg, 0);
    TRY_CSRW(senvcfg, 0);
    (void)dead;
    wr32(MSIP(csrr(mhartid)), 0);
    wr64(MTIMECMP(csrr(mhartid)), -1);
    csrw(mip, 0);
    csrc(mstatus, ST_SIE | ST_MIE | ST_SPIE | ST_MPIE | ST_SPP | ST_MPP | ST_FS | ST_MPRV | ST_SUM | ST_MXR |
                      ST_TVM | ST_TW | ST_TSR);
    h->nirq = 0;
    h->irq_ends = 0;
    h->armed = 0;
}

/* QEMU differs from the board where the specification leaves a choice: it carries out misaligned accesses, and QEMU
 * 7.2 sets the A and D bits of page tables. Those checks ask for on_qemu; where it is plainly wrong a comment says so.
 * It is told by its fw_cfg device, whose item 0 is "QEMU": marchid and mimpid are its version in QEMU 7.2, and 0,
 * as on the board, in QEMU 10. */
static int fw_cfg_answers(void)
{
    const u64 fw_cfg = 0x10100000;
    for (int i = 0; i < 4; i++) {
        u64 byte = 0;
        if (i == 0)
            TRY("sh zero, 8(%0)", , "r"(fw_cfg));
        if (cause() == NONE)
            TRY("lbu %0, 0(%1)", "+r"(byte), "r"(fw_cfg));
        if (cause() != NONE || byte != (u64)"QEMU"[i])
            return 0;
    }
    return 1;
}

void bare_main(void)
{
    for (int i = 0; i < MAX_HARTS; i++)
        harts[i].depth = 0;
    me()->state = 2;
    clean();
    on_qemu = fw_cfg_answers();
    put(on_qemu ? "# on QEMU\n" : "# on the board\n");
    tests();
    finish();
}

void secondary_main(void)
{
    struct hart *h = me();
    clean();
    csrw(mie, 1 << MSI); /* wakes wfi; never taken, as MIE = 0 */
    __atomic_store_n(&h->state, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        while (__atomic_load_n(&h->state, __ATOMIC_SEQ_CST) != 2)
            asm volatile("wfi");
        wr32(MSIP(csrr(mhartid)), 0);
        h->fn(h->arg);
        clean();
        csrw(mie, 1 << MSI);
        FENCE();
        __atomic_store_n(&h->state, 1, __ATOMIC_SEQ_CST);
    }
}
int wait_harts(int most)
{
    /* how many there are is not known everywhere; where there are fewer they get time enough to come up */
    if (!on_qemu && rd64(CONTROL_HARTS) < (u64)most)
        most = (int)rd64(CONTROL_HARTS);
    u64 end = rd64(MTIME) + 2000000;
    int n;
    do {
        n = 1;
        for (int i = 1; i < MAX_HARTS; i++)
            n += __atomic_load_n(&harts[i].state, __ATOMIC_SEQ_CST) == 1;
    } while (n < most && rd64(MTIME) < end);
    return n;
}
void start_hart(int n, void (*fn)(u64), u64 arg)
{
    struct hart *h = &harts[n];
    h->fn = fn;
    h->arg = arg;
    __atomic_store_n(&h->state, 2, __ATOMIC_SEQ_CST);
    wr32(MSIP(n), 1);
}
void join_hart(int n)
{
    while (__atomic_load_n(&harts[n].state, __ATOMIC_SEQ_CST) != 1)
        ;
}

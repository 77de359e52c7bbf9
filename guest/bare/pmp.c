/* Physical memory protection: matching modes, permissions, priority, partial matches, locks, table walks.
 * Locked entries cannot be undone: the lock checks come last and use the entries with the highest numbers. */
#include "bare.h"

#define OFF 0
#define PR 1
#define PW 2
#define PX 4
#define TOR 0x08
#define NA4 0x10
#define NAPOT 0x18
#define LOCK 0x80
#define ALIGNED __attribute__((aligned(4096)))

static u64 area[2048] __attribute__((aligned(16384)));
static u64 pt[3][512] ALIGNED;
enum { LOAD, STORE, FETCH, AMO };
static u64 grain; /* bytes */

asm(".section .text\n .balign 4\n .option push\n .option norelax\n"
    "p_load: ld a0, 0(a0)\n j p_end\n"
    "p_load4: lw a0, 0(a0)\n j p_end\n"
    "p_store: sd a1, 0(a0)\n j p_end\n"
    "p_amo: amoadd.d a0, a1, (a0)\n j p_end\n"
    "p_end: li a7, 0x454e44\n ecall\n"
    ".option pop\n");
extern char p_load[], p_load4[], p_store[], p_amo[];

static u64 addr_rw(int i, int write, u64 v)
{
    u64 r = 0;
    switch (i) {
#define ENTRY(n) case n: if (write) csrw(pmpaddr##n, v); else r = csrr(pmpaddr##n); break
        ENTRY(0); ENTRY(1); ENTRY(2); ENTRY(3); ENTRY(4); ENTRY(5); ENTRY(6); ENTRY(7);
        ENTRY(8); ENTRY(9); ENTRY(10); ENTRY(11); ENTRY(12); ENTRY(13); ENTRY(14); ENTRY(15);
    }
    return r;
}
static void set_addr(int i, u64 v) { addr_rw(i, 1, v); }
static u64 get_addr(int i) { return addr_rw(i, 0, 0); }
static u64 get_cfg(int i) { return (i < 8 ? csrr(pmpcfg0) >> 8 * i : csrr(pmpcfg2) >> 8 * (i - 8)) & 0xff; }
static void set_cfg(int i, u64 v)
{
    u64 m = 0xffull << 8 * (i & 7), w = v << 8 * (i & 7);
    if (i < 8)
        csrw(pmpcfg0, (csrr(pmpcfg0) & ~m) | w);
    else
        csrw(pmpcfg2, (csrr(pmpcfg2) & ~m) | w);
    SFENCE();
}
static void set(int i, u64 cfg, u64 addr)
{
    set_cfg(i, 0);
    set_addr(i, addr);
    set_cfg(i, cfg);
}
static u64 napot(u64 base, u64 size) { return base >> 2 | (size / 8 - 1); }

/* Entries 0..k for the check at hand; entry 13 opens the rest, 14 and 15 stay free for the locks. */
static void fresh(void)
{
    clean();
    csrw(pmpcfg0, 0);
    csrw(pmpcfg2, 0);
    for (int i = 0; i < 14; i++)
        set_addr(i, 0);
    set(13, NAPOT | PR | PW | PX, -1);
}

static u64 as(int mode, int type, u64 a)
{
    static char *const s[] = {p_load, p_store, 0, p_amo};
    if (type == FETCH)
        run(mode, a, 0, 0);
    else
        run(mode, (u64)s[type], a, 0x77);
    return me()->cause;
}
static u64 as4(int mode, u64 a)
{
    run(mode, (u64)p_load4, a, 0);
    return me()->cause;
}
static u64 afault(int type) { return type == LOAD ? C_LOAD_ACC : type == FETCH ? C_IFETCH_ACC : C_STORE_ACC; }

static void exists(void)
{
    fresh();
    set_cfg(0, 0);
    set_addr(0, -1);
    u64 a = get_addr(0);
    QEMU_DIFFERS("QEMU 7.2 keeps 64 bits");
    CHECK("pmpaddr.54_bits", a >> 54, 0);
    CHECK("pmpaddr.covers_memory", a >> 20 & 0x7ff, 0x7ff); /* 4 GiB from 0x80000000; more bits are optional */
    grain = 4;
    for (u64 b = 1; !(a & b) && grain < 1 << 20; b <<= 1)
        grain <<= 1;
    put("# grain ");
    puthex(grain);
    put("\n");
    CHECK("pmpaddr.grain", grain <= 4096, 1);
    group("pmp.16_entries");
    for (int i = 0; i < 16; i++) {
        note("entry", i);
        set_addr(i, 0x20000000 + i * 0x1000);
        CHECK("addr", get_addr(i), 0x20000000 + i * 0x1000);
        if (i == 13)
            set_addr(i, -1);
        set_cfg(i, NAPOT | (i == 13 ? 7 : PR));
        CHECK("cfg", get_cfg(i), NAPOT | (i == 13 ? 7 : PR));
    }
    for (int i = 0; i < 16; i++)
        if (i != 13)
            set_cfg(i, 0);
    end_group();
    set_addr(14, 0);
    set_addr(15, 0);
    set_cfg(0, 0x60 | NAPOT);
    QEMU_DIFFERS("QEMU 7.2 stores them");
    CHECK("pmpcfg.bits_5_6_zero", get_cfg(0) & 0x60, 0);
    set_cfg(0, 0);
    /* W without R is reserved */
    set_cfg(0, NAPOT | PW);
    QEMU_DIFFERS("QEMU 7.2 stores W without R");
    CHECK("pmpcfg.w_without_r", (get_cfg(0) & 3) != 2, 1);
    set_cfg(0, 0);
    if (grain > 4) {
        set_cfg(0, NA4 | PR);
        CHECK("pmpcfg.na4_not_selectable", get_cfg(0) & 0x18, 0);
    }
    fresh();
}

static void permissions(void)
{
    u32 *w = (u32 *)area;
    w[0] = 0x00455000 | 17 << 7 | 0x37; /* li a7, 0x454e44; ecall */
    w[1] = (u32)(0x454e44 - 0x455000) << 20 | 17 << 15 | 17 << 7 | 0x1b;
    w[2] = 0x73;
    FENCE_I();
    static const char *const n[] = {"perm.napot", "perm.tor"};
    for (int kind = 0; kind < 2; kind++) {
        fresh();
        group(n[kind]);
        for (u64 p = 0; p < 8; p++) {
            if ((p & 3) == PW)
                continue;
            if (kind)
                set_addr(2, (u64)area >> 2), set(3, TOR | p, ((u64)area + 4096) >> 2);
            else
                set(3, NAPOT | p, napot((u64)area, 4096));
            for (int mode = U; mode <= M; mode += mode == S ? 2 : 1)
                for (int type = LOAD; type <= AMO; type++) {
                    int ok = mode == M ||
                             (type == LOAD ? p & PR : type == FETCH ? p & PX : type == STORE ? p & PW : (p & 3) == 3);
                    note("perm", p);
                    note("mode", mode);
                    note("type", type);
                    u64 a = (u64)area + (type == FETCH ? 0 : 256);
                    if (type == AMO)
                        QEMU_DIFFERS("AMO reported as a load");
                    CHECK("cause", as(mode, type, a), ok ? NONE : afault(type));
                    if (!ok) {
                        CHECK("tval", me()->tval, a);
                        if (type == FETCH)
                            CHECK("epc", me()->epc, a);
                    }
                }
            /* beyond the entry the next one rules */
            CHECK("after", as(U, LOAD, (u64)area + 4096), NONE);
            CHECK("last", as(U, LOAD, (u64)area + 4088), p & PR ? NONE : C_LOAD_ACC);
        }
        end_group();
    }
}

static void matching(void)
{
    u64 a = (u64)area, last = grain > 8 ? grain : 8;
    fresh();
    CHECK("open.all", as(U, LOAD, a), NONE);
    set(13, 0, 0);
    QEMU_DIFFERS("mret is illegal there while no entry is on");
    CHECK("none.fetch_s_fails", as(S, LOAD, a), C_IFETCH_ACC); /* not even the stub */
    CHECK("none.m_allowed", as(M, LOAD, a), NONE);
    fresh();
    /* NAPOT sizes: nothing just below, all inside, nothing just above */
    group("napot.sizes");
    for (u64 size = last; size <= 8192; size *= 2) {
        u64 base = a + (size < 8192 ? 8192 - size : 0);
        base &= ~(size - 1);
        set(0, NAPOT, napot(base, size));
        note("size", size);
        CHECK("first", as(U, LOAD, base), C_LOAD_ACC);
        CHECK("last", as(U, LOAD, base + size - 8), C_LOAD_ACC);
        CHECK("below", as(U, LOAD, base - 8), NONE);
        CHECK("above", as(U, LOAD, base + size), NONE);
    }
    end_group();
    fresh();
    if (grain == 4) {
        set(0, NA4, (a + 256) >> 2);
        CHECK("na4.inside", as4(U, a + 256), C_LOAD_ACC);
        CHECK("na4.below", as4(U, a + 252), NONE);
        CHECK("na4.above", as4(U, a + 260), NONE);
        /* an access that is only partly inside fails, whatever the permissions */
        QEMU_DIFFERS("QEMU allows a partial match");
        CHECK("na4.partial_low", as(U, LOAD, a + 256), C_LOAD_ACC);
        set(0, NA4 | PR | PW, (a + 256) >> 2);
        CHECK("na4.whole", as4(U, a + 256), NONE);
        CHECK("na4.partial", as(U, LOAD, a + 256), C_LOAD_ACC);
        set(0, NA4 | PR | PW, (a + 260) >> 2);
        CHECK("na4.partial_high", as(U, LOAD, a + 256), C_LOAD_ACC);
        CHECK("na4.partial_store", as(U, STORE, a + 256), C_STORE_ACC);
        CHECK("na4.partial_store.tval", me()->tval, a + 256);
        /* "irrespective of the L, R, W and X bits" */
        CHECK("na4.partial_m_unlocked", as(M, LOAD, a + 256), C_LOAD_ACC);
    } else
        skip("na4", "grain above 4");
    fresh();
    /* TOR: bounds, entry 0 starts at 0, empty if upper <= lower */
    u64 step = last;
    set_addr(0, (a + step) >> 2);
    set(1, TOR, (a + 3 * step) >> 2);
    CHECK("tor.below", as(U, LOAD, a + step - 8), NONE);
    CHECK("tor.first", as(U, LOAD, a + step), C_LOAD_ACC);
    CHECK("tor.last", as(U, LOAD, a + 3 * step - 8), C_LOAD_ACC);
    CHECK("tor.above", as(U, LOAD, a + 3 * step), NONE);
    set(1, TOR, (a + step) >> 2);
    CHECK("tor.empty", as(U, LOAD, a + step), NONE);
    set(1, TOR, a >> 2);
    CHECK("tor.reversed", as(U, LOAD, a), NONE);
    fresh();
    set(0, TOR | PR | PW | PX, (a + step) >> 2);
    set(1, NAPOT, napot(a, 4096));
    CHECK("tor0.from_zero", as(U, LOAD, a + step - 8), NONE);
    CHECK("tor0.ends", as(U, LOAD, a + step), C_LOAD_ACC);
    /* OFF entries do not match, but lend their address to TOR */
    fresh();
    set(0, OFF | PR, napot(a, 4096));
    CHECK("off.no_match", as(U, STORE, a), NONE);
    /* the lowest number wins */
    fresh();
    set(2, NAPOT | PR, napot(a, 4096));
    set(3, NAPOT | PR | PW, napot(a, 8192));
    CHECK("priority.low_denies", as(U, STORE, a + 64), C_STORE_ACC);
    CHECK("priority.high_allows_outside", as(U, STORE, a + 4096), NONE);
    set(1, NAPOT | PR | PW, napot(a, 512));
    CHECK("priority.lower_allows", as(U, STORE, a + 64), NONE);
    CHECK("priority.hole_ends", as(U, STORE, a + 512), C_STORE_ACC);
    fresh();
    /* no match at all */
    set(0, NAPOT | PR | PW | PX, napot(0x80000000, 0x400000)); /* the program */
    set(13, 0, 0);
    CHECK("no_match.inside", as(U, LOAD, a), NONE);
    CHECK("no_match.s_fails", as(S, LOAD, 0x80400000), C_LOAD_ACC);
    CHECK("no_match.s_store_fails", as(S, STORE, 0x80400000), C_STORE_ACC);
    CHECK("no_match.u_fetch_fails", as(U, FETCH, 0x80400000), C_IFETCH_ACC);
    CHECK("no_match.m_allowed", as(M, LOAD, 0x80400000), NONE);
    CHECK("no_match.device_fails", as(U, LOAD, CLINT), C_LOAD_ACC);
    /* an instruction of 4 bytes that straddles the end of what may be executed */
    fresh();
    u16 *h = (u16 *)(a + 4096);
    h[-1] = 0x0537; /* lui a0, .. */
    h[0] = 0x0000;
    FENCE_I();
    set(0, NAPOT | PR, napot(a + 4096, 4096));
    run(U, a + 4094, 0, 0);
    CHECK("straddle.cause", me()->cause, C_IFETCH_ACC);
    CHECK("straddle.epc", me()->epc, a + 4094);
    QEMU_DIFFERS("QEMU checks the page of the first half only");
    CHECK("straddle.tval", me()->tval, a + 4096);
    fresh();
}

static void mprv(void)
{
    u64 v = 0, bits = ST_MPRV, a = (u64)area;
    fresh();
    set(0, NAPOT, napot(a, 4096));
    for (u64 mpp = 0; mpp < 4; mpp++) {
        if (mpp == 2)
            continue;
        static const char *const n[] = {"mprv.as_u", "mprv.as_s", "", "mprv.as_m"};
        csrc(mstatus, ST_MPP);
        csrs(mstatus, mpp << 11);
        arm();
        asm volatile("csrs mstatus, %1\n ld %0, 0(%2)\n csrc mstatus, %1" : "+&r"(v) : "r"(bits), "r"(a) : "memory");
        disarm();
        CHECK(n[mpp], cause(), mpp == 3 ? NONE : C_LOAD_ACC);
    }
    fresh();
}

/* The walk reads tables as S would: an access fault of the kind of the access, not a page fault. */
static void walks(void)
{
    for (int i = 0; i < 512; i++)
        pt[0][i] = pt[1][i] = pt[2][i] = 0;
    u64 va = 0x100000000ull;
    fresh();
    pt[0][2] = 0x80000000ull >> 2 | 0xcf;
    pt[0][4] = (u64)pt[1] >> 2 | 1;
    pt[1][0] = (u64)pt[2] >> 2 | 1;
    pt[2][0] = (u64)area >> 2 | 0xcf;
    csrw(satp, 8ull << 60 | (u64)pt[0] >> 12);
    SFENCE();
    CHECK("walk.open", as(S, LOAD, va), NONE);
    static const char *const n[] = {"", "walk.level_1", "walk.level_0"};
    for (int level = 1; level < 3; level++) {
        group(n[level]);
        set(0, NAPOT, napot((u64)pt[level], 4096));
        for (int type = LOAD; type <= FETCH; type++) {
            note("type", type);
            CHECK("cause", as(S, type, va), afault(type));
            CHECK("tval", me()->tval, va);
        }
        /* reading is enough, as the walk does not write (A and D are set) */
        set(0, NAPOT | PR, napot((u64)pt[level], 4096));
        CHECK("read only tables", as(S, STORE, va + 256), NONE);
        end_group();
    }
    fresh();
    csrw(satp, 8ull << 60 | (u64)pt[0] >> 12);
    set(0, NAPOT, napot((u64)area, 4096));
    CHECK("translated.load", as(S, LOAD, va + 8), C_LOAD_ACC);
    CHECK("translated.load.tval", me()->tval, va + 8); /* virtual */
    CHECK("translated.fetch", as(S, FETCH, va), C_IFETCH_ACC);
    CHECK("translated.other_page", as(S, LOAD, (u64)area + 4096), NONE);
    /* both wrong: no permission in the PTE is a page fault, the leaf is never accessed */
    pt[2][0] = (u64)area >> 2 | 0xc3;
    SFENCE();
    CHECK("translated.page_fault_first", as(S, STORE, va + 8), C_STORE_PF);
    fresh();
}

static void locks(void)
{
    u64 a = (u64)area;
    fresh();
    set(13, 0, 0);
    set_addr(13, a >> 2);
    set(14, LOCK | TOR | PR, (a + 4096) >> 2);
    CHECK("lock.cfg", get_cfg(14), LOCK | TOR | PR);
    CHECK("lock.m_load", as(M, LOAD, a), NONE);
    CHECK("lock.m_store", as(M, STORE, a), C_STORE_ACC);
    CHECK("lock.m_store.tval", me()->tval, a);
    CHECK("lock.m_fetch", as(M, FETCH, a), C_IFETCH_ACC);
    CHECK("lock.m_outside", as(M, STORE, a + 4096), NONE);
    TRY("sd zero, 0(%0)", , "r"(a + 8));
    EXPECT_TRAP("lock.m_store_direct", C_STORE_ACC, a + 8);
    set_cfg(14, TOR | PR | PW | PX);
    CHECK("lock.cfg_kept", get_cfg(14), LOCK | TOR | PR);
    set_cfg(14, 0);
    CHECK("lock.cfg_kept_against_0", get_cfg(14), LOCK | TOR | PR);
    set_addr(14, 0);
    CHECK("lock.addr_kept", get_addr(14), (a + 4096) >> 2);
    set_addr(13, 0);
    CHECK("lock.tor_previous_addr_kept", get_addr(13), a >> 2);
    set_cfg(13, NAPOT | PR);
    CHECK("lock.previous_cfg_free", get_cfg(13), NAPOT | PR);
    set_cfg(13, 0);
    set_addr(12, 0x1234000);
    CHECK("lock.others_free", get_addr(12), 0x1234000);
    set_addr(12, 0);
    /* a lower entry that is not locked still comes first */
    set(0, NAPOT | PR | PW | PX, napot(a, 4096));
    CHECK("lock.lower_unlocked_first", as(M, STORE, a), NONE);
    set(0, 0, 0);
    /* locked NAPOT: its own address is locked, the previous one is not (14 is by its own lock) */
    set(15, LOCK | NAPOT | PR | PW, napot(a + 4096, 4096));
    set_addr(15, 0);
    CHECK("lock.napot_addr_kept", get_addr(15), napot(a + 4096, 4096));
    CHECK("lock.napot_m_fetch", as(M, FETCH, a + 4096), C_IFETCH_ACC);
    CHECK("lock.napot_m_store", as(M, STORE, a + 4096), NONE);
    set(0, NAPOT | PR | PW | PX, -1); /* S and U otherwise have nothing */
    CHECK("lock.open_again", as(U, STORE, a), NONE);
    /* OFF and locked: the entry stays off */
    set(12, LOCK | OFF, 0x5555000);
    set_cfg(12, NAPOT | PR);
    CHECK("lock.off_kept", get_cfg(12), LOCK);
    set_addr(12, 0);
    CHECK("lock.off_addr_kept", get_addr(12), 0x5555000);
}

void tests(void)
{
    exists();
    permissions();
    matching();
    mprv();
    walks();
    locks();
}

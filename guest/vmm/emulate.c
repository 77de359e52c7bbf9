/* Translation of an I/O map by emulation: an access to an address of the old map is not permitted by PMP, and traps.
 * The instruction is fetched and decoded, its address looked up, and the access done in the VM's place.
 *
 * Another hart of the VM may change the instruction or the page tables meanwhile. So everything is read once, and used
 * only if it is an access to the address that has trapped; otherwise the VM executes whatever is there now. */
#include "vmm.h"

/* A load or store. */
struct access {
    int is_store, sign, reg, base, offset, length;
    u32 width;
};

/* A translation: a physical address, and the entries of page tables that it follows from. */
struct walk {
    u64 satp, pa;
    const u64 *at[3];
    u64 pte[3];
};

void inject(struct hart *h, u64 cause, u64 tval)
{
    u64 m = csr_read("mstatus");
    csr_write("sepc", h->regs[0]);
    csr_write("scause", cause);
    csr_write("stval", tval);
    u64 new = m & ~(SPP | SPIE | SIE | MPP);
    if ((m & MPP) == MPP_S)
        new |= SPP;
    if (m & SIE)
        new |= SPIE;
    csr_write("mstatus", new | MPP_S);
    h->regs[0] = csr_read("stvec") & ~3ull;
}

/* The instruction at mepc, in the VM's eyes; 0 if it cannot be fetched any more. */
static u32 fetch(struct hart *h)
{
    u64 low, high = 0;
    if (try_fetch(h->regs[0], &low))
        return 0;
    if ((low & 3) == 3 && try_fetch(h->regs[0] + 2, &high))
        return 0;
    return low | high << 16;
}

static u64 bits(u32 i, int low, int count)
{
    return i >> low & ((1u << count) - 1);
}

enum kind { NONE, PLAIN, ATOMIC, FLOAT };

/* Decodes loads and stores of integers, compressed ones, too. */
static enum kind decode(u32 i, struct access *a)
{
    *a = (struct access){.length = (i & 3) == 3 ? 4 : 2};
    if (a->length == 4) {
        u32 opcode = i & 0x7f, f = bits(i, 12, 3);
        a->base = bits(i, 15, 5);
        if (opcode == 0x2f)
            return ATOMIC;
        if (opcode == 0x07 || opcode == 0x27)
            return FLOAT;
        if (opcode == 0x03 && f != 7) {
            a->reg = bits(i, 7, 5);
            a->offset = (int)i >> 20;
            a->sign = f < 3;
        } else if (opcode == 0x23 && f < 4) {
            a->is_store = 1;
            a->reg = bits(i, 20, 5);
            a->offset = ((int)i >> 25 << 5) | (int)bits(i, 7, 5);
        } else {
            return NONE;
        }
        a->width = 1u << (f & 3);
        return PLAIN;
    }
    u32 f = bits(i, 13, 3), quadrant = i & 3;
    if (f == 1 || f == 5)
        return quadrant != 1 ? FLOAT : NONE;
    if (quadrant == 1 || (f & 3) < 2)
        return NONE;
    a->is_store = f >> 2;
    a->width = f & 1 ? 8 : 4;
    a->sign = 1;
    if (quadrant == 0) { /* c.lw, c.ld, c.sw, c.sd */
        a->offset = bits(i, 10, 3) << 3;
        a->offset |= a->width == 8 ? bits(i, 5, 2) << 6 : bits(i, 6, 1) << 2 | bits(i, 5, 1) << 6;
        a->reg = 8 + bits(i, 2, 3);
        a->base = 8 + bits(i, 7, 3);
    } else if (a->is_store) { /* c.swsp, c.sdsp */
        a->offset = a->width == 8 ? bits(i, 10, 3) << 3 | bits(i, 7, 3) << 6 : bits(i, 9, 4) << 2 | bits(i, 7, 2) << 6;
        a->reg = bits(i, 2, 5);
        a->base = 2;
    } else { /* c.lwsp, c.ldsp */
        a->offset = bits(i, 12, 1) << 5;
        a->offset |= a->width == 8 ? bits(i, 5, 2) << 3 | bits(i, 2, 3) << 6 : bits(i, 4, 3) << 2 | bits(i, 2, 2) << 6;
        a->reg = bits(i, 7, 5);
        a->base = 2;
        if (!a->reg)
            return NONE;
    }
    return PLAIN;
}

/* The physical address, by the VM's page tables (Sv39), of which none is read outside of its memory. Whether the access
 * is permitted was checked by the hart before it trapped: an access fault comes behind page faults. */
static int translate(const struct hart *h, u64 va, struct walk *w)
{
    static const u64 none;
    u64 satp = csr_read("satp");
    w->satp = satp;
    for (int k = 0; k < 3; k++)
        w->at[k] = &none, w->pte[k] = 0;
    if (satp >> 60 == 0) {
        w->pa = va;
        return 1;
    }
    if (satp >> 60 != 8 || (u64)((i64)(va << 25) >> 25) != va)
        return 0;
    u64 table = (satp & ((1ull << 44) - 1)) << 12;
    for (int level = 2; level >= 0; level--) {
        u64 at = table + (va >> (12 + 9 * level) & 511) * 8;
        if (!within(at, 8, h->vm->memory, h->vm->size))
            return 0;
        u64 pte = *(volatile u64 *)at;
        w->at[level] = (const u64 *)at;
        w->pte[level] = pte;
        if (!(pte & 1))
            return 0;
        u64 page = (pte >> 10 & ((1ull << 44) - 1)) << 12;
        if (pte & 0xa) {
            u64 mask = (1ull << (12 + 9 * level)) - 1;
            w->pa = (page & ~mask) | (va & mask);
            return 1;
        }
        table = page;
    }
    return 0;
}

/* The VM tries again: what has trapped is not there any more. Returns 0 if it has done that already, at this place. */
static int again(struct hart *h, u64 tval)
{
    if (h->regs[0] == h->again && tval == h->again_tval) {
        h->again = 0;
        return 0;
    }
    h->again = h->regs[0];
    h->again_tval = tval;
    __atomic_add_fetch(&h->vm->again, 1, __ATOMIC_RELAXED);
    return 1;
}

static void missing(struct hart *h, u64 cause, u64 tval)
{
    __atomic_add_fetch(&h->vm->misses, 1, __ATOMIC_RELAXED);
    inject(h, cause, tval);
}

static struct map *look_up(struct vm *vm, u64 pa, u64 width)
{
    for (int i = 0; i < vm->map_count; i++)
        if (within(pa, width, vm->maps[i].from, vm->maps[i].size))
            return &vm->maps[i];
    return 0;
}

/* Notes an access that was done, for vmm.S. */
static void learn(struct hart *h, u64 cause, u64 va, u32 i, const struct access *a, const struct walk *w, struct map *m)
{
    extern const u8 base_stubs[], load_stubs[], store_stubs[];
    u64 in_map = w->pa - m->from, back = va & 4095, ahead = 4096 - back;
    back = back < in_map ? back : in_map;
    ahead = ahead < m->size - in_map ? ahead : m->size - in_map;
    if (a->width > ahead)
        return;
    struct seen *s = &h->seen[h->regs[0] >> 1 & (NOTES - 1)];
    if (s->map)
        __atomic_add_fetch(s->cause == STORE_ACCESS ? &s->map->writes : &s->map->reads, s->count, __ATOMIC_RELAXED);
    u32 size = lowest(a->width);
    const u8 *stubs = a->is_store ? store_stubs : load_stubs;
    u32 form = a->is_store || a->sign || a->width == 8 ? size : size + 4;
    for (int k = 0; k < 3; k++)
        s->pte_at[k] = w->at[k], s->pte[k] = w->pte[k];
    s->count = 0;
    s->satp = w->satp;
    s->va = va - back;
    s->to = m->to + in_map - back;
    s->map = m;
    s->word = a->length == 2 ? i | i << 16 : i;
    s->span = back + ahead - a->width + 1;
    s->base_stub = (u32)(u64)(base_stubs + 8 * a->base);
    s->access_stub = (u32)(u64)(stubs + 16 * (32 * form + a->reg));
    s->offset = a->offset;
    s->length = a->length;
    s->cause = cause;
}

void count_accesses(const struct vm *vm, u64 *reads, u64 *writes)
{
    *reads = *writes = 0;
    for (int i = 0; i < vm->map_count; i++)
        *reads += vm->maps[i].reads, *writes += vm->maps[i].writes;
    for (const struct hart *h = harts; h < harts + MAX_HARTS; h++)
        for (const struct seen *s = h->seen; h->vm == vm && s < h->seen + NOTES; s++)
            *(s->cause == STORE_ACCESS ? writes : reads) += s->count;
}

void access_fault(struct hart *h, u64 cause)
{
    u64 tval = csr_read("mtval");
    struct access a;
    struct walk w;
    u32 i = fetch(h);
    if (!i)
        return; /* It has gone: the VM gets the fault of fetching it. */
    enum kind kind = decode(i, &a);
    u64 addr = (a.base ? h->regs[a.base] : 0) + (i64)a.offset;
    if (kind == ATOMIC || kind == FLOAT) {
        __atomic_add_fetch(&h->vm->refused, 1, __ATOMIC_RELAXED);
        if (!(h->reported & 1ull << kind))
            say("VM %s: %s at %x accesses I/O at %x: refused (reported once)", h->vm->name,
                kind == ATOMIC ? "an atomic" : "a floating-point instruction", h->regs[0], tval);
        h->reported |= 1ull << kind;
        inject(h, cause, tval);
        return;
    }
    if (kind == NONE || addr != tval || a.is_store != (cause == STORE_ACCESS)) {
        /* Another instruction than the one that has trapped; or, if it traps again, one that is none of ours. */
        if (!again(h, tval))
            missing(h, cause, tval);
        return;
    }
    struct map *m = translate(h, addr, &w) ? look_up(h->vm, w.pa, a.width) : 0;
    if (by_table) {
        /* The table did not have it: a small one is refilled, and the VM tries again. It also does if the range is
         * there now: another hart of the VM may have had the same miss. */
        if (m && refill(h->vm, w.pa))
            h->again = 0;
        else if (!m || !again(h, tval))
            missing(h, cause, tval);
        return;
    }
    h->again = 0;
    if (!m) {
        missing(h, cause, tval);
        return;
    }
    u64 to = m->to + (w.pa - m->from), value = 0;
    if (a.is_store) {
        value = a.reg ? h->regs[a.reg] : 0;
        if (try_store(to, a.width, value)) {
            missing(h, cause, tval);
            return;
        }
        __atomic_add_fetch(&m->writes, 1, __ATOMIC_RELAXED);
    } else {
        if (try_load(to, a.width, &value)) {
            missing(h, cause, tval);
            return;
        }
        __atomic_add_fetch(&m->reads, 1, __ATOMIC_RELAXED);
        int unused = 64 - 8 * (int)a.width;
        if (a.sign && unused)
            value = (u64)((i64)(value << unused) >> unused);
        if (a.reg)
            h->regs[a.reg] = value;
    }
    learn(h, cause, addr, i, &a, &w, m);
    h->regs[0] += a.length;
}

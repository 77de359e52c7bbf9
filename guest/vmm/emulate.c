/* Translation of an I/O map by emulation: an access to an address of the old map is not permitted by PMP, and traps.
 * The instruction is fetched and decoded, its address looked up, and the access done in the VM's place.
 *
 * Another hart of the VM may change the instruction or the page tables meanwhile. So everything is read once, and used
 * only if it is an access to the address that has trapped; otherwise the VM executes whatever is there now. */
#include "vmm.h"

/* A load or store. */
struct access {
    int is_store, sign, reg, length;
    u32 width;
    u64 addr;
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
static enum kind decode(const struct hart *h, u32 i, struct access *a)
{
    const u64 *r = h->regs;
    *a = (struct access){.length = (i & 3) == 3 ? 4 : 2};
    if (a->length == 4) {
        u32 opcode = i & 0x7f, f = bits(i, 12, 3);
        u64 base = bits(i, 15, 5);
        base = base ? r[base] : 0;
        if (opcode == 0x2f)
            return ATOMIC;
        if (opcode == 0x07 || opcode == 0x27)
            return FLOAT;
        if (opcode == 0x03 && f != 7) {
            a->reg = bits(i, 7, 5);
            a->addr = base + (i64)((i64)(int)i >> 20);
            a->sign = f < 3;
        } else if (opcode == 0x23 && f < 4) {
            a->is_store = 1;
            a->reg = bits(i, 20, 5);
            a->addr = base + (i64)(((int)i >> 25 << 5) | (int)bits(i, 7, 5));
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
        u64 offset = bits(i, 10, 3) << 3;
        offset |= a->width == 8 ? bits(i, 5, 2) << 6 : bits(i, 6, 1) << 2 | bits(i, 5, 1) << 6;
        a->reg = 8 + bits(i, 2, 3);
        a->addr = r[8 + bits(i, 7, 3)] + offset;
    } else if (a->is_store) { /* c.swsp, c.sdsp */
        u64 offset = a->width == 8 ? bits(i, 10, 3) << 3 | bits(i, 7, 3) << 6 : bits(i, 9, 4) << 2 | bits(i, 7, 2) << 6;
        a->reg = bits(i, 2, 5);
        a->addr = r[2] + offset;
    } else { /* c.lwsp, c.ldsp */
        u64 offset = bits(i, 12, 1) << 5;
        offset |= a->width == 8 ? bits(i, 5, 2) << 3 | bits(i, 2, 3) << 6 : bits(i, 4, 3) << 2 | bits(i, 2, 2) << 6;
        a->reg = bits(i, 7, 5);
        a->addr = r[2] + offset;
        if (!a->reg)
            return NONE;
    }
    return PLAIN;
}

/* The physical address, by the VM's page tables (Sv39), of which none is read outside of its memory. Whether the access is
 * permitted was checked by the hart before it trapped: an access fault comes behind page faults. */
static int translate(const struct hart *h, u64 va, u64 *pa)
{
    u64 satp = csr_read("satp");
    if (satp >> 60 == 0) {
        *pa = va;
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
        if (!(pte & 1))
            return 0;
        u64 page = (pte >> 10 & ((1ull << 44) - 1)) << 12;
        if (pte & 0xa) {
            u64 mask = (1ull << (12 + 9 * level)) - 1;
            *pa = (page & ~mask) | (va & mask);
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

void access_fault(struct hart *h, u64 cause)
{
    u64 tval = csr_read("mtval"), pa;
    struct access a;
    u32 i = fetch(h);
    if (!i)
        return; /* It has gone: the VM gets the fault of fetching it. */
    enum kind kind = decode(h, i, &a);
    if (kind == ATOMIC || kind == FLOAT) {
        __atomic_add_fetch(&h->vm->refused, 1, __ATOMIC_RELAXED);
        if (!(h->reported & 1ull << kind))
            say("VM %s: %s at %x accesses I/O at %x: refused (reported once)", h->vm->name,
                kind == ATOMIC ? "an atomic" : "a floating-point instruction", h->regs[0], tval);
        h->reported |= 1ull << kind;
        inject(h, cause, tval);
        return;
    }
    if (kind == NONE || a.addr != tval || a.is_store != (cause == STORE_ACCESS)) {
        /* Another instruction than the one that has trapped; or, if it traps again, one that is none of ours. */
        if (!again(h, tval))
            missing(h, cause, tval);
        return;
    }
    struct map *m = translate(h, a.addr, &pa) ? look_up(h->vm, pa, a.width) : 0;
    if (by_table) {
        /* The table did not have it: a small one is refilled, and the VM tries again. It also does if the range is there now:
         * another hart of the VM may have had the same miss. */
        if (m && refill(h->vm, pa))
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
    u64 to = m->to + (pa - m->from), value = 0;
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
    __atomic_add_fetch(&h->vm->emulated, 1, __ATOMIC_RELAXED);
    h->regs[0] += a.length;
}

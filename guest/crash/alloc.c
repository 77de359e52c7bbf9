// An allocator: a bitmap of blocks, and slots that own them. Both change together, by a redo log.

#include "pm.h"

enum { BLOCKS = 24, SLOTS = 8, WORDS = 8 };

struct heap {
    uint64_t commit, pad[7]; // how many entries of the log are valid
    struct {
        uint64_t offset, value;
    } entry[2];
    uint64_t pad_entry[4];
    uint64_t bitmap, pad_bitmap[7];
    uint64_t slot[SLOTS]; // numbers of blocks, counted from 1; 0: none
    uint64_t block[BLOCKS][WORDS];
};

// Both stores or none.
static void together(struct pm *pm, struct heap *h, uint64_t *slot, uint64_t bitmap, uint64_t block)
{
    ST(h->entry[0].offset, offsetof(struct heap, bitmap));
    ST(h->entry[0].value, bitmap);
    ST(h->entry[1].offset, (uint64_t)((unsigned char *)slot - pm->base));
    ST(h->entry[1].value, block);
    FLUSH(2, &h->entry, sizeof h->entry);
    FENCE(3);
    ST(h->commit, 2);
    FLUSH(4, &h->commit, sizeof h->commit);
    FENCE(5);
    ST(h->bitmap, bitmap);
    FLUSH(6, &h->bitmap, sizeof h->bitmap);
    ST(*slot, block);
    FLUSH(7, slot, sizeof *slot);
    FENCE(8);
    ST(h->commit, 0);
    FLUSH(9, &h->commit, sizeof h->commit);
    FENCE(10);
    DONE();
}

// A new block for a slot; the one that it had is free then.
static void allocate(struct pm *pm, struct heap *h, unsigned slot, uint64_t stamp)
{
    uint64_t bitmap = LD(h->bitmap), old = LD(h->slot[slot]), n = 0;
    while (bitmap >> n & 1)
        n++;
    if (n >= BLOCKS)
        pm_fail(pm, "no room");
    ST(h->block[n][0], stamp);
    for (uint64_t i = 1; i < WORDS; i++)
        ST(h->block[n][i], pm_mix(stamp, i));
    FLUSH(1, h->block[n], sizeof h->block[n]);
    bitmap |= (uint64_t)1 << n;
    if (old != 0)
        bitmap &= ~((uint64_t)1 << (old - 1));
    together(pm, h, &h->slot[slot], bitmap, n + 1);
}

static void setup(struct pm *pm)
{
    struct heap *h = (struct heap *)pm->base;
    ST(h->commit, 0);
    ST(h->bitmap, 0);
    for (unsigned i = 0; i < SLOTS; i++)
        ST(h->slot[i], 0);
    FLUSH(0, h, sizeof *h);
    FENCE(0);
}

static void workload(struct pm *pm)
{
    struct heap *h = (struct heap *)pm->base;
    for (unsigned i = 0; i < pm->ops; i++) {
        unsigned slot = (unsigned)(pm_mix(i, 3) % SLOTS);
        uint64_t block = LD(h->slot[slot]);
        if (block != 0 && i % 2 == 0)
            together(pm, h, &h->slot[slot], LD(h->bitmap) & ~((uint64_t)1 << (block - 1)), 0);
        else
            allocate(pm, h, slot, i + 1);
    }
}

static void recover(struct pm *pm)
{
    struct heap *h = (struct heap *)pm->base;
    uint64_t entries = LD(h->commit);
    if (entries > 2)
        pm_fail(pm, "the log");
    for (uint64_t i = 0; i < entries; i++) {
        uint64_t offset = LD(h->entry[i].offset);
        if (offset > sizeof *h - sizeof(uint64_t) || offset % sizeof(uint64_t) != 0)
            pm_fail(pm, "an entry of the log");
        uint64_t *place = (uint64_t *)(pm->base + offset);
        ST(*place, LD(h->entry[i].value));
        FLUSH(0, place, sizeof *place);
    }
    FENCE(0);
    ST(h->commit, 0);
    FLUSH(0, &h->commit, sizeof h->commit);
    FENCE(0);
}

static void check(struct pm *pm)
{
    struct heap *h = (struct heap *)pm->base;
    uint64_t owned = 0;
    for (unsigned s = 0; s < SLOTS; s++) {
        uint64_t block = LD(h->slot[s]);
        if (block == 0)
            continue;
        if (block > BLOCKS || owned >> (block - 1) & 1)
            pm_fail(pm, "a slot");
        owned |= (uint64_t)1 << (block - 1);
        uint64_t stamp = LD(h->block[block - 1][0]);
        for (uint64_t i = 1; i < WORDS; i++)
            if (LD(h->block[block - 1][i]) != pm_mix(stamp, i))
                pm_fail(pm, "a block");
        pm_say(pm, "slot", s);
        pm_say(pm, "stamp", stamp);
    }
    if (LD(h->bitmap) != owned)
        pm_fail(pm, "the bitmap");
}

const struct structure alloc = {"alloc", 14, setup, workload, recover, check};

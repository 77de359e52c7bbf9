// A B+tree whose nodes are copied when keys come in; the root is changed by one store. Values are changed in place, two
// at a time, with an undo log.

#include "pm.h"

enum { KEYS = 4, NODES = 64, KEYS_AT_FIRST = 8, VALUE = 100 };

struct node {
    uint32_t leaf, count;
    uint64_t key[KEYS];
    uint64_t ptr[KEYS + 1]; // of a leaf: values; else numbers of nodes, counted from 1
    uint64_t pad[6];
};

struct undo {
    uint64_t entries, pad[7];
    struct {
        uint64_t offset, old;
    } entry[2];
    uint64_t pad_entry[4];
};

struct tree {
    uint64_t root, pad[7];
    struct undo undo;
    struct node nodes[NODES];
};

// A node that is not in NVMM yet, with room for one key too many.
struct draft {
    uint32_t leaf, count;
    uint64_t key[KEYS + 1];
    uint64_t ptr[KEYS + 2];
};

// What became of a node: one, or two with the first key of the second.
struct made {
    uint64_t left, right, key;
};

struct free_nodes {
    bool used[NODES + 1];
};

static void mark(struct pm *pm, struct tree *t, struct free_nodes *f, uint64_t n, unsigned depth)
{
    if (n == 0 || n > NODES || f->used[n] || depth > 8)
        pm_fail(pm, "a node");
    f->used[n] = true;
    struct node *node = &t->nodes[n - 1];
    uint32_t count = LD(node->count);
    if (count > KEYS)
        pm_fail(pm, "the number of keys of a node");
    if (!LD(node->leaf))
        for (uint32_t i = 0; i <= count; i++)
            mark(pm, t, f, LD(node->ptr[i]), depth + 1);
}

static uint64_t put(struct pm *pm, struct tree *t, struct free_nodes *f, const struct draft *d, uint32_t from,
                    uint32_t count, unsigned number)
{
    uint64_t n = 1;
    while (n <= NODES && f->used[n])
        n++;
    if (n > NODES)
        pm_fail(pm, "no room");
    f->used[n] = true;
    struct node *node = &t->nodes[n - 1];
    ST(node->leaf, d->leaf);
    ST(node->count, count);
    for (uint32_t i = 0; i < count; i++)
        ST(node->key[i], d->key[from + i]);
    for (uint32_t i = 0; i < count + !d->leaf; i++)
        ST(node->ptr[i], d->ptr[from + i]);
    FLUSH(number, node, sizeof *node);
    return n;
}

static struct made insert_below(struct pm *pm, struct tree *t, struct free_nodes *f, uint64_t n, uint64_t key,
                                uint64_t value)
{
    struct node *node = &t->nodes[n - 1];
    struct draft d = {.leaf = LD(node->leaf), .count = LD(node->count)};
    for (uint32_t i = 0; i < d.count; i++)
        d.key[i] = LD(node->key[i]);
    for (uint32_t i = 0; i < d.count + !d.leaf; i++)
        d.ptr[i] = LD(node->ptr[i]);
    uint32_t at = 0;
    while (at < d.count && d.key[at] <= key)
        at++;
    if (d.leaf) {
        memmove(&d.key[at + 1], &d.key[at], (d.count - at) * sizeof d.key[0]);
        memmove(&d.ptr[at + 1], &d.ptr[at], (d.count - at) * sizeof d.ptr[0]);
        d.key[at] = key;
        d.ptr[at] = value;
        d.count++;
        if (d.count <= KEYS)
            return (struct made){.left = put(pm, t, f, &d, 0, d.count, 1)};
        uint32_t half = d.count / 2;
        struct made m = {.key = d.key[half]};
        m.left = put(pm, t, f, &d, 0, half, 2);
        m.right = put(pm, t, f, &d, half, d.count - half, 3);
        return m;
    }
    struct made below = insert_below(pm, t, f, d.ptr[at], key, value);
    d.ptr[at] = below.left;
    if (below.right != 0) {
        memmove(&d.key[at + 1], &d.key[at], (d.count - at) * sizeof d.key[0]);
        memmove(&d.ptr[at + 2], &d.ptr[at + 1], (d.count - at) * sizeof d.ptr[0]);
        d.key[at] = below.key;
        d.ptr[at + 1] = below.right;
        d.count++;
    }
    if (d.count <= KEYS)
        return (struct made){.left = put(pm, t, f, &d, 0, d.count, 4)};
    // The key in the middle goes up.
    uint32_t half = d.count / 2;
    struct made m = {.key = d.key[half]};
    m.left = put(pm, t, f, &d, 0, half, 5);
    m.right = put(pm, t, f, &d, half + 1, d.count - half - 1, 6);
    return m;
}

static void insert(struct pm *pm, struct tree *t, uint64_t key)
{
    struct free_nodes f = {0};
    mark(pm, t, &f, LD(t->root), 0);
    struct made m = insert_below(pm, t, &f, LD(t->root), key, key * VALUE);
    uint64_t root = m.left;
    if (m.right != 0) {
        struct draft d = {.count = 1, .key = {m.key}, .ptr = {m.left, m.right}};
        root = put(pm, t, &f, &d, 0, 1, 7);
    }
    FENCE(8);
    ST(t->root, root);
    FLUSH(9, &t->root, sizeof t->root);
    FENCE(10);
    DONE();
}

static uint64_t *value_of(struct pm *pm, struct tree *t, uint64_t key)
{
    uint64_t n = LD(t->root);
    for (;;) {
        struct node *node = &t->nodes[n - 1];
        uint32_t at = 0;
        while (at < LD(node->count) && LD(node->key[at]) <= key)
            at++;
        if (LD(node->leaf))
            return &node->ptr[at - 1];
        n = LD(node->ptr[at]);
    }
}

// Takes 1 from a value and adds it to another one.
static void transfer(struct pm *pm, struct tree *t, uint64_t from, uint64_t to)
{
    uint64_t *place[2] = {value_of(pm, t, from), value_of(pm, t, to)};
    uint64_t old[2] = {LD(*place[0]), LD(*place[1])};
    for (unsigned i = 0; i < 2; i++) {
        ST(t->undo.entry[i].offset, (uint64_t)((unsigned char *)place[i] - pm->base));
        ST(t->undo.entry[i].old, old[i]);
    }
    FLUSH(11, &t->undo.entry, sizeof t->undo.entry);
    FENCE(12);
    ST(t->undo.entries, 2);
    FLUSH(13, &t->undo.entries, sizeof t->undo.entries);
    FENCE(14);
    ST(*place[0], old[0] - 1);
    FLUSH(15, place[0], sizeof *place[0]);
    ST(*place[1], old[1] + 1);
    FLUSH(16, place[1], sizeof *place[1]);
    FENCE(17);
    ST(t->undo.entries, 0);
    FLUSH(18, &t->undo.entries, sizeof t->undo.entries);
    FENCE(19);
    DONE();
}

static void setup(struct pm *pm)
{
    struct tree *t = (struct tree *)pm->base;
    unsigned drop = pm->drop, move = pm->move;
    pm->drop = pm->move = 0;
    ST(t->undo.entries, 0);
    ST(t->nodes[0].leaf, 1);
    ST(t->nodes[0].count, 0);
    ST(t->root, 1);
    FLUSH(0, t, sizeof *t);
    FENCE(0);
    for (uint64_t key = 1; key <= KEYS_AT_FIRST; key++)
        insert(pm, t, key);
    pm->drop = drop;
    pm->move = move;
}

static void workload(struct pm *pm)
{
    struct tree *t = (struct tree *)pm->base;
    uint64_t key = KEYS_AT_FIRST;
    for (unsigned i = 0; i < pm->ops; i++) {
        if (i % 3 == 2 || key >= 2 * NODES / 3)
            transfer(pm, t, 1 + i / 3 % 2, key);
        else
            insert(pm, t, ++key);
    }
}

static void recover(struct pm *pm)
{
    struct tree *t = (struct tree *)pm->base;
    uint64_t entries = LD(t->undo.entries);
    if (entries > 2)
        pm_fail(pm, "the undo log");
    for (uint64_t i = 0; i < entries; i++) {
        uint64_t offset = LD(t->undo.entry[i].offset);
        if (offset > sizeof *t - sizeof(uint64_t) || offset % sizeof(uint64_t) != 0)
            pm_fail(pm, "an entry of the undo log");
        uint64_t *place = (uint64_t *)(pm->base + offset);
        ST(*place, LD(t->undo.entry[i].old));
        FLUSH(0, place, sizeof *place);
    }
    FENCE(0);
    ST(t->undo.entries, 0);
    FLUSH(0, &t->undo.entries, sizeof t->undo.entries);
    FENCE(0);
}

static uint64_t last, sum, right_sum;

static void check_below(struct pm *pm, struct tree *t, uint64_t n)
{
    struct node *node = &t->nodes[n - 1];
    uint32_t count = LD(node->count);
    if (LD(node->leaf) > 1)
        pm_fail(pm, "the kind of a node");
    for (uint32_t i = 0; i < count + !LD(node->leaf); i++) {
        if (!LD(node->leaf)) {
            check_below(pm, t, LD(node->ptr[i]));
            continue;
        }
        uint64_t key = LD(node->key[i]), value = LD(node->ptr[i]);
        if (key <= last)
            pm_fail(pm, "the order of keys");
        last = key;
        sum += value;
        right_sum += key * VALUE;
        pm_say(pm, "key", key);
        pm_say(pm, "value", value);
    }
}

static void check(struct pm *pm)
{
    struct tree *t = (struct tree *)pm->base;
    struct free_nodes f = {0};
    mark(pm, t, &f, LD(t->root), 0);
    last = sum = right_sum = 0;
    check_below(pm, t, LD(t->root));
    if (sum != right_sum)
        pm_fail(pm, "the sum of the values");
}

const struct structure btree = {"btree", 12, setup, workload, recover, check};

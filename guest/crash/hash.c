// A hash table: chains of nodes of one line, new and changed nodes are linked by one store. The number of keys is
// stored when the table is closed, and `clean` says whether it is right.

#include "pm.h"

enum { BUCKETS = 4, NODES = 32, KEYS_AT_FIRST = 4, WORDS = 3 };

struct node {
    uint64_t key;
    uint64_t value[WORDS];
    uint64_t next; // number of a node, counted from 1
    uint64_t pad[3];
};

struct table {
    uint64_t clean, pad[7];
    uint64_t count, pad_count[7];
    uint64_t bucket[BUCKETS], pad_bucket[8 - BUCKETS];
    struct node nodes[NODES];
};

struct used {
    bool node[NODES + 1];
    uint64_t keys;
};

static void scan(struct pm *pm, struct table *t, struct used *used)
{
    memset(used, 0, sizeof *used);
    for (unsigned b = 0; b < BUCKETS; b++) {
        for (uint64_t n = LD(t->bucket[b]); n != 0; n = LD(t->nodes[n - 1].next)) {
            if (n > NODES || used->node[n])
                pm_fail(pm, "a chain");
            used->node[n] = true;
            used->keys++;
        }
    }
}

static uint64_t fresh(struct pm *pm, struct used *used)
{
    for (uint64_t n = 1; n <= NODES; n++) {
        if (!used->node[n]) {
            used->node[n] = true;
            return n;
        }
    }
    pm_fail(pm, "no room");
}

static void fill(struct pm *pm, struct node *n, uint64_t key, uint64_t version, uint64_t next)
{
    ST(n->key, key);
    for (uint64_t i = 0; i < WORDS; i++)
        ST(n->value[i], version * 10 + i);
    ST(n->next, next);
}

static void insert(struct pm *pm, struct table *t, struct used *used, uint64_t key)
{
    uint64_t n = fresh(pm, used);
    struct node *node = &t->nodes[n - 1];
    uint64_t *bucket = &t->bucket[key % BUCKETS];
    fill(pm, node, key, 1, LD(*bucket));
    FLUSH(3, node, sizeof *node);
    FENCE(4);
    ST(*bucket, n);
    FLUSH(5, bucket, sizeof *bucket);
    FENCE(6);
    used->keys++;
    DONE();
}

// The link that leads to the key, NULL if it is not there.
static uint64_t *find(struct pm *pm, struct table *t, uint64_t key)
{
    uint64_t *link = &t->bucket[key % BUCKETS];
    while (LD(*link) != 0 && LD(t->nodes[LD(*link) - 1].key) != key)
        link = &t->nodes[LD(*link) - 1].next;
    return LD(*link) != 0 ? link : NULL;
}

static void update(struct pm *pm, struct table *t, struct used *used, uint64_t *link, uint64_t key,
                   uint64_t version)
{
    uint64_t old = LD(*link), n = fresh(pm, used);
    struct node *node = &t->nodes[n - 1];
    fill(pm, node, key, version, LD(t->nodes[old - 1].next));
    FLUSH(7, node, sizeof *node);
    FENCE(8);
    ST(*link, n);
    FLUSH(9, link, sizeof *link);
    FENCE(10);
    used->node[old] = false;
    DONE();
}

static void delete(struct pm *pm, struct table *t, struct used *used, uint64_t *link)
{
    uint64_t old = LD(*link);
    ST(*link, LD(t->nodes[old - 1].next));
    FLUSH(11, link, sizeof *link);
    FENCE(12);
    used->node[old] = false;
    used->keys--;
    DONE();
}

static void setup(struct pm *pm)
{
    struct table *t = (struct table *)pm->base;
    for (uint64_t n = 1; n <= KEYS_AT_FIRST; n++) {
        uint64_t *bucket = &t->bucket[n % BUCKETS];
        fill(pm, &t->nodes[n - 1], n, 1, LD(*bucket));
        ST(*bucket, n);
    }
    ST(t->count, KEYS_AT_FIRST);
    ST(t->clean, 1);
    FLUSH(0, t, sizeof *t);
    FENCE(0);
}

static void workload(struct pm *pm)
{
    struct table *t = (struct table *)pm->base;
    struct used used;
    scan(pm, t, &used);
    ST(t->clean, 0);
    FLUSH(1, &t->clean, sizeof t->clean);
    FENCE(2);
    uint64_t key = 1;
    for (unsigned i = 0; i < pm->ops; i++) {
        uint64_t *link = find(pm, t, key);
        if (link == NULL)
            insert(pm, t, &used, key);
        else if (i % 3 == 0 || used.keys > NODES / 2)
            delete(pm, t, &used, link);
        else
            update(pm, t, &used, link, key, i + 2);
        key = 1 + pm_mix(i, 7) % 9;
    }
    ST(t->count, used.keys);
    FLUSH(13, &t->count, sizeof t->count);
    FENCE(14);
    ST(t->clean, 1);
    FLUSH(15, &t->clean, sizeof t->clean);
    FENCE(16);
}

static void recover(struct pm *pm)
{
    struct table *t = (struct table *)pm->base;
    struct used used;
    if (LD(t->clean) == 1)
        return;
    scan(pm, t, &used);
    ST(t->count, used.keys);
    FLUSH(0, &t->count, sizeof t->count);
    FENCE(0);
    ST(t->clean, 1);
    FLUSH(0, &t->clean, sizeof t->clean);
    FENCE(0);
}

static void check(struct pm *pm)
{
    struct table *t = (struct table *)pm->base;
    struct used used;
    scan(pm, t, &used);
    if (LD(t->count) != used.keys)
        pm_fail(pm, "the number of keys");
    for (unsigned b = 0; b < BUCKETS; b++) {
        for (uint64_t n = LD(t->bucket[b]); n != 0; n = LD(t->nodes[n - 1].next)) {
            struct node *node = &t->nodes[n - 1];
            if (LD(node->key) % BUCKETS != b)
                pm_fail(pm, "a key");
            for (uint64_t i = 0; i < WORDS; i++)
                if (LD(node->value[i]) != LD(node->value[0]) + i)
                    pm_fail(pm, "a value");
            pm_say(pm, "key", LD(node->key));
            pm_say(pm, "value", LD(node->value[0]));
        }
    }
}

const struct structure hash = {"hash", 14, setup, workload, recover, check};

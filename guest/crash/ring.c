// A ring log: entries of two lines, valid between `head` and `tail`.

#include "pm.h"

enum { CAPACITY = 8, WORDS = 15 };

struct entry {
    uint64_t seq;
    uint64_t words[WORDS];
};

struct log {
    uint64_t capacity, pad[7];
    uint64_t head, pad_head[7];
    uint64_t tail, pad_tail[7];
    uint64_t pad_rest[40];
    struct entry entries[CAPACITY];
};

static void fill(struct pm *pm, struct entry *e, uint64_t seq)
{
    for (uint64_t i = 0; i < WORDS; i++)
        ST(e->words[i], pm_mix(seq, i));
    ST(e->seq, seq);
}

static void append(struct pm *pm, struct log *log, uint64_t seq)
{
    struct entry *e = &log->entries[seq % CAPACITY];
    fill(pm, e, seq);
    FLUSH(1, e, sizeof *e);
    FENCE(2);
    ST(log->tail, seq + 1);
    FLUSH(3, &log->tail, sizeof log->tail);
    FENCE(4);
    DONE();
}

static void append_two(struct pm *pm, struct log *log, uint64_t seq)
{
    struct entry *a = &log->entries[seq % CAPACITY], *b = &log->entries[(seq + 1) % CAPACITY];
    fill(pm, a, seq);
    FLUSH(5, a, sizeof *a);
    fill(pm, b, seq + 1);
    FLUSH(6, b, sizeof *b);
    FENCE(7);
    ST(log->tail, seq + 2);
    FLUSH(8, &log->tail, sizeof log->tail);
    FENCE(9);
    DONE();
}

static void consume(struct pm *pm, struct log *log, uint64_t head)
{
    ST(log->head, head + 1);
    FLUSH(10, &log->head, sizeof log->head);
    FENCE(11);
    DONE();
    FLUSH(12, &log->capacity, sizeof log->capacity);
    FENCE(13);
}

static void setup(struct pm *pm)
{
    struct log *log = (struct log *)pm->base;
    ST(log->capacity, CAPACITY);
    ST(log->head, 0);
    ST(log->tail, 0);
    FLUSH(0, log, sizeof *log);
    FENCE(0);
}

static void workload(struct pm *pm)
{
    struct log *log = (struct log *)pm->base;
    uint64_t head = LD(log->head), tail = LD(log->tail);
    for (unsigned i = 0; i < pm->ops; i++) {
        if (tail - head > CAPACITY - 2 || i % 4 == 3) {
            consume(pm, log, head++);
        } else if (i % 4 == 1) {
            append_two(pm, log, tail);
            tail += 2;
        } else {
            append(pm, log, tail++);
        }
    }
}

static void recover(struct pm *pm)
{
    struct log *log = (struct log *)pm->base;
    if (LD(log->capacity) != CAPACITY)
        pm_fail(pm, "no log");
}

static void check(struct pm *pm)
{
    struct log *log = (struct log *)pm->base;
    uint64_t head = LD(log->head), tail = LD(log->tail);
    pm_say(pm, "head", head);
    pm_say(pm, "tail", tail);
    if (head > tail || tail - head > CAPACITY)
        pm_fail(pm, "head and tail");
    for (uint64_t seq = head; seq < tail; seq++) {
        struct entry *e = &log->entries[seq % CAPACITY];
        if (LD(e->seq) != seq)
            pm_fail(pm, "number of an entry");
        for (uint64_t i = 0; i < WORDS; i++)
            if (LD(e->words[i]) != pm_mix(seq, i))
                pm_fail(pm, "content of an entry");
    }
}

const struct structure ring = {"ring", 12, setup, workload, recover, check};

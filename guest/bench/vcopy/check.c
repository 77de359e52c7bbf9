// Walks both rings by the rules of VIRTIO 1.2, with a reader of its own that shares no code with
// ring.h but the layout: random batches, long enough that indices wrap several times. Runs on the
// host; prints a line, and exits with 1 at the first broken rule.
#include "ring.h"
#include <stdio.h>
#include <stdlib.h>

static const char *about;
static u64 step;
#define RULE(text, holds)                                                              \
    do {                                                                               \
        if (!(holds)) {                                                                \
            printf("%s, step %lu: broken: %s\n", about, step, text);                   \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static struct vring v;
static struct device dev;
static struct driver drv;
static u8 memory[RING_SIZE][64];

static u64 seed = 88172645463325252ul;
static u32 below(u32 n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (u32)(seed >> 11) % n;
}

// What a reader of the ring's memory knows: which buffers the device has, in order.
static u16 with_device[RING_SIZE];
static u32 first, many; // a queue in with_device
static u16 lengths[RING_SIZE];

// Split: 2.7.6 to 2.7.8.
static u16 avail_seen, used_seen;
static void split_avail(u16 n)
{
    u16 idx = v.split.avail.idx;
    RULE("avail idx moves by what was published", (u16)(idx - avail_seen) == n);
    for (; avail_seen != idx; avail_seen++) {
        u16 id = v.split.avail.ring[avail_seen & (RING_SIZE - 1)];
        RULE("an available entry names a descriptor", id < RING_SIZE);
        const struct split_desc *d = &v.split.desc[id];
        RULE("a descriptor names its buffer", d->addr == (u64)memory[id] && d->len == 64);
        RULE("the device may write it, and it has no next", d->flags == DESC_WRITE);
        for (u32 i = 0; i < many; i++)
            RULE("a buffer is available once", with_device[(first + i) % RING_SIZE] != id);
        with_device[(first + many++) % RING_SIZE] = id;
    }
    RULE("no more buffers than descriptors", many <= RING_SIZE);
    RULE("idx runs free to 2^16", (u16)(avail_seen - used_seen) == many);
}

static void split_used(u16 n)
{
    u16 idx = v.split.used.idx;
    RULE("used idx moves by what was published", (u16)(idx - used_seen) == n);
    for (; used_seen != idx; used_seen++) {
        struct used_elem e = v.split.used.ring[used_seen & (RING_SIZE - 1)];
        RULE("a used buffer was with the device", many > 0);
        RULE("buffers are used in order", e.id == with_device[first]);
        RULE("len is what was written", e.len == lengths[e.id]);
        first = (first + 1) % RING_SIZE;
        many--;
    }
}

// Packed: 2.8.1 and 2.8.6 to 2.8.8.
static struct place avail_at, used_at;
static int is_available(struct place p)
{
    u16 f = v.packed.desc[p.at].flags;
    return (f >> 7 & 1) == p.wrap && (f >> 15 & 1) != p.wrap;
}

static int is_used(struct place p)
{
    u16 f = v.packed.desc[p.at].flags;
    return (f >> 7 & 1) == p.wrap && (f >> 15 & 1) == p.wrap;
}

static void next_place(struct place *p)
{
    if (++p->at == RING_SIZE) {
        p->at = 0;
        p->wrap = !p->wrap;
    }
}

static void packed_avail(u16 n)
{
    u32 seen = 0;
    while (many < RING_SIZE && is_available(avail_at)) {
        const struct packed_desc *d = &v.packed.desc[avail_at.at];
        RULE("an id is below the size", d->id < RING_SIZE);
        RULE("a descriptor names its buffer", d->addr == (u64)memory[d->id] && d->len == 64);
        RULE("the device may write it, and it has no next", (d->flags & 7) == DESC_WRITE);
        for (u32 i = 0; i < many; i++)
            RULE("a buffer is available once", with_device[(first + i) % RING_SIZE] != d->id);
        with_device[(first + many++) % RING_SIZE] = d->id;
        next_place(&avail_at);
        seen++;
    }
    RULE("as many become available as were published", seen == n);
}

static void packed_used(u16 n)
{
    u32 seen = 0;
    while (many > 0 && is_used(used_at)) {
        const struct packed_desc *d = &v.packed.desc[used_at.at];
        RULE("buffers are used in order", d->id == with_device[first]);
        RULE("len is what was written", d->len == lengths[d->id]);
        RULE("the flag says that the device wrote", d->flags & DESC_WRITE);
        first = (first + 1) % RING_SIZE;
        many--;
        next_place(&used_at);
        seen++;
    }
    RULE("as many are used as were published", seen == n);
}

// Whether an event is among the places that were just passed, counted one by one.
static int among(u32 event, u32 from, u32 n, u32 modulo)
{
    for (u32 i = 0; i < n; i++)
        if ((from + i) % modulo == event)
            return 1;
    return 0;
}

// What suppression has to say, by the words of 2.7.7.2, 2.7.10 and 2.8.10, and a new setting.
static int expected(enum ring kind, u16 event_idx, u16 *flags, u16 *event, u32 from, u32 n)
{
    int tell;
    if (kind == SPLIT && !event_idx) {
        tell = !(*flags & 1);
        *flags = (u16)below(2);
    } else if (kind == SPLIT) {
        tell = among(*event, from, n, 1 << 16);
        *event = (u16)(from + n + below(RING_SIZE));
    } else {
        // Places of two rounds: index, and wrap counter 1 before 0.
        u32 at = (*event & 0x7fff) + (*event >> 15 ? 0 : RING_SIZE);
        tell = *flags == EVENTS_ENABLE || (*flags == EVENTS_DESC && among(at, from, n, 2 * RING_SIZE));
        *flags = (u16)below(3);
        u32 next = (from + n + below(RING_SIZE)) % (2 * RING_SIZE);
        *event = (u16)(next % RING_SIZE | (next < RING_SIZE ? 1u << 15 : 0));
    }
    return tell;
}

static void walk(enum ring kind, u16 event_idx, int nt)
{
    u32 used_from = 0, avail_from = RING_SIZE; // free running
    ring_start(&v, kind, &dev, &drv, event_idx);
    for (u32 i = 0; i < RING_SIZE; i++) {
        drv.at[i] = memory[i];
        drv.len[i] = 64;
    }
    first = many = 0;
    avail_seen = used_seen = 0;
    avail_at = used_at = (struct place){0, 1};
    ring_fill(&drv, kind);
    kind == SPLIT ? split_avail(RING_SIZE) : packed_avail(RING_SIZE);
    u32 unread = 0, told = 0;
    // As polling sides have it, or an event each: what the sides have written in their areas.
    u16 *driver_flags = kind == SPLIT ? &v.split.avail.flags : &v.packed.driver.flags;
    u16 *driver_event = kind == SPLIT ? &v.split.avail.used_event : &v.packed.driver.off_wrap;
    u16 *device_flags = kind == SPLIT ? &v.split.used.flags : &v.packed.device.flags;
    u16 *device_event = kind == SPLIT ? &v.split.used.avail_event : &v.packed.device.off_wrap;
    for (step = 0; step < 100000; step++) {
        RULE("the device sees what is available",
             many == 0 || (device_has(&dev, kind, (u16)many) && device_has(&dev, kind, 1)));
        RULE("and no more", many == RING_SIZE || !device_has(&dev, kind, (u16)(many + 1)));
        RULE("the driver sees what is used",
             unread == 0 || (driver_has(&drv, kind, (u16)unread) && driver_has(&drv, kind, 1)));
        RULE("and no more", unread == RING_SIZE || !driver_has(&drv, kind, (u16)(unread + 1)));
        if (many > 0 && below(2)) {
            u16 n = (u16)(1 + below(many));
            for (u16 i = 0; i < n; i++) {
                struct buffer b = device_peek(&dev, kind, i);
                RULE("a taken buffer is the next one", b.id == with_device[(first + i) % RING_SIZE]);
                RULE("with its place and size", b.at == memory[b.id] && b.len == 64);
                lengths[b.id] = (u16)(1 + below(64));
                device_use(&dev, kind, i, b.id, lengths[b.id], nt);
                RULE("nothing is used before it is published",
                     kind == SPLIT ? v.split.used.idx == used_seen : !is_used(used_at));
            }
            int tell = device_publish(&dev, kind, n, nt);
            kind == SPLIT ? split_used(n) : packed_used(n);
            u32 modulo = kind == SPLIT ? 1 << 16 : 2 * RING_SIZE;
            int right = expected(kind, event_idx, driver_flags, driver_event, used_from % modulo, n);
            RULE("an interrupt is sent if it is wanted", tell == right);
            told += (u32)tell;
            used_from += n;
            unread += n;
        } else if (unread > 0) {
            u16 n = (u16)(1 + below(unread)), ids[RING_SIZE];
            for (u16 i = 0; i < n; i++) {
                struct buffer b = driver_peek(&drv, kind, i);
                RULE("a used buffer has its place and length",
                     b.id < RING_SIZE && b.at == memory[b.id] && b.len == lengths[b.id]);
                ids[i] = b.id;
            }
            driver_took(&drv, kind, n);
            // Buffers go back in any order.
            for (u16 i = n; i > 1; i--) {
                u16 k = (u16)below(i), id = ids[k];
                ids[k] = ids[i - 1];
                ids[i - 1] = id;
            }
            for (u16 i = 0; i < n; i++) {
                driver_offer(&drv, kind, i, ids[i]);
                RULE("nothing is available before it is published",
                     kind == SPLIT ? v.split.avail.idx == avail_seen : !is_available(avail_at) || many == RING_SIZE);
            }
            int tell = driver_publish(&drv, kind, n);
            kind == SPLIT ? split_avail(n) : packed_avail(n);
            u32 modulo = kind == SPLIT ? 1 << 16 : 2 * RING_SIZE;
            int right = expected(kind, event_idx, device_flags, device_event, avail_from % modulo, n);
            RULE("a notification is sent if it is wanted", tell == right);
            told += (u32)tell;
            avail_from += n;
            unread -= n;
        }
    }
    RULE("something was told", told > 0);
    printf("%s: %lu steps, %u buffers used, %u told\n", about, step, used_from, told);
}

int main(void)
{
    static const struct {
        const char *about;
        enum ring kind;
        u16 event_idx;
        int nt;
    } walks[] = {
        {"split", SPLIT, 0, 0},          {"split, event indices", SPLIT, 1, 0},
        {"split, non-temporal", SPLIT, 0, 1}, {"packed", PACKED, 0, 0},
        {"packed, non-temporal", PACKED, 0, 1},
    };
    for (u32 i = 0; i < sizeof walks / sizeof walks[0]; i++) {
        about = walks[i].about;
        walk(walks[i].kind, walks[i].event_idx, walks[i].nt);
    }
    return 0;
}

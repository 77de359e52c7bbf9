// Virtqueues as VIRTIO 1.2 has them: the split ring of section 2.7, the packed ring of 2.8.
//
// The device (the producer of received packets) takes buffers that the driver (their consumer) has
// made available, and gives them back as used, in order. Sizes are powers of two here, and every
// buffer is one descriptor that the device writes. A ring is in memory that both see; struct device
// and struct driver are private to one side each.
#ifndef VCOPY_RING_H
#define VCOPY_RING_H

#include "machine.h"

enum ring { SPLIT, PACKED };

enum {
    RING_SIZE = 256, // descriptors; DPDK's default for vhost-user
    DESC_NEXT = 1 << 0,
    DESC_WRITE = 1 << 1,   // the device writes the buffer
    PACKED_AVAIL = 1 << 7, // VIRTQ_DESC_F_AVAIL
    PACKED_USED = 1 << 15, // VIRTQ_DESC_F_USED
    // Suppression without event indices: avail->flags and used->flags of a split ring.
    NO_INTERRUPT = 1,
    NO_NOTIFY = 1,
    // Event suppression of a packed ring.
    EVENTS_ENABLE = 0,
    EVENTS_DISABLE = 1,
    EVENTS_DESC = 2,
};

struct split_desc {
    u64 addr;
    u32 len;
    u16 flags, next;
};

struct used_elem {
    u32 id, len;
};

struct split_avail {
    u16 flags, idx, ring[RING_SIZE], used_event;
};

struct split_used {
    u16 flags, idx;
    struct used_elem ring[RING_SIZE];
    u16 avail_event;
};

struct packed_desc {
    u64 addr;
    u32 len;
    u16 id, flags;
};

struct packed_events {
    u16 off_wrap, flags; // bit 15 of off_wrap: the wrap counter
};

// Alignments are at least those of 2.7 (16, 2, 4) and 2.8 (16, 4, 4): each part has lines of its own,
// since it is written by one side.
struct vring {
    union {
        struct {
            struct split_desc desc[RING_SIZE] LINE;
            struct split_avail avail LINE;
            struct split_used used LINE;
        } split;
        struct {
            struct packed_desc desc[RING_SIZE] LINE;
            struct packed_events driver LINE, device LINE;
        } packed;
    } LINE;
};

// The position of a side in a packed ring: an index and its wrap counter.
struct place {
    u16 at;
    u16 wrap; // 0 or 1
};

static inline void place_move(struct place *p, u16 n)
{
    p->at += n;
    if (p->at >= RING_SIZE) {
        p->at -= RING_SIZE;
        p->wrap ^= 1;
    }
}

// Whether an index has passed an event since `old` (2.7.10: vring_need_event).
static inline int passed(u16 event, u16 now, u16 old)
{
    return (u16)(now - event - 1) < (u16)(now - old);
}

struct device {
    struct vring *v;
    u16 taken, used;    // split: buffers taken, buffers given back, modulo 2^16
    struct place place; // packed: of the next buffer, taken and given back at the same place
    u16 event_idx;      // VIRTIO_F_EVENT_IDX was negotiated
    u64 interrupts;     // that the driver has asked for
};

// A buffer that the device has taken.
struct buffer {
    u8 *at;
    u32 len;
    u16 id;
};

// Whether `n` buffers are available. What the driver wrote before is seen after.
static ALWAYS int device_has(struct device *d, enum ring kind, u16 n)
{
    struct vring *v = d->v;
    if (kind == SPLIT)
        return (u16)(acquire16(&v->split.avail.idx) - d->taken) >= n;
    // In order, so the last of them says it for all: the driver makes the first available last.
    struct place p = d->place;
    u16 flags = acquire16(&v->packed.desc[p.at].flags);
    if (!(flags & PACKED_AVAIL) != !p.wrap || !(flags & PACKED_USED) == !p.wrap)
        return 0;
    place_move(&p, n - 1);
    flags = acquire16(&v->packed.desc[p.at].flags);
    return !(flags & PACKED_AVAIL) == !p.wrap && !(flags & PACKED_USED) != !p.wrap;
}

// The i-th available buffer.
static ALWAYS struct buffer device_peek(struct device *d, enum ring kind, u16 i)
{
    struct vring *v = d->v;
    if (kind == SPLIT) {
        u16 id = v->split.avail.ring[(u16)(d->taken + i) % RING_SIZE];
        struct split_desc *e = &v->split.desc[id];
        return (struct buffer){(u8 *)e->addr, e->len, id};
    }
    struct place p = d->place;
    place_move(&p, i);
    struct packed_desc *e = &v->packed.desc[p.at];
    return (struct buffer){(u8 *)e->addr, e->len, e->id};
}

// Writes that the i-th buffer is used, with `len` bytes in it. The driver does not see it before
// device_publish. A non-temporal queue writes the eight bytes past the caches.
static ALWAYS void device_use(struct device *d, enum ring kind, u16 i, u16 id, u32 len, int nt)
{
    struct vring *v = d->v;
    if (kind == SPLIT) {
        struct used_elem *e = &v->split.used.ring[(u16)(d->used + i) % RING_SIZE];
        if (nt)
            // The ring begins behind two fields of 16 bits, so its elements are aligned to 4.
            store_nt32(&e->id, id), store_nt32(&e->len, len);
        else
            *e = (struct used_elem){id, len};
        return;
    }
    struct place p = d->place;
    place_move(&p, i);
    struct packed_desc *e = &v->packed.desc[p.at];
    u16 flags = DESC_WRITE | (p.wrap ? PACKED_AVAIL | PACKED_USED : 0);
    if (i == 0) {
        // The flags of the first one publish all, so they wait.
        e->len = len;
        e->id = id;
    } else if (nt) {
        store_nt((u64 *)&e->len, len | (u64)id << 32 | (u64)flags << 48);
    } else {
        e->len = len;
        e->id = id;
        e->flags = flags;
    }
}

// Gives `n` buffers back, whose contents and entries the driver sees before it sees this; returns
// whether the driver wants an interrupt.
static ALWAYS int device_publish(struct device *d, enum ring kind, u16 n, int nt)
{
    struct vring *v = d->v;
    // Non-temporal stores are ordered by a fence alone, not by a release.
    if (nt)
        fence_stores();
    if (kind == SPLIT) {
        u16 old = d->used;
        d->taken += n;
        d->used += n;
        release16(&v->split.used.idx, d->used);
        if (!d->event_idx) {
            fence_full();
            return !(load16(&v->split.avail.flags) & NO_INTERRUPT);
        }
        fence_full();
        return passed(load16(&v->split.avail.used_event), d->used, old);
    }
    struct place p = d->place;
    u16 flags = DESC_WRITE | (p.wrap ? PACKED_AVAIL | PACKED_USED : 0);
    u16 old = p.at;
    release16(&v->packed.desc[p.at].flags, flags);
    place_move(&d->place, n);
    fence_full();
    u16 wants = load16(&v->packed.driver.flags);
    if (wants != EVENTS_DESC)
        return wants == EVENTS_ENABLE;
    // As 2.8.10 has it: the event's place, as if the ring went on without a wrap.
    u16 off_wrap = load16(&v->packed.driver.off_wrap), event = off_wrap & 0x7fff;
    if (off_wrap >> 15 != d->place.wrap)
        event -= RING_SIZE;
    u16 before = d->place.wrap != p.wrap ? old - RING_SIZE : old;
    return passed(event, d->place.at, before);
}

struct driver {
    struct vring *v;
    u16 seen, avail; // split: used elements read, buffers made available, modulo 2^16
    struct place used, next;
    u16 event_idx;
    u64 notifications; // that the device has asked for
    // Packed: by buffer id, its address; a descriptor is overwritten by its use.
    u8 *at[RING_SIZE];
    u32 len[RING_SIZE];
    u16 held[RING_SIZE]; // ids of a batch, until they are made available again
};

// Whether `n` buffers are used.
static ALWAYS int driver_has(struct driver *d, enum ring kind, u16 n)
{
    struct vring *v = d->v;
    if (kind == SPLIT)
        return (u16)(acquire16(&v->split.used.idx) - d->seen) >= n;
    struct place p = d->used;
    u16 flags = acquire16(&v->packed.desc[p.at].flags);
    if (!(flags & PACKED_AVAIL) != !p.wrap || !(flags & PACKED_USED) != !p.wrap)
        return 0;
    place_move(&p, n - 1);
    flags = acquire16(&v->packed.desc[p.at].flags);
    return !(flags & PACKED_AVAIL) == !p.wrap && !(flags & PACKED_USED) == !p.wrap;
}

// The i-th used buffer, with as many bytes as the device has written.
static ALWAYS struct buffer driver_peek(struct driver *d, enum ring kind, u16 i)
{
    struct vring *v = d->v;
    if (kind == SPLIT) {
        struct used_elem e = v->split.used.ring[(u16)(d->seen + i) % RING_SIZE];
        return (struct buffer){d->at[e.id], e.len, (u16)e.id};
    }
    struct place p = d->used;
    place_move(&p, i);
    struct packed_desc *e = &v->packed.desc[p.at];
    return (struct buffer){d->at[e->id], e->len, e->id};
}

// Makes the i-th of a batch of buffers available; the device does not see it before driver_publish.
static ALWAYS void driver_offer(struct driver *d, enum ring kind, u16 i, u16 id)
{
    struct vring *v = d->v;
    if (kind == SPLIT) {
        // Its descriptor is as it was.
        v->split.avail.ring[(u16)(d->avail + i) % RING_SIZE] = id;
        return;
    }
    struct place p = d->next;
    place_move(&p, i);
    struct packed_desc *e = &v->packed.desc[p.at];
    e->addr = (u64)d->at[id];
    e->len = d->len[id];
    e->id = id;
    if (i != 0)
        e->flags = DESC_WRITE | (p.wrap ? PACKED_AVAIL : PACKED_USED);
}

// Hands `n` buffers to the device; returns whether it wants a notification.
static ALWAYS int driver_publish(struct driver *d, enum ring kind, u16 n)
{
    struct vring *v = d->v;
    if (kind == SPLIT) {
        u16 old = d->avail;
        d->avail += n;
        release16(&v->split.avail.idx, d->avail);
        fence_full();
        if (!d->event_idx)
            return !(load16(&v->split.used.flags) & NO_NOTIFY);
        return passed(load16(&v->split.used.avail_event), d->avail, old);
    }
    struct place p = d->next;
    release16(&v->packed.desc[p.at].flags, DESC_WRITE | (p.wrap ? PACKED_AVAIL : PACKED_USED));
    place_move(&d->next, n);
    fence_full();
    u16 wants = load16(&v->packed.device.flags);
    if (wants != EVENTS_DESC)
        return wants == EVENTS_ENABLE;
    u16 off_wrap = load16(&v->packed.device.off_wrap), event = off_wrap & 0x7fff;
    if (off_wrap >> 15 != d->next.wrap)
        event -= RING_SIZE;
    u16 before = d->next.wrap != p.wrap ? p.at - RING_SIZE : p.at;
    return passed(event, d->next.at, before);
}

// Moves behind `n` buffers that were read.
static ALWAYS void driver_took(struct driver *d, enum ring kind, u16 n)
{
    if (kind == SPLIT)
        d->seen += n;
    else
        place_move(&d->used, n);
}

// An empty ring: both sides poll, so neither wants to be told.
static inline void ring_start(struct vring *v, enum ring kind, struct device *dev,
                              struct driver *drv, u16 event_idx)
{
    u64 *words = (u64 *)v;
    for (unsigned i = 0; i < sizeof *v / 8; i++)
        words[i] = 0;
    *dev = (struct device){.v = v, .place = {0, 1}, .event_idx = event_idx};
    drv->v = v;
    drv->seen = drv->avail = 0;
    drv->used = drv->next = (struct place){0, 1};
    drv->event_idx = event_idx;
    drv->notifications = 0;
    if (kind == PACKED) {
        v->packed.driver.flags = v->packed.device.flags = EVENTS_DISABLE;
    } else if (event_idx) {
        // An event just behind what is published: passed when all others were.
        v->split.avail.used_event = v->split.used.avail_event = 0xffff;
    } else {
        v->split.avail.flags = NO_INTERRUPT;
        v->split.used.flags = NO_NOTIFY;
    }
}

// The driver's buffers, `n` of them: at[] and len[] say where; all are made available.
static inline void ring_fill(struct driver *d, enum ring kind)
{
    struct vring *v = d->v;
    for (u16 i = 0; i < RING_SIZE; i++) {
        if (kind == SPLIT)
            v->split.desc[i] = (struct split_desc){(u64)d->at[i], d->len[i], DESC_WRITE, 0};
        driver_offer(d, kind, i, i);
    }
    driver_publish(d, kind, RING_SIZE);
}

#endif

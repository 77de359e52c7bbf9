#include "vcopy.h"

// A packet of the pool, as DPDK's mbuf has it: two lines of metadata, room, data.
struct packet {
    u8 *data;
    u32 len, references;
    u64 words[6];
    struct packet *next LINE;
    u64 more[7];
    u8 room[ROOM - 128];
    u8 bytes[BUFFER - ROOM];
} LINE;

// Free packets, the last one freed on top, as in the cache that each core has of a pool.
enum { POOL = RING_SIZE };
static struct packet pool[POOL];
static struct packet *stack[POOL];
static u32 top;

static struct vring vring;
static struct device dev LINE;
static struct driver drv LINE;

// What the sides agree on outside the ring.
static u32 turn LINE;     // `after`: whose turn it is
static u32 arrived LINE;  // at a barrier
static u32 barrier LINE;
static u64 sent;          // packets since the start: each has its number in its first word
static u64 received;

static const u16 imix[12] = {64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64};

static ALWAYS u32 size_of(const struct cell *c, u64 n)
{
    return c->bytes == IMIX ? imix[n % 12] : c->bytes;
}

static void meet(void)
{
    u32 now = acquire32(&barrier);
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == 2) {
        __atomic_store_n(&arrived, 0, __ATOMIC_RELAXED);
        release32(&barrier, now + 1);
    } else {
        while (acquire32(&barrier) == now)
            relax();
    }
}

void vcopy_start(const struct cell *c, const struct places *p)
{
    u8 *buffers = p->buffers[c->nvmm];
    // A batch takes as many as were given back before, so no others are ever needed.
    top = 0;
    for (u32 i = 0; i < c->batch; i++) {
        struct packet *m = &pool[i];
        m->data = m->bytes;
        m->references = 1;
        m->next = 0;
        for (u32 k = 0; k < sizeof m->bytes / 8; k++)
            ((u64 *)m->bytes)[k] = (u64)i << 32 | k;
        stack[top++] = m;
    }
    ring_start(&vring, c->ring, &dev, &drv, 0);
    for (u32 i = 0; i < RING_SIZE; i++) {
        drv.at[i] = buffers + (u64)i * BUFFER + ROOM - NET_HEADER;
        drv.len[i] = BUFFER - ROOM + NET_HEADER;
    }
    ring_fill(&drv, c->ring);
    turn = PRODUCER;
    sent = received = 0;
}

struct clock {
    u64 last, *phase;
};

static ALWAYS void lap(struct clock *k, int phases, enum phase p)
{
    if (phases) {
        u64 now = cycles();
        k->phase[p] += now - k->last;
        k->last = now;
    }
}

// The virtio-net header in front of a packet.
static ALWAYS void put_header(u8 *at)
{
    u32 *words = (u32 *)at; // it is only aligned to four bytes
    words[0] = words[1] = 0;
    words[2] = 1 << 16; // num_buffers
}

static ALWAYS void take_packet(struct packet **m, u32 len)
{
    struct packet *p = stack[--top];
    p->references = 1;
    p->len = len;
    *(u64 *)p->data = sent++;
    *m = p;
}

static ALWAYS void free_packet(struct packet *m)
{
    if (--m->references == 0 && !m->next)
        stack[top++] = m;
}

// One batch.
static ALWAYS void produce(const struct cell *c, enum ring kind, int nt, int queue_nt, int loops,
                           int phases, struct outcome *out)
{
    struct packet *batch[RING_SIZE];
    struct buffer to[RING_SIZE];
    struct clock clock = {phases ? cycles() : 0, out->phase};
    u32 n = c->batch;
    // The packets that this batch sends have come.
    for (u32 i = 0; i < n; i++)
        take_packet(&batch[i], size_of(c, sent));
    lap(&clock, phases, DESCRIPTOR);
    while (!device_has(&dev, kind, n))
        relax();
    lap(&clock, phases, WAIT);
    for (u32 i = 0; i < n; i++) {
        struct buffer b = device_peek(&dev, kind, i);
        if (loops == 2)
            to[i] = b;
        struct packet *m = batch[i];
        lap(&clock, phases, DESCRIPTOR);
        put_header(b.at);
        copy(b.at + NET_HEADER, m->data, m->len, nt);
        lap(&clock, phases, COPY);
        if (loops == 1) {
            device_use(&dev, kind, i, b.id, m->len + NET_HEADER, queue_nt);
            lap(&clock, phases, ENTRY);
        }
    }
    if (loops == 2) {
        for (u32 i = 0; i < n; i++)
            device_use(&dev, kind, i, to[i].id, batch[i]->len + NET_HEADER, queue_nt);
        lap(&clock, phases, ENTRY);
    }
    out->told += device_publish(&dev, kind, n, nt | queue_nt);
    lap(&clock, phases, INDEX);
    for (u32 i = 0; i < n; i++)
        free_packet(batch[i]);
    lap(&clock, phases, DESCRIPTOR);
}

// One code for each of the ways that differ within the loops, so that none pays for the others.
#define WAY(k, a, q, l, p)                                                                     \
    static __attribute__((noinline)) void produce_##k##a##q##l##p(const struct cell *c,        \
                                                                  struct outcome *out)         \
    {                                                                                          \
        produce(c, k, a, q, l, p, out);                                                        \
    }
#define WAYS(k, l, p) WAY(k, 0, 0, l, p) WAY(k, 0, 1, l, p) WAY(k, 1, 0, l, p) WAY(k, 1, 1, l, p)
WAYS(0, 1, 0) WAYS(0, 2, 0) WAYS(1, 1, 0) WAYS(1, 2, 0)
WAYS(0, 1, 1) WAYS(0, 2, 1) WAYS(1, 1, 1) WAYS(1, 2, 1)
#define NAMES(k, l, p) \
    produce_##k##0##0##l##p, produce_##k##0##1##l##p, produce_##k##1##0##l##p, produce_##k##1##1##l##p
typedef void way(const struct cell *c, struct outcome *out);
static way *const ways[] = {
    NAMES(0, 1, 0), NAMES(0, 2, 0), NAMES(1, 1, 0), NAMES(1, 2, 0),
    NAMES(0, 1, 1), NAMES(0, 2, 1), NAMES(1, 1, 1), NAMES(1, 2, 1),
};

static way *way_of(const struct cell *c)
{
    return ways[(c->phases ? 16 : 0) + (c->ring == PACKED ? 8 : 0) + (c->loops == 2 ? 4 : 0)
                + (c->nt ? 2 : 0) + (c->queue_nt ? 1 : 0)];
}

// What the driver keeps of each buffer: two lines, as an mbuf's metadata, which it fills in for the
// one who gets the packet, and takes back with the buffer.
static struct context {
    u8 *data;
    u32 len, references;
    u64 number, words[5];
    struct context *next LINE;
    u64 more[7];
} contexts[RING_SIZE] LINE;

static volatile u64 read_payload; // keeps what the consumer reads

// The one who gets a packet of the driver, and gives its buffer back; returns whether all is as sent.
static ALWAYS int receive(const struct cell *c, struct context *x, int payload)
{
    int right = x->len == size_of(c, x->number);
    if (payload) {
        u64 sum = 0;
        right &= *(const u64 *)x->data == x->number;
        for (u32 k = 0; k < x->len; k += 8)
            sum += *(const u64 *)(x->data + k);
        read_payload = sum;
    }
    // Free, as a packet of one segment with no other owner is.
    return right & (--x->references == 0) & !x->next;
}

// Takes a batch, and makes its buffers available again.
static ALWAYS void consume(const struct cell *c, enum ring kind, int payload, struct outcome *out)
{
    u32 n = c->batch;
    while (!driver_has(&drv, kind, n))
        relax();
    for (u32 i = 0; i < n; i++) {
        struct buffer b = driver_peek(&drv, kind, i);
        drv.held[i] = b.id;
        struct context *x = &contexts[b.id];
        x->data = b.at + NET_HEADER;
        x->len = b.len - NET_HEADER;
        x->references = 1;
        x->number = received++;
        // Whatever is done with the packet later, a driver reads the header: VIRTIO 1.2, 5.1.6.4.
        const u32 *header = (const u32 *)b.at;
        if (header[0] | header[1] || header[2] != 1 << 16)
            out->failures++;
    }
    driver_took(&drv, kind, n);
    for (u32 i = 0; i < n; i++)
        if (!receive(c, &contexts[drv.held[i]], payload))
            out->failures++;
    for (u32 i = 0; i < n; i++)
        driver_offer(&drv, kind, i, drv.held[i]);
    out->told += driver_publish(&drv, kind, n);
}

static __attribute__((noinline)) void consume_split(const struct cell *c, struct outcome *out)
{
    consume(c, SPLIT, c->payload, out);
}

static __attribute__((noinline)) void consume_packed(const struct cell *c, struct outcome *out)
{
    consume(c, PACKED, c->payload, out);
}

// A number of packets, in whole batches.
static void go(enum role role, const struct cell *c, u32 packets, struct outcome *out)
{
    way *step = role == PRODUCER ? way_of(c) : c->ring == SPLIT ? consume_split : consume_packed;
    u64 begin = cycles(), own = 0;
    for (u32 done = 0; done < packets; done += c->batch) {
        u64 from = 0;
        if (c->after) {
            while (acquire32(&turn) != role)
                relax();
            from = cycles();
        }
        step(c, out);
        if (c->after) {
            own += cycles() - from;
            release32(&turn, !role);
        }
    }
    out->cycles = c->after ? own : cycles() - begin;
}

void vcopy_run(enum role role, const struct cell *c, struct outcome *out)
{
    struct outcome before = {0};
    *out = before;
    meet();
    go(role, c, c->warm, &before);
    out->failures = before.failures;
    meet();
    counting(role, 1);
    go(role, c, c->packets, out);
    counting(role, 0);
    meet();
}

u64 vcopy_check(const struct cell *c)
{
    // The buffers of a ring are used in order, so the last RING_SIZE packets are all there.
    u64 wrong = 0;
    for (u64 k = 0; k < RING_SIZE; k++) {
        u64 number = sent - RING_SIZE + k;
        const u8 *at = drv.at[number % RING_SIZE] + NET_HEADER;
        u32 len = size_of(c, number);
        // Its first word has its number; all others came with the packet of the pool.
        const u64 *words = (const u64 *)at;
        u64 from = len > 8 ? words[1] >> 32 : 0;
        if (words[0] != number || from >= POOL)
            wrong++;
        for (u32 i = 1; i < (len + 7) / 8; i++)
            if (words[i] != (from << 32 | i)) {
                wrong++;
                break;
            }
    }
    return wrong;
}

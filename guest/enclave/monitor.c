/* A monitor for enclaves, as Keystone's is: it runs in M mode, and separates by PMP. An enclave is a program in U mode,
 * without translation, in memory of its own that is NVMM; beside that it reaches only what it shares with the host.
 *
 * The host may be hostile: what it gives is checked, and what a check was made of is not read from its memory again.
 * Out of scope: what times and caches tell, and devices that write to memory by themselves. */
#include "../include/nagori_regs.h"
#include "monitor.h"

/* In a device it would be burnt in, another one in each. */
static const u8 device_key[ASCON_KEY] = "not a secret key";

struct hart {
    u64 x[32];
    u64 stack;       /* monitor.S */
    u64 id;
    int runs;        /* the enclave that runs here, or NOBODY */
    int waits;       /* for CALL_START */
    u64 seen;        /* `layout` when its PMP was set */
    /* The host's, while an enclave runs. */
    u64 host[32], pc, status, satp, mie, medeleg, mideleg;
    u64 unused[54];
};
_Static_assert(sizeof(struct hart) == 1024, "monitor.S");
_Static_assert(offsetof(struct hart, stack) == 256, "monitor.S");

struct hart harts[MAX_HARTS] __attribute__((aligned(1024)));
u8 stacks[MAX_HARTS][8192] __attribute__((aligned(16)));

/* CLOSED: being made, or ended by a fault; it is not entered. */
enum state { FREE, CLOSED, READY, RUNS, STOPPED };

static struct enclave {
    enum state state;
    struct range memory, shared;
    u8 measurement[ASCON_HASH];
    u8 key[ASCON_KEY];
    int identity;
    u64 x[32], pc;
} enclaves[ENCLAVES];

static struct range record, memory, nvmm;
static volatile u32 lock;
/* Grows when PMP has to be set anew, on all harts. */
static volatile u64 layout = 1;
static volatile u64 online;

#define CLINT 0x2000000ull
static volatile u32 *const msip = (volatile u32 *)CLINT;
static volatile u64 *const mtimecmp = (volatile u64 *)(CLINT + 0x4000);
static volatile u64 *const mtime = (volatile u64 *)(CLINT + 0xbff8);

enum { MSI = 1 << 3, MTI = 1 << 7, SUPERVISOR = 0x222 };
enum { MPP = 3 << 11, MPP_S = 1 << 11, MPIE = 1 << 7, FS = 3 << 13, MPRV = 1 << 17 };
/* What the host handles itself: all but calls from S and M mode. */
enum { HOSTS_TRAPS = 0xb1ff };

/* PMP entries, of which the first one that matches counts. */
enum { PMP_MONITOR, PMP_RECORD, PMP_ENCLAVE, PMP_SHARED = PMP_ENCLAVE + ENCLAVES, PMP_REST, PMP_ENTRIES };
enum { R = 1, W = 2, X = 4, NAPOT = 3 << 3 };

static u64 napot(struct range r)
{
    return r.base >> 2 | (r.size / 2 - 1) >> 2;
}

/* Sets the PMP of this hart: for the host, or for the enclave that runs. */
static void protect(struct hart *h)
{
    u64 address[PMP_ENTRIES] = {0}, config[PMP_ENTRIES] = {0}, packed = 0;
    address[PMP_MONITOR] = napot((struct range){MONITOR_BASE, MONITOR_SIZE});
    address[PMP_RECORD] = napot(record);
    config[PMP_MONITOR] = config[PMP_RECORD] = NAPOT;
    for (int i = 0; i < ENCLAVES; i++) {
        if (enclaves[i].state == FREE)
            continue;
        address[PMP_ENCLAVE + i] = napot(enclaves[i].memory);
        config[PMP_ENCLAVE + i] = NAPOT | (i == h->runs ? R | W | X : 0);
    }
    if (h->runs == NOBODY) {
        address[PMP_REST] = ~0ull >> 10;
        config[PMP_REST] = NAPOT | R | W | X;
    } else {
        address[PMP_SHARED] = napot(enclaves[h->runs].shared);
        config[PMP_SHARED] = NAPOT | R | W;
    }
    for (int i = 0; i < PMP_ENTRIES; i++)
        packed |= config[i] << 8 * i;
    /* Nothing is permitted between. */
    csr_write(pmpcfg0, 0);
    csr_write(pmpaddr0, address[0]);
    csr_write(pmpaddr1, address[1]);
    csr_write(pmpaddr2, address[2]);
    csr_write(pmpaddr3, address[3]);
    csr_write(pmpaddr4, address[4]);
    csr_write(pmpaddr5, address[5]);
    csr_write(pmpaddr6, address[6]);
    csr_write(pmpaddr7, address[7]);
    csr_write(pmpcfg0, packed);
    asm volatile("sfence.vma" ::: "memory");
}
_Static_assert(PMP_ENTRIES == 8, "one register with all of them, and the addresses above");

/* Follows what other harts have changed, if they ask for it. */
static void follow(struct hart *h)
{
    if (!(csr_read(mip) & MSI))
        return;
    msip[h->id] = 0;
    asm volatile("fence rw, rw" ::: "memory");
    u64 now = layout;
    protect(h);
    asm volatile("fence rw, rw" ::: "memory");
    *(volatile u64 *)&h->seen = now;
}

/* A hart that waits for the monitor follows meanwhile, or two would wait for each other. */
static void take(struct hart *h)
{
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        follow(h);
}

static void release(void)
{
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

/* The layout has changed: returns when all harts have it. */
static void tell(struct hart *h)
{
    u64 now = layout + 1;
    layout = now;
    asm volatile("fence rw, rw" ::: "memory");
    protect(h);
    h->seen = now;
    for (int i = 0; i < MAX_HARTS; i++)
        if (online >> i & 1 && (u64)i != h->id)
            msip[i] = 1;
    for (int i = 0; i < MAX_HARTS; i++)
        while (online >> i & 1 && *(volatile u64 *)&harts[i].seen < now)
            ;
}

static int is_block(struct range r)
{
    return r.size >= 4096 && !(r.size & (r.size - 1)) && !(r.base & (r.size - 1));
}

/* Whether a range is the host's: memory that neither the monitor nor an enclave has, nor shares with the host. */
static int is_hosts(struct range r)
{
    struct range own = {MONITOR_BASE, MONITOR_SIZE};
    if (!holds(memory, r.base, r.size) || overlaps(r, own) || overlaps(r, record))
        return 0;
    for (int i = 0; i < ENCLAVES; i++) {
        const struct enclave *e = &enclaves[i];
        if (e->state != FREE && (overlaps(r, e->memory) || overlaps(r, e->shared)))
            return 0;
    }
    return 1;
}

/* The key of an identity. */
static void derive(struct enclave *e)
{
    struct ascon s;
    u8 all[ASCON_KEY + ASCON_HASH], hash[ASCON_HASH];
    for (int i = 0; i < ASCON_KEY; i++)
        all[i] = device_key[i];
    for (int i = 0; i < ASCON_HASH; i++)
        all[ASCON_KEY + i] = e->measurement[i];
    ascon_hash_begin(&s);
    ascon_hash_end(&s, all, sizeof all, hash);
    for (int i = 0; i < ASCON_KEY; i++)
        e->key[i] = hash[i];
}

static u64 create(struct hart *h, u64 *x)
{
    struct range own = {x[10], x[11]}, shared = {x[12], x[13]};
    int blocks = is_block(own) && is_block(shared);
    if (!blocks || !is_hosts(own) || !is_hosts(shared) || overlaps(own, shared) || !holds(nvmm, own.base, own.size))
        return ERROR_RANGE;
    int i = 0;
    while (i < ENCLAVES && enclaves[i].state != FREE)
        i++;
    if (i == ENCLAVES)
        return ERROR_FULL;
    struct enclave *e = &enclaves[i];
    *e = (struct enclave){.state = CLOSED, .memory = own, .shared = shared};
    /* From here on the host cannot change it; and what it becomes is gone after a power cut. */
    record_live(i, own);
    tell(h);
    struct ascon s;
    u64 form[] = {own.base, own.size, shared.base, shared.size};
    ascon_hash_begin(&s);
    ascon_hash_words(&s, form, 4);
    ascon_hash_words(&s, (const u64 *)own.base, own.size / 8);
    ascon_hash_end(&s, 0, 0, e->measurement);
    derive(e);
    e->identity = record_identity(e->measurement);
    if (e->identity == NOBODY) {
        scrub(own);
        record_live(i, (struct range){0, 0});
        e->state = FREE;
        tell(h);
        return ERROR_FULL;
    }
    e->state = READY;
    x[11] = i;
    return 0;
}

static struct enclave *named(u64 number)
{
    return number < ENCLAVES && enclaves[number].state != FREE ? &enclaves[number] : 0;
}

static void run(struct hart *h, struct enclave *e, u64 ticks)
{
    for (int i = 0; i < 32; i++)
        h->host[i] = h->x[i];
    h->pc = csr_read(mepc) + 4;
    h->status = csr_read(mstatus);
    h->satp = csr_read(satp);
    h->mie = csr_read(mie);
    h->medeleg = csr_read(medeleg);
    h->mideleg = csr_read(mideleg);
    for (int i = 0; i < 32; i++)
        h->x[i] = e->x[i];
    csr_write(satp, 0);
    csr_write(medeleg, 0);
    csr_write(mideleg, 0);
    mtimecmp[h->id] = ticks ? *mtime + ticks : ~0ull;
    csr_write(mie, MSI | MTI);
    /* To U mode, without floating point. */
    csr_write(mstatus, (h->status & ~(u64)(MPP | FS | MPRV)) | MPIE);
    csr_write(mepc, e->pc);
    e->state = RUNS;
    h->runs = e - enclaves;
    protect(h);
    asm volatile("fence.i" ::: "memory");
}

/* The enclave does not run any more; the host goes on. */
static void stop(struct hart *h, enum state then, u64 how, u64 value)
{
    struct enclave *e = &enclaves[h->runs];
    for (int i = 0; i < 32; i++)
        e->x[i] = h->x[i];
    e->pc = csr_read(mepc);
    e->state = then;
    for (int i = 0; i < 32; i++)
        h->x[i] = h->host[i];
    h->x[10] = how;
    h->x[11] = value;
    mtimecmp[h->id] = ~0ull;
    csr_write(satp, h->satp);
    csr_write(medeleg, h->medeleg);
    csr_write(mideleg, h->mideleg);
    csr_write(mie, h->mie);
    csr_write(mstatus, h->status);
    csr_write(mepc, h->pc);
    h->runs = NOBODY;
    protect(h);
}

/* Whether the call has put the registers in place itself. */
static int of_host(struct hart *h)
{
    u64 *x = h->x;
    struct enclave *e = named(x[10]);
    switch (x[17]) {
    case CALL_CREATE:
        x[10] = create(h, x);
        return 0;
    case CALL_START:
        if (x[10] >= MAX_HARTS || !(online >> x[10] & 1)) {
            x[10] = ERROR_NUMBER;
        } else if (!harts[x[10]].waits) {
            x[10] = ERROR_STATE;
        } else {
            struct hart *other = &harts[x[10]];
            other->pc = x[11];
            other->x[10] = x[12];
            asm volatile("fence rw, rw" ::: "memory");
            *(volatile int *)&other->waits = 0;
            x[10] = 0;
        }
        return 0;
    case CALL_ENTER:
    case CALL_RESUME:
    case CALL_MEASUREMENT:
    case CALL_DESTROY:
        break;
    default:
        x[10] = ERROR_CALL;
        return 0;
    }
    if (!e) {
        x[10] = ERROR_NUMBER;
        return 0;
    }
    switch (x[17]) {
    case CALL_ENTER:
        if (e->state != READY)
            break;
        for (int i = 0; i < 32; i++)
            e->x[i] = 0;
        e->x[2] = e->memory.base + e->memory.size;
        e->x[10] = x[11];
        e->x[11] = e->shared.base;
        e->pc = e->memory.base;
        run(h, e, x[12]);
        return 1;
    case CALL_RESUME:
        if (e->state != STOPPED)
            break;
        run(h, e, x[11]);
        return 1;
    case CALL_MEASUREMENT:
        for (int i = 0; i < 4; i++)
            x[11 + i] = ((const u64 *)e->measurement)[i];
        x[10] = 0;
        return 0;
    case CALL_DESTROY:
        if (e->state == RUNS)
            break;
        scrub(e->memory);
        record_live(e - enclaves, (struct range){0, 0});
        *e = (struct enclave){.state = FREE};
        tell(h);
        x[10] = 0;
        return 0;
    }
    x[10] = ERROR_STATE;
    return 0;
}

/* A text on its way; the lock is held while it is used. */
static struct {
    struct blob head;
    u8 text[SEALED_MOST];
} copy;

static void nonce_of(u8 nonce[ASCON_NONCE], u64 version)
{
    for (int i = 0; i < ASCON_NONCE; i++)
        nonce[i] = i < 8 ? version >> 8 * i : 0;
}

/* The compiler calls them. */
void *memset(void *to, int byte, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((u8 *)to)[i] = byte;
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((u8 *)to)[i] = ((const u8 *)from)[i];
    return to;
}

/* As memcpy, where the other side may change what is read. */
static void move(void *to, const void *from, u64 bytes)
{
    volatile u8 *t = to;
    const volatile u8 *f = from;
    for (u64 i = 0; i < bytes; i++)
        t[i] = f[i];
}

/* Whether an enclave may have a text of its own sealed to a blob, or the other way round. */
static int are_its(const struct enclave *e, u64 text, u64 bytes, u64 blob)
{
    return bytes <= SEALED_MOST && holds(e->memory, text, bytes) && !(blob & 7) &&
           holds(e->shared, blob, sizeof(struct blob) + bytes);
}

static u64 seal(struct enclave *e, u64 *x)
{
    u64 text = x[10], bytes = x[11], blob = x[12];
    if (!are_its(e, text, bytes, blob))
        return ERROR_RANGE;
    u8 nonce[ASCON_NONCE];
    move(copy.text, (const void *)text, bytes);
    copy.head.version = record_issue(e->identity);
    nonce_of(nonce, copy.head.version);
    ascon_seal(e->key, nonce, (const u8 *)&bytes, copy.text, bytes, copy.head.tag);
    move((void *)blob, &copy, sizeof(struct blob) + bytes);
    x[11] = copy.head.version;
    return 0;
}

static u64 unseal(struct enclave *e, u64 *x)
{
    u64 blob = x[10], bytes = x[11], text = x[12];
    if (!are_its(e, text, bytes, blob))
        return ERROR_RANGE;
    u8 nonce[ASCON_NONCE];
    move(&copy, (const void *)blob, sizeof(struct blob) + bytes);
    nonce_of(nonce, copy.head.version);
    if (ascon_open(e->key, nonce, (const u8 *)&bytes, copy.text, bytes, copy.head.tag))
        return ERROR_BLOB;
    if (!record_allows(e->identity, copy.head.version))
        return ERROR_OLD;
    record_commit(e->identity, copy.head.version);
    move((void *)text, copy.text, bytes);
    x[11] = copy.head.version;
    return 0;
}

static int of_enclave(struct hart *h)
{
    struct enclave *e = &enclaves[h->runs];
    u64 *x = h->x;
    switch (x[17]) {
    case CALL_EXIT:
        stop(h, READY, ENDED, x[10]);
        return 1;
    case CALL_SEAL:
        x[10] = seal(e, x);
        return 0;
    case CALL_UNSEAL:
        x[10] = unseal(e, x);
        return 0;
    case CALL_COMMIT:
        if (!record_allows(e->identity, x[10])) {
            x[10] = ERROR_OLD;
        } else {
            record_commit(e->identity, x[10]);
            x[10] = 0;
        }
        return 0;
    }
    x[10] = ERROR_CALL;
    return 0;
}

void trap(struct hart *h)
{
    enum { U_CALL = 8, S_CALL = 9 };
    u64 cause = csr_read(mcause);
    int interrupt = cause >> 63;
    if (interrupt && (cause & 63) == 3) {
        follow(h);
        return;
    }
    take(h);
    if (interrupt) {
        if (h->runs != NOBODY)
            stop(h, STOPPED, INTERRUPTED, 0);
        else
            csr_clear(mie, MTI);
    } else if (h->runs == NOBODY) {
        /* The host handles its other traps. */
        if (cause != S_CALL)
            asm volatile("j fatal");
        if (!of_host(h))
            csr_write(mepc, csr_read(mepc) + 4);
    } else if (cause == U_CALL) {
        if (!of_enclave(h))
            csr_write(mepc, csr_read(mepc) + 4);
    } else {
        /* It is not entered again; its host may destroy it. */
        stop(h, CLOSED, FAULTED, cause);
    }
    release();
}

/* What the first hart does before any other. */
void first(void)
{
    volatile u64 *control = (volatile u64 *)NAGORI_CTL_BASE;
    u64 size = control[NAGORI_CTL_MEMORY_SIZE / 8], base = control[NAGORI_CTL_NVMM_BASE / 8];
    memory = (struct range){MONITOR_BASE, size};
    nvmm = (struct range){base, MONITOR_BASE + size - base};
    record = (struct range){base, RECORD_SIZE};
    record_open(base);
}

/* A hart begins: the first one goes to the host, others wait until it asks for them. */
void begin(struct hart *h)
{
    h->id = csr_read(mhartid);
    h->runs = NOBODY;
    h->waits = h->id != 0;
    h->pc = MONITOR_BASE + MONITOR_SIZE;
    /* Entries behind ours, which nobody uses. */
    csr_write(pmpcfg2, 0);
    /* Before it looks at the layout, so that it learns of a later one. */
    __atomic_or_fetch(&online, 1ull << h->id, __ATOMIC_SEQ_CST);
    u64 now = layout;
    protect(h);
    *(volatile u64 *)&h->seen = now;
    mtimecmp[h->id] = ~0ull;
    csr_write(mie, MSI);
    while (*(volatile int *)&h->waits)
        follow(h);
    asm volatile("fence rw, rw" ::: "memory");
    csr_write(satp, 0);
    csr_write(medeleg, HOSTS_TRAPS);
    csr_write(mideleg, SUPERVISOR);
    csr_write(mcounteren, 7);
    csr_write(mstatus, MPP_S);
    csr_write(mepc, h->pc);
}

/* Libraries for persistent memory write lines by themselves. Their functions are those of libpmem; each line waits for
 * what the monitor says that slower memory would add. */
#define _GNU_SOURCE
#include "helper.h"

#define LINE 64
/* From this size on libpmem writes with non-temporal stores, unless told otherwise (its PMEM_MOVNT_THRESHOLD). */
#define NT_FROM 256

/* Flags of pmem_memcpy and its like. */
#define F_NODRAIN 1u
#define F_NOFLUSH 2u
#define F_NONTEMPORAL 4u
#define F_TEMPORAL 8u
#define F_WC 16u
#define F_WB 32u

static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return nagori_clock(CLOCK_MONOTONIC);
#endif
}

/* Both clocks at one moment: of several attempts the one that was interrupted least. */
static void moment(uint64_t *ns, uint64_t *tick)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t before = ticks(), t = nagori_clock(CLOCK_MONOTONIC), after = ticks();
        if (after - before < least) {
            least = after - before;
            *ns = t;
            *tick = before + least / 2;
        }
    }
}

/* Ticks in 2^20 ns, measured once; the kernel's clock runs on the same counter. */
static uint64_t rate(void)
{
    static uint64_t known;
    uint64_t r = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (r)
        return r;
    uint64_t start = 0, end = 0, from = 0, to = 0;
    moment(&start, &from);
    do
        moment(&end, &to);
    while (end - start < 2000000);
    r = (uint64_t)(((__uint128_t)(to - from) << 20) / (end - start));
    __atomic_store_n(&known, r, __ATOMIC_RELAXED);
    return r;
}

static uint64_t lines(const void *address, size_t length)
{
    uintptr_t a = (uintptr_t)address;
    return length ? (a + length - 1) / LINE - a / LINE + 1 : 0;
}

static void flushed(const void *address, size_t length)
{
    struct self *self = &nagori_self;
    uint64_t n = lines(address, length);
    self->flushed += n;
    self->owed_ps += (int64_t)(n * self->flush_ps);
}

static void stored(const void *address, size_t length)
{
    struct self *self = &nagori_self;
    uint64_t n = lines(address, length);
    self->nt += n;
    self->owed_ps += (int64_t)(n * self->nt_ps);
}

/* Waits for all lines that are under way. */
static void drain(void)
{
    struct self *self = &nagori_self;
    if (!self->ready || self->owed_ps < 1000)
        return;
    uint64_t per = rate(), from = ticks(), due = (uint64_t)self->owed_ps / 1000;
    uint64_t wanted = (uint64_t)(((__uint128_t)due * per) >> 20), spent;
    while ((spent = ticks() - from) < wanted)
        ;
    uint64_t ns = (uint64_t)(((__uint128_t)spent << 20) / per);
    /* More than a microsecond too long is no waiting: meanwhile another thread had the processor. */
    if (ns > due + 1000)
        ns = due;
    self->owed_ps -= (int64_t)(ns * 1000);
    self->spun += ns;
}

void pmem_flush(const void *address, size_t length)
{
    NEXT(pmem_flush, NULL);
    next(address, length);
    flushed(address, length);
}

void pmem_deep_flush(const void *address, size_t length)
{
    NEXT(pmem_deep_flush, NULL);
    next(address, length);
    flushed(address, length);
}

void pmem_drain(void)
{
    NEXT(pmem_drain, NULL);
    next();
    drain();
}

void pmem_persist(const void *address, size_t length)
{
    NEXT(pmem_persist, NULL);
    next(address, length);
    flushed(address, length);
    drain();
}

int pmem_msync(const void *address, size_t length)
{
    NEXT(pmem_msync, NULL);
    int result = next(address, length);
    flushed(address, length);
    drain();
    return result;
}

/* What a copy or fill has written, by its flags. */
static void wrote(const void *address, size_t length, unsigned flags)
{
    if (flags & F_NOFLUSH)
        return;
    int nt = length >= NT_FROM;
    if (flags & (F_NONTEMPORAL | F_WC))
        nt = 1;
    if (flags & (F_TEMPORAL | F_WB))
        nt = 0;
    if (nt)
        stored(address, length);
    else
        flushed(address, length);
    if (!(flags & F_NODRAIN))
        drain();
}

#define COPY(name, flags)                                                      \
    void *name(void *to, const void *from, size_t length)                      \
    {                                                                          \
        NEXT(name, NULL);             \
        void *result = next(to, from, length);                                 \
        wrote(to, length, flags);                                              \
        return result;                                                         \
    }
#define FILL(name, flags)                                                      \
    void *name(void *to, int value, size_t length)                             \
    {                                                                          \
        NEXT(name, NULL);                      \
        void *result = next(to, value, length);                                \
        wrote(to, length, flags);                                              \
        return result;                                                         \
    }

COPY(pmem_memcpy_persist, 0)
COPY(pmem_memcpy_nodrain, F_NODRAIN)
COPY(pmem_memmove_persist, 0)
COPY(pmem_memmove_nodrain, F_NODRAIN)
FILL(pmem_memset_persist, 0)
FILL(pmem_memset_nodrain, F_NODRAIN)

#define COPY_FLAGS(name)                                                       \
    void *name(void *to, const void *from, size_t length, unsigned flags)      \
    {                                                                          \
        NEXT(name, NULL);   \
        void *result = next(to, from, length, flags);                          \
        wrote(to, length, flags);                                              \
        return result;                                                         \
    }

COPY_FLAGS(pmem_memcpy)
COPY_FLAGS(pmem_memmove)

void *pmem_memset(void *to, int value, size_t length, unsigned flags)
{
    NEXT(pmem_memset, NULL);
    void *result = next(to, value, length, flags);
    wrote(to, length, flags);
    return result;
}

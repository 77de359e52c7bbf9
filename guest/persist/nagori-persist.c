// libnagori-persist.so, for LD_PRELOAD: makes data that libpmem and the kernel consider persistent
// reach NVMM on a machine whose caches lose their data in a power cut (memory.persistence_domain
// none or adr).
//
// libpmem for riscv64 flushes nothing, and Debian's kernel copies data to NVMM without flushing it.
// Here libpmem's functions flush lines by CFLUSH.D.L1, which user programs may execute; and fsync
// and its relatives flush the whole L1 data cache of every hart after the kernel's own work.
//
// CFLUSH.D.L1 reaches only the next cache. Where there are outer levels, libpmem's functions call msync instead, for
// which the kernel writes back what was stored through the mapping, by cbo.clean, if the device tree advertises Zicbom.
// What the kernel itself copies then stays in the outer levels.
//
// It has no effect on static programs, and on programs with a C library of their own.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nagori.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    LINE = 64,
    ATTEMPTS = 100,
    // Of libpmem's flags.
    NODRAIN = 1 << 0,
    NOFLUSH = 1 << 5,
};

// --- Outer levels ---

static pthread_mutex_t told = PTHREAD_MUTEX_INITIALIZER;

static void tell(const char *what)
{
    static bool done;
    pthread_mutex_lock(&told);
    if (!done)
        fprintf(stderr, "nagori-persist: %s\n", what);
    done = true;
    pthread_mutex_unlock(&told);
}

// Whether the harts have caches behind the L1.
static bool has_outer_levels(void)
{
    static int known; // 0: not looked up, 1: no, 2: yes
    int k = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (k == 0) {
        k = access("/proc/device-tree/cpus/cpu@0/next-level-cache", F_OK) == 0 ? 2 : 1;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k == 2;
}

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))

// Has the kernel write a range back, in pages.
static void flush_pages(const void *addr, size_t len)
{
    int (*real)(void *, size_t, int) = REAL("msync", int (*)(void *, size_t, int));
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)addr & -page;
    int error = errno;
    if (access("/proc/device-tree/cpus/cpu@0/riscv,cbom-block-size", F_OK) != 0)
        tell("this machine has outer caches, which nothing can flush: its device tree has no Zicbom");
    else if (real((void *)from, (uintptr_t)addr + len - from, MS_SYNC) != 0)
        tell("this mapping cannot be flushed from the outer caches: msync fails");
    errno = error;
}

// --- Lines ---

// Writes back a line that this hart or another one holds dirty. The load takes it from another
// hart, which writes it back; then this hart's own copy is flushed. Returns whether no trap came in
// between, after which the thread might run on another hart: the kernel's return from a trap ends
// the reservation.
static inline bool flush_line(uintptr_t line)
{
    uint64_t reserved = 0;
    uint64_t old, loaded, failed;
    __asm__ volatile("lr.d %0, (%3)\n\t"
                     "ld %1, 0(%4)\n\t"
                     ".insn i 0x73, 0, x0, %4, -0x340\n\t"
                     "sc.d %2, %0, (%3)"
                     : "=&r"(old), "=&r"(loaded), "=&r"(failed)
                     : "r"(&reserved), "r"(line)
                     : "memory");
    return failed == 0;
}

// How often the thread has been preempted.
static long switches(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_THREAD, &u) != 0)
        return 0;
    return u.ru_nvcsw + u.ru_nivcsw;
}

static void flush_lines(const void *addr, size_t len)
{
    if (len == 0)
        return;
    if (has_outer_levels()) {
        flush_pages(addr, len);
        return;
    }
    uintptr_t end = (uintptr_t)addr + len;
    for (uintptr_t line = (uintptr_t)addr & -(uintptr_t)LINE; line < end; line += LINE) {
        int left = ATTEMPTS;
        while (!flush_line(line) && --left > 0)
            ;
        if (left > 0)
            continue;
        // A hart whose reservations do not last that long.
        long before;
        do {
            before = switches();
            flush_line(line);
        } while (switches() != before);
    }
}

static void drain(void)
{
    __asm__ volatile("fence iorw, iorw" : : : "memory");
}

// --- All caches ---

// Flushes the L1 data cache of every hart; the thread runs on each for a moment. Returns 0, or -1
// with errno if it may not run everywhere.
static int flush_all(void)
{
    cpu_set_t mine, one;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        return -1;
    long harts = sysconf(_SC_NPROCESSORS_CONF), online = sysconf(_SC_NPROCESSORS_ONLN), done = 0;
    for (long i = 0; i < harts && i < CPU_SETSIZE; i++) {
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0)
            continue;
        nagori_cflush_all();
        drain();
        done++;
    }
    sched_setaffinity(0, sizeof mine, &mine);
    if (done >= online)
        return 0;
    tell("this thread may not run on every hart, so what others hold in their caches cannot be flushed");
    errno = EIO;
    return -1;
}

// Returns whether a call or its flush has failed.
static int flushed(int result)
{
    int error = errno;
    if (has_outer_levels())
        tell("what the kernel copies itself stays in this machine's outer caches");
    if (flush_all() != 0)
        return -1;
    errno = error;
    return result;
}

EXPORT int fsync(int fd)
{
    int (*real)(int) = REAL("fsync", int (*)(int));
    int r = real(fd);
    return r == 0 ? flushed(r) : r;
}

EXPORT int fdatasync(int fd)
{
    int (*real)(int) = REAL("fdatasync", int (*)(int));
    int r = real(fd);
    return r == 0 ? flushed(r) : r;
}

EXPORT int syncfs(int fd)
{
    int (*real)(int) = REAL("syncfs", int (*)(int));
    int r = real(fd);
    return r == 0 ? flushed(r) : r;
}

EXPORT void sync(void)
{
    void (*real)(void) = REAL("sync", void (*)(void));
    real();
    flushed(0);
}

EXPORT int msync(void *addr, size_t len, int flags)
{
    int (*real)(void *, size_t, int) = REAL("msync", int (*)(void *, size_t, int));
    int r = real(addr, len, flags);
    return r == 0 && (flags & MS_SYNC) && !has_outer_levels() ? flushed(r) : r;
}

// --- libpmem ---

EXPORT void pmem_flush(const void *addr, size_t len)
{
    flush_lines(addr, len);
}

EXPORT void pmem_drain(void)
{
    drain();
}

EXPORT void pmem_persist(const void *addr, size_t len)
{
    flush_lines(addr, len);
    drain();
}

EXPORT int pmem_has_hw_drain(void)
{
    return 0;
}

EXPORT int pmem_msync(const void *addr, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)addr & -page;
    return msync((void *)from, (uintptr_t)addr + len - from, MS_SYNC);
}

EXPORT void pmem_deep_flush(const void *addr, size_t len)
{
    flush_lines(addr, len);
}

EXPORT int pmem_deep_drain(const void *addr, size_t len)
{
    (void)addr, (void)len;
    drain();
    return 0;
}

EXPORT int pmem_deep_persist(const void *addr, size_t len)
{
    pmem_persist(addr, len);
    return 0;
}

static void *done(void *to, size_t len, unsigned flags)
{
    if (!(flags & NOFLUSH))
        flush_lines(to, len);
    if (!(flags & (NOFLUSH | NODRAIN)))
        drain();
    return to;
}

EXPORT void *pmem_memcpy(void *to, const void *from, size_t len, unsigned flags)
{
    memmove(to, from, len);
    return done(to, len, flags);
}

EXPORT void *pmem_memmove(void *to, const void *from, size_t len, unsigned flags)
{
    memmove(to, from, len);
    return done(to, len, flags);
}

EXPORT void *pmem_memset(void *to, int byte, size_t len, unsigned flags)
{
    memset(to, byte, len);
    return done(to, len, flags);
}

EXPORT void *pmem_memcpy_persist(void *to, const void *from, size_t len)
{
    return pmem_memcpy(to, from, len, 0);
}

EXPORT void *pmem_memmove_persist(void *to, const void *from, size_t len)
{
    return pmem_memmove(to, from, len, 0);
}

EXPORT void *pmem_memset_persist(void *to, int byte, size_t len)
{
    return pmem_memset(to, byte, len, 0);
}

EXPORT void *pmem_memcpy_nodrain(void *to, const void *from, size_t len)
{
    return pmem_memcpy(to, from, len, NODRAIN);
}

EXPORT void *pmem_memmove_nodrain(void *to, const void *from, size_t len)
{
    return pmem_memmove(to, from, len, NODRAIN);
}

EXPORT void *pmem_memset_nodrain(void *to, int byte, size_t len)
{
    return pmem_memset(to, byte, len, NODRAIN);
}

// --- libpmem2: functions of a mapping ---

struct pmem2_map;
typedef void (*persist_fn)(const void *, size_t);
typedef void (*drain_fn)(void);
typedef void *(*copy_fn)(void *, const void *, size_t, unsigned);
typedef void *(*set_fn)(void *, int, size_t, unsigned);

// Whether the mapping is of NVMM. A mapping of another file has to be written back in pages, by
// libpmem2.
static bool is_nvmm(struct pmem2_map *map)
{
    enum { PAGE = 2 };
    int (*granularity)(struct pmem2_map *) =
        REAL("pmem2_get_store_granularity", int (*)(struct pmem2_map *));
    return granularity != NULL && granularity(map) != PAGE;
}

#define OF_MAPPING(type, name, ours) \
    EXPORT type name(struct pmem2_map *map) \
    { \
        type (*real)(struct pmem2_map *) = REAL(#name, type (*)(struct pmem2_map *)); \
        return real == NULL || is_nvmm(map) ? ours : real(map); \
    }

OF_MAPPING(persist_fn, pmem2_get_persist_fn, pmem_persist)
OF_MAPPING(persist_fn, pmem2_get_flush_fn, pmem_flush)
OF_MAPPING(drain_fn, pmem2_get_drain_fn, pmem_drain)
OF_MAPPING(copy_fn, pmem2_get_memcpy_fn, pmem_memcpy)
OF_MAPPING(copy_fn, pmem2_get_memmove_fn, pmem_memmove)
OF_MAPPING(set_fn, pmem2_get_memset_fn, pmem_memset)

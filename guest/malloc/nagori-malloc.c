// libnagori-malloc.so: LD_PRELOAD it, and a program's malloc is on NVMM, in DRAM, or by size.
//
// What is in DRAM comes from the C library's own allocator, what is on NVMM from heap.c.
//
//   NAGORI_MALLOC=dram        everything in DRAM
//   NAGORI_MALLOC=nvmm        everything on NVMM (default)
//   NAGORI_MALLOC=size:N      requests of N bytes or more on NVMM
//   NAGORI_MALLOC_DEVICE=...  /dev/dax0.0, PATH[@OFFSET+SIZE], or node:N [default: /dev/dax0.0, if
//                             it is there, else /dev/mem where the control block says NVMM is]
//   NAGORI_MALLOC_STATS=1     a line at exit, on stderr

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap.h"
#include "nvmm.h"

enum { PAGE = 4096 };

#define EXPORT __attribute__((visibility("default")))
// The C library's allocator, by its other names.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static struct {
    _Atomic int state; // 0 not yet, 1 being made, 2 ready
    // Requests of these sizes, from the first up to below the second, are on NVMM, and may be what a thread has; none
    // until everything is set up.
    size_t quick_from, quick_to;
    size_t threshold; // requests from here on are on NVMM; SIZE_MAX: none
    bool stats;
    _Atomic uint64_t nvmm, dram; // allocations
} self;

// Setting up: requests go to DRAM.
static HEAP_THREAD bool busy;

// ---- setting up --------------------------------------------------------------------------

static void choose(const char *what)
{
    if (what == NULL || *what == 0 || strcmp(what, "nvmm") == 0) {
        self.threshold = 0;
    } else if (strcmp(what, "dram") == 0) {
        self.threshold = SIZE_MAX;
    } else if (strncmp(what, "size:", 5) == 0) {
        char *end;
        errno = 0;
        unsigned long long n = strtoull(what + 5, &end, 0);
        if (end == what + 5 || *end != 0 || errno != 0 || what[5] == '-')
            nvmm_die("NAGORI_MALLOC=%s: give the size in bytes, such as size:4096", what);
        self.threshold = n;
    } else {
        nvmm_die("NAGORI_MALLOC=%s: give dram, nvmm or size:BYTES", what);
    }
}

static void report(void)
{
    struct nvmm_counts c = nvmm_counts();
    nvmm_say("%s: nvmm=%llu dram=%llu chunks=%llu peak=%llu used=%llu extents=%llu returned=%llu "
             "failures=%llu",
             self.threshold == SIZE_MAX ? "dram" : nvmm_name(), (unsigned long long)self.nvmm,
             (unsigned long long)self.dram, (unsigned long long)c.chunks, (unsigned long long)c.peak,
             (unsigned long long)c.used, (unsigned long long)c.allocs, (unsigned long long)c.frees,
             (unsigned long long)c.failures);
}

static void set_up(void)
{
    choose(getenv("NAGORI_MALLOC"));
    const char *stats = getenv("NAGORI_MALLOC_STATS");
    self.stats = stats != NULL && strcmp(stats, "0") != 0;
    if (self.threshold == SIZE_MAX)
        return;
    nvmm_open(getenv("NAGORI_MALLOC_DEVICE"));
    heap_open();
    if (pthread_atfork(heap_before_fork, heap_after_fork_parent, heap_after_fork_child) != 0)
        nvmm_die("the system has no room for handlers of fork");
    self.quick_from = self.threshold;
    self.quick_to = self.stats ? 0 : HEAP_TABLE + 1;
}

// Slow path of every request until initialisation is complete.
static bool ready(void)
{
    int expected = 0;
    if (busy)
        return false;
    if (atomic_compare_exchange_strong(&self.state, &expected, 1)) {
        busy = true;
        set_up();
        busy = false;
        self.state = 2;
    }
    // Another thread is initialising; only unusual programs have threads that early.
    while (self.state != 2)
        usleep(100);
    return true;
}

__attribute__((constructor)) static void loaded(void)
{
    if (self.state != 2)
        ready();
}

__attribute__((destructor)) static void unloaded(void)
{
    if (self.stats)
        report();
}

// ---- requests ----------------------------------------------------------------------------

// Whether a request of this size is for NVMM.
static bool for_nvmm(size_t size)
{
    if (self.state != 2 && !ready())
        return false;
    bool nvmm = size >= self.threshold && self.threshold != SIZE_MAX;
    if (self.stats)
        (*(nvmm ? &self.nvmm : &self.dram))++;
    return nvmm;
}

static void *allocate(size_t size, size_t alignment, bool zero)
{
    void *p = size > PTRDIFF_MAX ? NULL : heap_take(size == 0 ? 1 : size, alignment, zero);
    if (p == NULL)
        errno = ENOMEM;
    return p;
}

EXPORT void *malloc(size_t size)
{
    if (size >= self.quick_from && size < self.quick_to) {
        void *p = heap_quick(size);
        if (p != NULL)
            return p;
    }
    return for_nvmm(size) ? allocate(size, HEAP_UNIT, false) : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return for_nvmm(bytes) ? allocate(bytes, HEAP_UNIT, true) : __libc_calloc(count, size);
}

EXPORT void free(void *p)
{
    if (heap_has(p))
        heap_give(p);
    else
        __libc_free(p);
}

EXPORT size_t malloc_usable_size(void *p)
{
    static size_t (*_Atomic in_dram)(void *);
    if (p == NULL)
        return 0;
    if (heap_has(p))
        return heap_size(p);
    if (in_dram == NULL)
        in_dram = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return in_dram(p);
}

EXPORT void *realloc(void *p, size_t size)
{
    if (p == NULL)
        return malloc(size);
    if (size == 0) {
        free(p);
        return NULL;
    }
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    bool from = heap_has(p), to = for_nvmm(size);
    if (!from && !to)
        return __libc_realloc(p, size);
    void *q;
    if (from && to) {
        q = heap_resize(p, size);
    } else {
        // To the other kind of memory.
        q = to ? heap_take(size, HEAP_UNIT, false) : __libc_malloc(size);
        if (q != NULL) {
            size_t old = malloc_usable_size(p);
            memcpy(q, p, old < size ? old : size);
            free(p);
        }
    }
    if (q == NULL)
        errno = ENOMEM;
    return q;
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

static bool power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    if (!power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return for_nvmm(size) ? allocate(size, alignment < HEAP_UNIT ? HEAP_UNIT : alignment, false)
                          : __libc_memalign(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

EXPORT int posix_memalign(void **where, size_t alignment, size_t size)
{
    if (!power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int error = errno;
    void *p = aligned_alloc(alignment, size);
    errno = error;
    if (p == NULL)
        return ENOMEM;
    *where = p;
    return 0;
}

EXPORT void *valloc(size_t size)
{
    return aligned_alloc(PAGE, size);
}

EXPORT void *pvalloc(size_t size)
{
    size_t bytes;
    if (__builtin_add_overflow(size, PAGE - 1, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return aligned_alloc(PAGE, bytes / PAGE * PAGE);
}

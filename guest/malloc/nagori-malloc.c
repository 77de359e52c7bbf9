// libnagori-malloc.so: LD_PRELOAD it, and a program's malloc is on NVMM, in DRAM, or by size.
//
// The allocator is Debian's jemalloc, unchanged; arenas of its own with extent hooks take their
// memory from NVMM (nvmm.c). jemalloc's own data stay in DRAM.
//
//   NAGORI_MALLOC=dram        everything in DRAM (jemalloc as it is)
//   NAGORI_MALLOC=nvmm        everything on NVMM (default)
//   NAGORI_MALLOC=size:N      requests of N bytes or more on NVMM
//   NAGORI_MALLOC_DEVICE=...  /dev/dax0.0, PATH[@OFFSET+SIZE], or node:N [default: /dev/dax0.0, if
//                             it is there, else /dev/mem where the control block says NVMM is]
//   NAGORI_MALLOC_STATS=1     a line at exit, on stderr

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jemalloc.h"
#include "nvmm.h"

enum {
    MAX_ARENAS = 8,
    PAGE = 4096,
    NO_TCACHE = 0, // of struct thread: not made yet
};

#define EXPORT __attribute__((visibility("default")))
// Otherwise the linker calls malloc for the memory of a thread's variables.
#define THREAD static __thread __attribute__((tls_model("initial-exec")))

static struct {
    _Atomic int state; // 0 not yet, 1 being made, 2 ready
    size_t threshold;  // requests from here on are on NVMM; SIZE_MAX: none
    unsigned arena[MAX_ARENAS], arenas;
    _Atomic unsigned threads;
    pthread_key_t key;
    bool stats;
    _Atomic uint64_t nvmm, dram; // allocations
} self;

// The flags of this thread's requests for NVMM.
THREAD struct {
    bool busy;  // setting up: requests go to DRAM
    bool over;  // ending: without a cache
    int arena;  // flag, 0: none yet
    int tcache; // flag
} thread;

// ---- hooks -------------------------------------------------------------------------------

static void *hook_alloc(extent_hooks_t *h, void *want, size_t size, size_t alignment, bool *zero,
                        bool *commit, unsigned arena)
{
    (void)h, (void)arena;
    // A given address would mean growing in place; refusing is always allowed.
    if (want != NULL)
        return NULL;
    void *p = nvmm_take(size, alignment < PAGE ? PAGE : alignment);
    if (p == NULL)
        return NULL;
    // NVMM keeps its old content.
    if (*zero)
        memset(p, 0, size);
    *commit = true;
    return p;
}

static bool hook_dalloc(extent_hooks_t *h, void *p, size_t size, bool committed, unsigned arena)
{
    (void)h, (void)committed, (void)arena;
    return !nvmm_give(p, size);
}

static void hook_destroy(extent_hooks_t *h, void *p, size_t size, bool committed, unsigned arena)
{
    hook_dalloc(h, p, size, committed, arena);
}

// Memory of a device is always committed, and cannot be purged.
static bool hook_commit(extent_hooks_t *h, void *p, size_t size, size_t offset, size_t length,
                        unsigned arena)
{
    (void)h, (void)p, (void)size, (void)offset, (void)length, (void)arena;
    return false;
}

static bool hook_decline(extent_hooks_t *h, void *p, size_t size, size_t offset, size_t length,
                         unsigned arena)
{
    (void)h, (void)p, (void)size, (void)offset, (void)length, (void)arena;
    return true;
}

// The range is one: any part of it may be cut, and neighbours may be joined.
static bool hook_split(extent_hooks_t *h, void *p, size_t size, size_t a, size_t b, bool committed,
                       unsigned arena)
{
    (void)h, (void)p, (void)size, (void)a, (void)b, (void)committed, (void)arena;
    return false;
}

static bool hook_merge(extent_hooks_t *h, void *a, size_t size_a, void *b, size_t size_b,
                       bool committed, unsigned arena)
{
    (void)h, (void)size_b, (void)committed, (void)arena;
    return (char *)a + size_a != (char *)b;
}

static extent_hooks_t hooks = {
    .alloc = hook_alloc,
    .dalloc = hook_dalloc,
    .destroy = hook_destroy,
    .commit = hook_commit,
    .decommit = hook_decline,
    .purge_lazy = hook_decline,
    .purge_forced = hook_decline,
    .split = hook_split,
    .merge = hook_merge,
};

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
    nvmm_say("%s: nvmm=%llu dram=%llu arenas=%u chunks=%llu peak=%llu used=%llu extents=%llu "
             "returned=%llu failures=%llu",
             self.threshold == SIZE_MAX ? "dram" : nvmm_name(), (unsigned long long)self.nvmm,
             (unsigned long long)self.dram, self.arenas, (unsigned long long)c.chunks,
             (unsigned long long)c.peak, (unsigned long long)c.used, (unsigned long long)c.allocs,
             (unsigned long long)c.frees, (unsigned long long)c.failures);
}

static void thread_ends(void *unused)
{
    (void)unused;
    unsigned cache = ((unsigned)thread.tcache >> 8) - 2;
    bool had = thread.tcache != NO_TCACHE && thread.tcache != MALLOCX_TCACHE_NONE;
    // Handlers that run later may still ask for memory.
    thread.over = true;
    thread.tcache = MALLOCX_TCACHE_NONE;
    if (had)
        mallctl("tcache.destroy", NULL, NULL, &cache, sizeof cache);
}

static void set_up(void)
{
    choose(getenv("NAGORI_MALLOC"));
    const char *stats = getenv("NAGORI_MALLOC_STATS");
    self.stats = stats != NULL && strcmp(stats, "0") != 0;
    if (self.threshold != SIZE_MAX) {
        nvmm_open(getenv("NAGORI_MALLOC_DEVICE"));
        long harts = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned count = harts < 1 ? 1 : harts > MAX_ARENAS ? MAX_ARENAS : (unsigned)harts;
        for (unsigned i = 0; i < count; i++) {
            // With jemalloc's own data in DRAM: it changes them around fork, when NVMM is shared.
            arena_config_t config = {&hooks, false};
            size_t size = sizeof self.arena[0];
            int error = mallctl("experimental.arenas_create_ext", &self.arena[i], &size, &config,
                                sizeof config);
            if (error != 0)
                nvmm_die("jemalloc makes no arena: %s (libjemalloc2 5.3 is needed)",
                         strerror(error));
            self.arenas++;
        }
        if (pthread_key_create(&self.key, thread_ends) != 0 ||
            pthread_atfork(nvmm_before_fork, nvmm_after_fork_parent, nvmm_after_fork_child) != 0)
            nvmm_die("the system has no room for handlers of threads or fork");
    }
}

// Slow path of every request until initialisation is complete.
static bool ready(void)
{
    int expected = 0;
    if (thread.busy)
        return false;
    if (atomic_compare_exchange_strong(&self.state, &expected, 1)) {
        thread.busy = true;
        set_up();
        thread.busy = false;
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

static int thread_flags(void)
{
    if (thread.arena == 0) {
        unsigned i = self.threads++ % self.arenas;
        thread.arena = MALLOCX_ARENA(self.arena[i]);
    }
    if (thread.tcache == NO_TCACHE && !thread.over && !thread.busy) {
        thread.busy = true;
        unsigned cache;
        size_t size = sizeof cache;
        thread.tcache = mallctl("tcache.create", &cache, &size, NULL, 0) == 0
                            ? MALLOCX_TCACHE(cache)
                            : MALLOCX_TCACHE_NONE;
        pthread_setspecific(self.key, &thread);
        thread.busy = false;
    }
    return thread.arena | (thread.tcache == NO_TCACHE ? MALLOCX_TCACHE_NONE : thread.tcache);
}

// jemalloc's flags for a request of this size.
static int place(size_t size)
{
    if (self.state != 2 && !ready())
        return 0;
    if (size < self.threshold || self.threshold == SIZE_MAX || thread.busy) {
        if (self.stats)
            self.dram++;
        return 0;
    }
    if (self.stats)
        self.nvmm++;
    return thread_flags();
}

static bool on_nvmm(const void *p)
{
    return self.arenas != 0 && nvmm_has(p);
}

static void *allocate(size_t size, int flags)
{
    if (size == 0)
        size = 1;
    void *p = size > PTRDIFF_MAX ? NULL : mallocx(size, place(size) | flags);
    if (p == NULL)
        errno = ENOMEM;
    return p;
}

EXPORT void *malloc(size_t size)
{
    return allocate(size, 0);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return allocate(bytes, MALLOCX_ZERO);
}

EXPORT void free(void *p)
{
    if (p == NULL)
        return;
    int error = errno;
    dallocx(p, on_nvmm(p) ? thread_flags() & ~(thread.arena) : 0);
    errno = error;
}

EXPORT void *realloc(void *p, size_t size)
{
    if (p == NULL)
        return allocate(size, 0);
    if (size == 0) {
        free(p);
        return NULL;
    }
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    int flags = place(size);
    bool to = flags != 0;
    void *q;
    if (on_nvmm(p) == to) {
        q = rallocx(p, size, flags);
    } else {
        // To the other kind of memory.
        q = mallocx(size, flags);
        if (q != NULL) {
            size_t old = sallocx(p, 0);
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
    return allocate(size, MALLOCX_ALIGN(alignment));
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
    void *p = allocate(size, MALLOCX_ALIGN(alignment));
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

EXPORT size_t malloc_usable_size(void *p)
{
    return p == NULL ? 0 : sallocx(p, 0);
}

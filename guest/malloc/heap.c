// Small blocks are cut from slabs, runs of pages with blocks of one size; a thread keeps a few free ones of
// each size, so that most requests take no lock. Larger blocks are runs of pages of their own. A block that
// the C library would map by itself is a mapping here, too, if the memory is a node's: its pages are new, may be huge,
// and move when it grows. All others have small pages, as a heap has that grows bit by bit.

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "heap.h"
#include "nvmm.h"

enum {
    PAGE = HEAP_PAGE,
    SMALL = 32 << 10,      // bytes of the largest small block
    SLAB = 16 << 10,       // bytes of a slab, if SLAB_BLOCKS fit
    SLAB_BLOCKS = 8,       // of a slab, at least
    KINDS = 64,            // an entry of the page table has its kind in these low bits
    RUN = HEAP_CLASSES,    // kind: pages of one block
    MAP_FROM = 128 << 10,  // the C library's least size of a block that is mapped by itself
    MAP_FROM_MOST = 32 << 20,
};

// A slab; its place is aligned to KINDS bytes.
struct slab {
    struct slab *next, *prev; // of its class, if it has a free block
    void *free;               // blocks that were given back
    uintptr_t start, fresh;   // no block was taken from `fresh` on
    unsigned used, listed;
} __attribute__((aligned(KINDS)));

HEAP_THREAD struct heap_cache heap_cache;
uint8_t heap_class[HEAP_TABLE / HEAP_UNIT + 1];

static struct {
    pthread_mutex_t lock;
    bool forking; // the lock is held for a fork
    // By page of the range: the slab and its class; or pages of a run and its kind, at the run's first page.
    uint64_t *pages;
    struct slab *slabs, *unused; // no slab was made from `slabs` on
    struct slab *open[HEAP_CLASSES];
    uint32_t size[HEAP_CLASSES];
    uint32_t slab_bytes[HEAP_CLASSES];
    uint8_t keep[HEAP_CLASSES]; // free blocks of a thread, at most
    _Atomic size_t map_from;
    pthread_key_t key; // of the threads that have a cache
} heap;

// ---- classes -----------------------------------------------------------------------------

// Multiples of 16 up to 128; then four sizes from one power of two to the next.
static unsigned class_of(size_t size)
{
    if (size <= 128)
        return (unsigned)((size + HEAP_UNIT - 1) / HEAP_UNIT);
    unsigned bits = 63 - (unsigned)__builtin_clzl(size - 1);
    return 9 + (bits - 7) * 4 + (unsigned)((size - 1) >> (bits - 2) & 3);
}

static uint32_t size_of(unsigned class)
{
    if (class <= 8)
        return class * HEAP_UNIT;
    unsigned bits = 7 + (class - 9) / 4, quarter = (class - 9) % 4 + 1;
    return (1u << bits) + (quarter << (bits - 2));
}

static void thread_ends(void *cache);

void heap_open(void)
{
    for (unsigned c = 1; c < HEAP_CLASSES; c++) {
        uint32_t size = heap.size[c] = size_of(c);
        uint32_t bytes = size * SLAB_BLOCKS < SLAB ? SLAB : size * SLAB_BLOCKS;
        heap.slab_bytes[c] = (bytes + PAGE - 1) & ~(PAGE - 1u);
        heap.keep[c] = size <= 256 ? 16 : size <= 1024 ? 8 : size <= 4096 ? 4 : 2;
    }
    for (size_t i = 1; i < sizeof heap_class; i++)
        heap_class[i] = (uint8_t)class_of(i * HEAP_UNIT);
    // Only what is used of the tables takes memory; huge pages would take 2 MiB at once.
    size_t pages = NVMM_RANGE / PAGE * sizeof *heap.pages;
    size_t slabs = NVMM_RANGE / SLAB * sizeof *heap.slabs;
    heap.pages = nvmm_table(pages + slabs);
    heap.slabs = (struct slab *)((char *)heap.pages + pages);
    heap.map_from = MAP_FROM;
    if (pthread_key_create(&heap.key, thread_ends) != 0)
        nvmm_die("the system has no room for a handler of threads");
}

static uint64_t *page_of(const void *p)
{
    return &heap.pages[((uintptr_t)p - nvmm_range.base) / PAGE];
}

static unsigned kind_of(const void *p)
{
    return nvmm_has(p) ? *page_of(p) % KINDS : RUN;
}

// ---- slabs, with the lock ----------------------------------------------------------------

static void list(unsigned class, struct slab *s)
{
    s->prev = NULL;
    s->next = heap.open[class];
    if (s->next != NULL)
        s->next->prev = s;
    heap.open[class] = s;
    s->listed = 1;
}

static void unlist(unsigned class, struct slab *s)
{
    *(s->prev != NULL ? &s->prev->next : &heap.open[class]) = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    s->listed = 0;
}

static struct slab *make_slab(unsigned class)
{
    size_t bytes = heap.slab_bytes[class];
    void *at = nvmm_take(bytes, PAGE);
    if (at == NULL)
        return NULL;
    struct slab *s = heap.unused;
    if (s != NULL)
        heap.unused = s->next;
    else
        s = heap.slabs++;
    *s = (struct slab){.start = (uintptr_t)at, .fresh = (uintptr_t)at};
    for (size_t i = 0; i < bytes / PAGE; i++)
        page_of(at)[i] = (uintptr_t)s | class;
    list(class, s);
    return s;
}

static void *take_one(unsigned class, bool more)
{
    struct slab *s = heap.open[class];
    if (s == NULL && (!more || (s = make_slab(class)) == NULL))
        return NULL;
    void *p = s->free;
    uint32_t size = heap.size[class];
    if (p != NULL) {
        s->free = *(void **)p;
    } else {
        p = (void *)s->fresh;
        s->fresh += size;
    }
    s->used++;
    if (s->free == NULL && s->fresh + size > s->start + heap.slab_bytes[class])
        unlist(class, s);
    return p;
}

static void give_one(void *p)
{
    uint64_t page = *page_of(p);
    unsigned class = page % KINDS;
    struct slab *s = (struct slab *)(page - class);
    *(void **)p = s->free;
    s->free = p;
    if (!s->listed)
        list(class, s);
    // One slab of each class is kept for the next request.
    if (--s->used > 0 || (s->next == NULL && s->prev == NULL))
        return;
    unlist(class, s);
    size_t bytes = heap.slab_bytes[class];
    memset(page_of(p = (void *)s->start), 0, bytes / PAGE * sizeof *heap.pages);
    // If it cannot be recorded, the memory is lost, and nothing else.
    nvmm_give(p, bytes);
    s->next = heap.unused;
    heap.unused = s;
}

// ---- threads -----------------------------------------------------------------------------

static void give_cached(struct heap_bin *bin, unsigned keep)
{
    bool held = nvmm_lock(&heap.lock);
    for (; bin->count > keep; bin->count--) {
        void *p = bin->first;
        bin->first = *(void **)p;
        give_one(p);
    }
    nvmm_unlock(&heap.lock, held);
}

static void thread_ends(void *cache)
{
    (void)cache;
    // Handlers that run later may still ask for memory.
    heap_cache.state = HEAP_OVER;
    for (unsigned c = 1; c < HEAP_CLASSES; c++)
        if (heap_cache.bin[c].count > 0)
            give_cached(&heap_cache.bin[c], 0);
}

static void know_thread(void)
{
    heap_cache.state = HEAP_READY;
    pthread_setspecific(heap.key, &heap_cache);
}

// ---- blocks ------------------------------------------------------------------------------

static void *take_small(unsigned class)
{
    if (heap_cache.state == HEAP_NEW)
        know_thread();
    struct heap_bin *bin = &heap_cache.bin[class];
    void *p = bin->first;
    if (p != NULL) {
        bin->first = *(void **)p;
        bin->count--;
        return p;
    }
    bool held = nvmm_lock(&heap.lock);
    p = take_one(class, true);
    unsigned more = p == NULL || heap_cache.state == HEAP_OVER ? 0 : heap.keep[class] / 2u - 1;
    // Those for later requests do not make the heap larger.
    for (void *next; more > 0 && (next = take_one(class, false)) != NULL; more--) {
        *(void **)next = bin->first;
        bin->first = next;
        bin->count++;
    }
    nvmm_unlock(&heap.lock, held);
    return p;
}

static size_t whole_pages(size_t size)
{
    return (size + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static void *mark_mapped(void *start, size_t bytes)
{
    if (start == NULL)
        return NULL;
    struct heap_mapped *m = start;
    m->mark = (uintptr_t)(m + 1) ^ HEAP_MARK;
    m->bytes = bytes;
    return m + 1;
}

static void *take_run(size_t size, size_t alignment, bool zero)
{
    if (size >= heap.map_from && alignment <= sizeof(struct heap_mapped)) {
        size_t bytes = whole_pages(size + sizeof(struct heap_mapped));
        void *p = mark_mapped(nvmm_map(bytes), bytes);
        if (p != NULL)
            return p;
    }
    size_t bytes = whole_pages(size);
    void *p = nvmm_take(bytes, alignment < PAGE ? PAGE : alignment);
    if (p == NULL)
        return NULL;
    *page_of(p) = bytes / PAGE * KINDS | RUN;
    if (zero)
        memset(p, 0, bytes);
    return p;
}

void *heap_take(size_t size, size_t alignment, bool zero)
{
    if (size > SMALL || alignment > PAGE)
        return take_run(size, alignment, zero);
    unsigned class = class_of(size);
    // Slabs begin at pages, so the blocks of a class lie at multiples of what divides its size.
    while (heap.size[class] % alignment != 0 && class < HEAP_CLASSES - 1)
        class++;
    void *p = take_small(class);
    if (p != NULL && zero)
        memset(p, 0, size);
    return p;
}

static void give_run(void *p)
{
    if (nvmm_has(p)) {
        size_t bytes = *page_of(p) / KINDS * PAGE;
        *page_of(p) = 0;
        nvmm_give(p, bytes);
        return;
    }
    struct heap_mapped *m = heap_mapped(p);
    // As in the C library, a size that was given back once is reused from then on.
    if (m->bytes > heap.map_from && m->bytes <= MAP_FROM_MOST)
        heap.map_from = m->bytes;
    nvmm_unmap(m, m->bytes);
}

void heap_give(void *p)
{
    unsigned class = kind_of(p);
    if (class >= HEAP_CLASSES) {
        int error = errno;
        give_run(p);
        errno = error;
        return;
    }
    if (class == 0)
        nvmm_die("free of %p, which is no block", p);
    if (heap_cache.state == HEAP_NEW)
        know_thread();
    struct heap_bin *bin = &heap_cache.bin[class];
    *(void **)p = bin->first;
    bin->first = p;
    unsigned keep = heap_cache.state == HEAP_OVER ? 0 : heap.keep[class];
    if (++bin->count > keep)
        give_cached(bin, keep / 2);
}

size_t heap_size(const void *p)
{
    if (!nvmm_has(p))
        return heap_mapped(p)->bytes - sizeof(struct heap_mapped);
    uint64_t page = *page_of(p);
    unsigned class = page % KINDS;
    return class < HEAP_CLASSES ? heap.size[class] : page / KINDS * PAGE;
}

// Makes a run longer or shorter, and a mapping where it is or elsewhere; where it is then, or NULL.
static void *resize_run(void *p, size_t size)
{
    if (!nvmm_has(p)) {
        struct heap_mapped *m = heap_mapped(p);
        size_t bytes = whole_pages(size + sizeof *m);
        return bytes == m->bytes ? p : mark_mapped(nvmm_remap(m, m->bytes, bytes), bytes);
    }
    size_t old = heap_size(p), bytes = whole_pages(size);
    if (bytes > old && !nvmm_extend((char *)p + old, bytes - old))
        return NULL;
    *page_of(p) = bytes / PAGE * KINDS | RUN;
    if (bytes < old)
        nvmm_give((char *)p + bytes, old - bytes);
    return p;
}

void *heap_resize(void *p, size_t size)
{
    size_t old = heap_size(p);
    bool small = kind_of(p) < HEAP_CLASSES;
    if (small && size <= old && size > old / 2)
        return p;
    void *q = small || size <= SMALL ? NULL : resize_run(p, size);
    if (q != NULL)
        return q;
    q = heap_take(size, HEAP_UNIT, false);
    if (q != NULL) {
        memcpy(q, p, old < size ? old : size);
        heap_give(p);
    }
    return q;
}

// ---- fork --------------------------------------------------------------------------------

void heap_before_fork(void)
{
    nvmm_lock_for_fork(&heap.lock, &heap.forking);
    nvmm_before_fork();
}

void heap_after_fork_parent(void)
{
    nvmm_after_fork_parent();
    nvmm_unlock_after_fork(&heap.lock, &heap.forking);
}

void heap_after_fork_child(void)
{
    nvmm_after_fork_child();
    nvmm_unlock_after_fork(&heap.lock, &heap.forking);
}

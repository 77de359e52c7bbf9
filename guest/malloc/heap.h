// An allocator whose memory is NVMM. What it knows of its blocks is in DRAM, but for the length of those that are
// mapped by themselves; a block holds only what the program writes there, and while it is free the address of the next
// free one.
#ifndef NAGORI_MALLOC_HEAP_H
#define NAGORI_MALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmm.h"

enum {
    HEAP_UNIT = 16,       // every block is a multiple of it, and lies at one
    HEAP_TABLE = 1024,    // up to this size the class is looked up
    HEAP_CLASSES = 41,    // sizes of small blocks; 0 is none
    HEAP_PAGE = 4096,
};

// Free blocks of a class that a thread keeps for its next requests.
struct heap_bin {
    void *first;
    unsigned count;
};

// What belongs to a thread.
struct heap_cache {
    enum { HEAP_NEW, HEAP_READY, HEAP_OVER } state; // not known yet; known; ending, and keeps nothing
    struct heap_bin bin[HEAP_CLASSES];
};

#define HEAP_THREAD __thread __attribute__((tls_model("initial-exec")))
extern HEAP_THREAD struct heap_cache heap_cache;
// Class of sizes up to HEAP_TABLE, by multiples of HEAP_UNIT.
extern uint8_t heap_class[HEAP_TABLE / HEAP_UNIT + 1];

// What precedes a block that is mapped by itself, at the start of its first page.
struct heap_mapped {
    uintptr_t mark; // the block's address, changed by HEAP_MARK
    size_t bytes;   // of the mapping
    char rest[48];
};
#define HEAP_MARK 0x9d3c71e8b52f06a4u

static inline struct heap_mapped *heap_mapped(const void *p)
{
    return (struct heap_mapped *)((uintptr_t)p - sizeof(struct heap_mapped));
}

// True for a block of this allocator, and false for one of another.
static inline bool heap_has(const void *p)
{
    if (nvmm_has(p))
        return true;
    // What precedes another block in its page may be read, and is no such mark.
    return (uintptr_t)p % HEAP_PAGE == sizeof(struct heap_mapped) &&
           heap_mapped(p)->mark == ((uintptr_t)p ^ HEAP_MARK);
}

// Once, after nvmm_open.
void heap_open(void);

// A block that the thread has, of at most HEAP_TABLE bytes, or NULL.
static inline void *heap_quick(size_t size)
{
    struct heap_bin *bin = &heap_cache.bin[heap_class[(size + HEAP_UNIT - 1) / HEAP_UNIT]];
    void *p = bin->first;
    if (p != NULL) {
        bin->first = *(void **)p;
        bin->count--;
    }
    return p;
}

// `size` bytes, 1 or more, at a multiple of `alignment`, a power of two; NULL if there is no NVMM left.
void *heap_take(size_t size, size_t alignment, bool zero);

// Takes a block back.
void heap_give(void *p);

// How many bytes of a block may be used.
size_t heap_size(const void *p);

// A block with the same content and another size, or NULL, and nothing has changed.
void *heap_resize(void *p, size_t size);

// Around fork: the child gets a copy.
void heap_before_fork(void);
void heap_after_fork_parent(void);
void heap_after_fork_child(void);

#endif

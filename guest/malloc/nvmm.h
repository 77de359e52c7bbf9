// The pool of NVMM that processes share: chunks of a device, claimed one by one, at addresses
// of a reserved range.
#ifndef NAGORI_MALLOC_NVMM_H
#define NAGORI_MALLOC_NVMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/single_threaded.h>

enum { NVMM_CHUNK = 2 << 20 }; // bytes; device DAX maps in multiples of it
#define NVMM_RANGE ((size_t)64 << 30) // bytes that are reserved

// The reserved range, and where the part that was never used begins; empty until it is open.
extern struct nvmm_range {
    uintptr_t base, fresh;
} nvmm_range;

// Counts of the pool, for NAGORI_MALLOC_STATS.
struct nvmm_counts {
    uint64_t chunks;   // claimed now
    uint64_t peak;     // claimed at most
    uint64_t used;     // bytes handed out now
    uint64_t allocs;   // ranges handed out
    uint64_t frees;    // ranges taken back
    uint64_t failures; // requests that found no NVMM
};

// Opens the device of NAGORI_MALLOC_DEVICE (NULL: the first existing one of /dev/dax0.0 and
// /dev/mem); ends the process with a message if it cannot be used.
void nvmm_open(const char *device);

// Where it is, for messages.
const char *nvmm_name(void);

// `size` bytes, a multiple of the page size, at a multiple of `alignment`, or NULL.
void *nvmm_take(size_t size, size_t alignment);

// Adds `size` bytes that begin where an allocation ends; false if they are not free.
bool nvmm_extend(void *end, size_t size);

// New pages of a node, all zero, outside the range, as a mapping of their own; NULL if the memory is a device's. All
// sizes are multiples of the page size.
void *nvmm_map(size_t size);

// Makes such a mapping longer or shorter and returns where its pages are then, or NULL, and nothing has changed.
void *nvmm_remap(void *address, size_t old, size_t size);

// Returns such a mapping.
void nvmm_unmap(void *address, size_t size);

// Returns part of an allocation; false if there is no room to record it.
bool nvmm_give(void *address, size_t size);

// True for an address of the reserved range.
static inline bool nvmm_has(const void *address)
{
    return (uintptr_t)address - nvmm_range.base < nvmm_range.fresh - nvmm_range.base;
}

// A table in DRAM, all zero, of which only what is used takes memory.
void *nvmm_table(size_t bytes);

struct nvmm_counts nvmm_counts(void);

// Around fork: the child gets a copy.
void nvmm_before_fork(void);
void nvmm_after_fork_parent(void);
void nvmm_after_fork_child(void);

// Takes a lock, unless the process has one thread only, and returns whether it did: no thread can come while the only
// one is here.
static inline bool nvmm_lock(pthread_mutex_t *lock)
{
    return !__libc_single_threaded && pthread_mutex_lock(lock) == 0;
}

static inline void nvmm_unlock(pthread_mutex_t *lock, bool held)
{
    if (held)
        pthread_mutex_unlock(lock);
}

// As nvmm_lock, for a lock that is held across fork; `held` is protected by the lock. With one thread nothing is
// written, and neither parent nor child has to copy the page.
static inline void nvmm_lock_for_fork(pthread_mutex_t *lock, bool *held)
{
    if (nvmm_lock(lock))
        *held = true;
}

static inline void nvmm_unlock_after_fork(pthread_mutex_t *lock, bool *held)
{
    if (!*held)
        return;
    *held = false;
    pthread_mutex_unlock(lock);
}

// Ends the process with a message, without allocating.
_Noreturn void nvmm_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A message, without allocating.
void nvmm_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

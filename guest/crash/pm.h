// How the programs of the corpus use NVMM: every store, load, flush and fence goes through here, so that the same code
// runs on a machine and, with CRASH_HOST, on the host, where each of them is recorded.
//
// Flushes and fences have numbers. The one with the number `drop` does nothing; the one with the number `move` comes
// too late: a flush after the next fence, a fence before the next numbered flush or fence, that is, after the stores in
// between.
#ifndef CRASH_PM_H
#define CRASH_PM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PM_LINE = 64,
    PM_BYTES = 32 << 10, // of NVMM that a structure uses
    PM_FAILED = 3,       // exit code of a check that found something wrong
};

struct recorder;

struct pm {
    unsigned char *base;
    unsigned drop, move; // 0: none
    unsigned ops;        // operations of the workload
    // What `move` holds back.
    const void *late_flush;
    size_t late_bytes;
    bool late_fence;
    uint64_t digest; // of what was said
    bool quiet;
    bool cbo; // flush by cbo.flush, which has to be allowed to user programs
#ifdef CRASH_HOST
    struct recorder *rec;
    jmp_buf end;
    const char *why;
    const char *file;
#endif
};

// A structure of the corpus. All of its state is in NVMM; `workload` may keep what follows from it.
struct structure {
    const char *name;
    unsigned ops; // of the workload, unless something else is asked for
    void (*setup)(struct pm *pm);
    void (*workload)(struct pm *pm);
    void (*recover)(struct pm *pm);
    void (*check)(struct pm *pm); // says the content; fails if it is damaged
};

extern const struct structure ring, hash, btree, alloc;
extern const struct structure text; // on the host only

#ifdef CRASH_HOST
void pm_store(struct pm *pm, void *to, const void *from, size_t bytes, const char *file, int line);
const void *pm_load(struct pm *pm, const void *from, size_t bytes);
void pm_flush_now(struct pm *pm, const void *at, size_t bytes, const char *file, int line);
void pm_fence_now(struct pm *pm, const char *file, int line);
void pm_done(struct pm *pm, const char *file, int line);
// Records as stores of eight bytes what has changed since the last call, by code that does not use ST.
void pm_notice(struct pm *pm, const char *file, int line);
_Noreturn void pm_fail(struct pm *pm, const char *why);
void pm_say(struct pm *pm, const char *what, uint64_t value);
#else
#include "nagori.h"
#include "nagori_mark.h"

static inline const void *pm_load(struct pm *pm, const void *from, size_t bytes)
{
    (void)pm, (void)bytes;
    return from;
}

static inline void pm_flush_now(struct pm *pm, const void *at, size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    uintptr_t end = (uintptr_t)at + bytes;
    for (uintptr_t p = (uintptr_t)at & -(uintptr_t)PM_LINE; p < end; p += PM_LINE) {
        if (pm->cbo)
            nagori_cbo_flush((void *)p);
        else
            nagori_cflush_line((void *)p);
    }
}

static inline void pm_fence_now(struct pm *pm, const char *file, int line)
{
    (void)pm, (void)file, (void)line;
    nagori_fence();
}

static inline void pm_done(struct pm *pm, const char *file, int line)
{
    (void)pm, (void)file, (void)line;
    nagori_mark(NAGORI_MARK_LABEL, nagori_text("op"));
}

static inline void pm_say(struct pm *pm, const char *what, uint64_t value)
{
    if (!pm->quiet)
        printf("%s %llu\n", what, (unsigned long long)value);
}

_Noreturn static inline void pm_fail(struct pm *pm, const char *why)
{
    (void)pm;
    printf("damaged: %s\n", why);
    exit(PM_FAILED);
}
#endif

// A store of one scalar.
#ifdef CRASH_HOST
#define ST(place, value)                                                               \
    do {                                                                               \
        __typeof__(place) pm_value = (value);                                          \
        pm_store(pm, &(place), &pm_value, sizeof pm_value, __FILE__, __LINE__);        \
    } while (0)
#else
#define ST(place, value)                                                               \
    do {                                                                               \
        (void)pm;                                                                      \
        *(volatile __typeof__(place) *)&(place) = (value);                             \
    } while (0)
#endif
// A load of one scalar.
#define LD(place) (*(const volatile __typeof__(place) *)pm_load(pm, &(place), sizeof(place)))

static inline void pm_flush(struct pm *pm, unsigned number, const void *at, size_t bytes, const char *file,
                            int line)
{
    if (pm->late_fence) {
        pm->late_fence = false;
        pm_fence_now(pm, file, line);
    }
    if (number != 0 && number == pm->drop)
        return;
    if (number != 0 && number == pm->move) {
        pm->late_flush = at;
        pm->late_bytes = bytes;
        return;
    }
    pm_flush_now(pm, at, bytes, file, line);
}

static inline void pm_fence(struct pm *pm, unsigned number, const char *file, int line)
{
    if (pm->late_fence) {
        pm->late_fence = false;
        pm_fence_now(pm, file, line);
    }
    if (number != 0 && number == pm->move)
        pm->late_fence = true;
    else if (number == 0 || number != pm->drop)
        pm_fence_now(pm, file, line);
    if (pm->late_flush != NULL) {
        pm_flush_now(pm, pm->late_flush, pm->late_bytes, file, line);
        pm->late_flush = NULL;
    }
}

// Number 0: cannot be dropped or moved.
#define FLUSH(number, at, bytes) pm_flush(pm, number, at, bytes, __FILE__, __LINE__)
#define FENCE(number) pm_fence(pm, number, __FILE__, __LINE__)
// An operation is done: from here on its result has to last.
#define DONE() pm_done(pm, __FILE__, __LINE__)

// A value that depends on both arguments.
static inline uint64_t pm_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu + 1;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 27;
}

#endif

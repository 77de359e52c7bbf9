// What is used of jemalloc 5.3's interface, as its manual page describes it; Debian's header is
// for the target's development package, which the host does not have.
#ifndef NAGORI_JEMALLOC_H
#define NAGORI_JEMALLOC_H

#include <stdbool.h>
#include <stddef.h>

#define MALLOCX_ALIGN(a) __builtin_ctzl(a)
#define MALLOCX_ZERO 0x40
#define MALLOCX_TCACHE(index) ((int)(((index) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(index) ((int)(((index) + 1) << 20))

typedef struct extent_hooks_s extent_hooks_t;

typedef void *extent_alloc_t(extent_hooks_t *, void *, size_t, size_t, bool *, bool *, unsigned);
typedef bool extent_dalloc_t(extent_hooks_t *, void *, size_t, bool, unsigned);
typedef void extent_destroy_t(extent_hooks_t *, void *, size_t, bool, unsigned);
typedef bool extent_part_t(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
typedef bool extent_split_t(extent_hooks_t *, void *, size_t, size_t, size_t, bool, unsigned);
typedef bool extent_merge_t(extent_hooks_t *, void *, size_t, void *, size_t, bool, unsigned);

struct extent_hooks_s {
    extent_alloc_t *alloc;
    extent_dalloc_t *dalloc;
    extent_destroy_t *destroy;
    extent_part_t *commit;
    extent_part_t *decommit;
    extent_part_t *purge_lazy;
    extent_part_t *purge_forced;
    extent_split_t *split;
    extent_merge_t *merge;
};

typedef struct {
    extent_hooks_t *extent_hooks;
    bool metadata_use_hooks;
} arena_config_t;

void *mallocx(size_t size, int flags);
void *rallocx(void *p, size_t size, int flags);
void dallocx(void *p, int flags);
size_t sallocx(const void *p, int flags);
int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

#endif

/* Records what a program compiled with -fsanitize=thread reads and writes.
 *
 * The compiler calls a hook before every access; these hooks take the place of
 * the sanitizer's library. Accesses pass a first and a second cache (LRU,
 * write-back, write-allocate); what misses both goes to the trace: a READ for
 * each line fetched, a WRITE for each dirty line that leaves the second one.
 * Pages get frames in the order of their first use, so that the trace does not
 * depend on where the system puts things. The time column counts accesses.
 *
 * Environment: TRACE_FILE (required), TRACE_LIMIT (requests; 0: no limit).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 6, PAGE = 12, WAYS = 8, L1_SETS = 64, L2_SETS = 512, TABLE = 1 << 20 };

struct way {
    uint64_t line; /* number plus one; 0: empty */
    uint64_t used;
    int dirty;
};

static struct way l1[L1_SETS][WAYS], l2[L2_SETS][WAYS];
static uint64_t pages[TABLE], frames[TABLE], next_frame, clock_, requests, limit;
static FILE *out;
static int active;

static void stop(const char *why)
{
    fprintf(stderr, "real-trace: %s\n", why);
    _Exit(1);
}

static void finish(void)
{
    if (!active)
        return;
    active = 0;
    int failed = ferror(out);
    if (fclose(out) != 0 || failed)
        stop("the trace could not be written");
    fprintf(stderr, "real-trace: %llu requests, %llu accesses, %llu pages\n",
            (unsigned long long)requests, (unsigned long long)clock_,
            (unsigned long long)next_frame);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TRACE_FILE"), *most = getenv("TRACE_LIMIT");
    if (!path || !(out = fopen(path, "w")))
        stop("TRACE_FILE cannot be opened");
    limit = most ? strtoull(most, NULL, 10) : 0;
    atexit(finish);
    active = 1;
}

static uint64_t frame(uint64_t page)
{
    uint64_t i = page * 0x9e3779b97f4a7c15u >> 44;
    while (pages[i] && pages[i] != page + 1)
        i = (i + 1) % TABLE;
    if (!pages[i]) {
        if (next_frame == TABLE / 2)
            stop("more pages than expected");
        pages[i] = page + 1;
        frames[i] = next_frame++;
    }
    return frames[i];
}

static void emit(uint64_t line, const char *what)
{
    if (fprintf(out, "0x%llx %s %llu\n", (unsigned long long)(line << LINE), what,
                (unsigned long long)clock_) < 0)
        stop("the trace could not be written");
    if (++requests == limit) {
        finish();
        _Exit(0);
    }
}

/* Finds or brings a line in; `left` gets a dirty line that had to go, plus one. */
static int look(struct way *set, uint64_t line, int write, uint64_t *left)
{
    struct way *old = set;
    *left = 0;
    for (struct way *w = set; w < set + WAYS; w++) {
        if (w->line == line + 1) {
            w->used = clock_;
            w->dirty |= write;
            return 1;
        }
        if (w->used < old->used)
            old = w;
    }
    if (old->line && old->dirty)
        *left = old->line;
    *old = (struct way){line + 1, clock_, write};
    return 0;
}

static void second(uint64_t line, int write)
{
    uint64_t left;
    if (look(l2[line % L2_SETS], line, write, &left))
        return;
    /* A whole line from above needs no fetch. */
    if (!write)
        emit(line, "READ");
    if (left)
        emit(left - 1, "WRITE");
}

static void access_(const void *p, uint64_t size, int write)
{
    if (!active || !size)
        return;
    uint64_t a = (uint64_t)(uintptr_t)p;
    for (uint64_t v = a >> LINE; v <= (a + size - 1) >> LINE; v++) {
        clock_++;
        uint64_t line = frame(v >> (PAGE - LINE)) << (PAGE - LINE) | (v & 63), left;
        if (look(l1[line % L1_SETS], line, write, &left))
            continue;
        if (left)
            second(left - 1, 1);
        second(line, 0);
    }
}

#define HOOK(n)                                                        \
    void __tsan_read##n(void *p) { access_(p, n, 0); }                 \
    void __tsan_write##n(void *p) { access_(p, n, 1); }                \
    void __tsan_unaligned_read##n(void *p) { access_(p, n, 0); }       \
    void __tsan_unaligned_write##n(void *p) { access_(p, n, 1); }
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
void __tsan_read_range(void *p, uint64_t n) { access_(p, n, 0); }
void __tsan_write_range(void *p, uint64_t n) { access_(p, n, 1); }
void __tsan_init(void) {}
void __tsan_func_entry(void *p) { (void)p; }
void __tsan_func_exit(void) {}

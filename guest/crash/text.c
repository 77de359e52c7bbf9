// The text store (guest/off2f/store.c), on the host only. Its code has flushes and fences of its own: the flush with
// the number N of store.h is N here, the fence is 10 + N.
//
// Its stores are seen by comparing NVMM with what it was at the last flush or fence. That is enough, since in between
// they have no order. Of its loads, those of the header, of commit words and of what is hashed are told: it uses
// nothing else before a checksum was right. The directory is small, and texts are zero but for a few words, so that few
// lines are undecided.

#include "pm.h"

#define STORE_FLUSH(number, at, bytes) text_flush(number, at, bytes, __FILE__, __LINE__)
#define STORE_FENCE(number) text_fence(number, __FILE__, __LINE__)
#include "../off2f/store.h"

// One page, and the texts behind it.
#define OFF2F_SLOTS 16
#define OFF2F_DATA 8192

static struct pm *text_pm;

static void text_flush(unsigned number, const void *at, size_t bytes, const char *file, int line)
{
    pm_notice(text_pm, file, line);
    pm_flush(text_pm, number, at, bytes, file, line);
}

static void text_fence(unsigned number, const char *file, int line)
{
    pm_notice(text_pm, file, line);
    pm_fence(text_pm, 10 + number, file, line);
    // A format is two operations: there is no store any more, and there is an empty one.
    if (number == STORE_FORMAT_OLD)
        pm_done(text_pm, file, line);
}

#define xxh64 hash_of_bytes
#include "../off2f/xxh64.h"
#undef xxh64

static uint64_t text_hash(const void *at, size_t bytes)
{
    const unsigned char *p = at;
    if (p >= text_pm->base && p < text_pm->base + PM_BYTES)
        pm_load(text_pm, at, bytes);
    return hash_of_bytes(at, bytes);
}

#define xxh64 text_hash
#include "../off2f/store.c"

enum {
    NAMES = 3,
    PAGE_WORDS = OFF2F_PAGE / 8,
};

static struct store text_store(struct pm *pm)
{
    text_pm = pm;
    return (struct store){.base = (char *)pm->base, .bytes = PM_BYTES};
}

static void must(struct pm *pm, int error)
{
    if (error != 0)
        pm_fail(pm, store_error());
}

static void put(struct pm *pm, const char *name, unsigned version)
{
    struct store s = text_store(pm);
    uint64_t page[PAGE_WORDS] = {0};
    page[0] = pm_mix(version, 0);
    page[PAGE_WORDS / 2] = pm_mix(version, 1);
    page[PAGE_WORDS - 1] = pm_mix(version, 2);
    struct off2f_text header = {
        .pages = 1,
        .id.len = 1,
        .checksum = hash_of_bytes(page, sizeof page),
    };
    must(pm, store_put(&s, &(struct store_text){.name = name, .header = &header, .pages = page}));
}

// NVMM has an old store, of whose texts none may be left without the other one, or come back.
static void setup(struct pm *pm)
{
    struct store s = text_store(pm);
    must(pm, store_format(&s));
    put(pm, "old", 1000);
    put(pm, "too", 1001);
}

static void workload(struct pm *pm)
{
    struct store s = text_store(pm);
    must(pm, store_format(&s));
    DONE();
    for (unsigned i = 0; i + 1 < pm->ops; i++) {
        char name[] = {(char)('a' + (i + i / 4) % NAMES), '\0'};
        if (i % 4 != 2)
            put(pm, name, i);
        else if (store_remove(&s, name) != 0)
            continue;
        DONE();
    }
}

static void read_commit_words(struct pm *pm)
{
    for (unsigned i = 0; i < OFF2F_SLOTS; i++)
        pm_load(pm, pm->base + OFF2F_DIRECTORY + i * sizeof(struct off2f_record), sizeof(uint64_t));
}

static bool there_is_a_store(struct pm *pm, const struct store *s)
{
    pm_load(pm, s->base, sizeof(struct off2f_store));
    return store_check(s) == 0;
}

static void fsck(struct pm *pm, bool repair)
{
    static FILE *nowhere;
    struct store s = text_store(pm);
    if (nowhere == NULL)
        nowhere = fopen("/dev/null", "w");
    if (!there_is_a_store(pm, &s))
        return;
    read_commit_words(pm);
    must(pm, store_fsck(&s, repair, nowhere));
}

static void recover(struct pm *pm)
{
    fsck(pm, true);
}

static void show(const struct off2f_record *r)
{
    pm_say(text_pm, r->name, r->checksum);
}

static void check(struct pm *pm)
{
    struct store s = text_store(pm);
    if (!there_is_a_store(pm, &s)) {
        pm_say(pm, "no store", 0);
        return;
    }
    fsck(pm, false);
    must(pm, store_list(&s, show));
}

const struct structure text = {"text", 12, setup, workload, recover, check};

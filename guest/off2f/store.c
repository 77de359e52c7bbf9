// The order of every change is: new data where nothing refers to them, a fence, the word by which they
// count, a fence. So a reader finds the state before the change, or the one behind it.

#include "store.h"

#include <errno.h>
#include <stdarg.h>

#include "xxh64.h"

enum { LINE = 64 };

static char error_text[256];

const char *store_error(void)
{
    return error_text;
}

static int fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(int error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(error_text, sizeof error_text, format, list);
    va_end(list);
    return error;
}

void store_flush(const struct store *s, const void *address, size_t bytes)
{
    if (s->flush && s->flush(s->context, (uint64_t)((const char *)address - s->base), bytes))
        return;
#ifdef __riscv
    uintptr_t end = (uintptr_t)address + bytes;
    for (uintptr_t line = (uintptr_t)address & -(uintptr_t)LINE; line < end; line += LINE)
        // CFLUSH.D.L1, which programs may use (docs/cache-control.md).
        __asm__ volatile(".insn i 0x73, 0, x0, %0, -0x340" : : "r"(line) : "memory");
#else
    (void)address;
    (void)bytes;
#endif
}

void store_fence(void)
{
#ifdef __riscv
    __asm__ volatile("fence rw, rw" : : : "memory");
#endif
}

static struct off2f_record *record(const struct store *s, unsigned slot)
{
    return (struct off2f_record *)(s->base + OFF2F_DIRECTORY) + slot;
}

// The value of a record's commit word.
static uint64_t commit_of(const struct off2f_record *r)
{
    uint64_t sum = xxh64((const char *)r + sizeof r->commit, sizeof *r - sizeof r->commit);
    return sum == 0 ? 1 : sum;
}

// Whether a record counts.
static bool counts(const struct store *s, const struct off2f_record *r)
{
    uint64_t most = s->bytes / OFF2F_PAGE;
    return r->commit != 0 && r->commit == commit_of(r) && r->pages > 0 && r->pages <= most &&
           r->offset % OFF2F_PAGE == 0 && r->offset >= OFF2F_DATA &&
           r->offset / OFF2F_PAGE <= most - r->pages && r->name[OFF2F_NAME - 1] == 0 &&
           r->id.len >= 1 && r->id.len <= OFF2F_ID;
}

// The compiler may neither split nor move it.
static void store_word(uint64_t *at, uint64_t value)
{
    *(volatile uint64_t *)at = value;
}

int store_check(const struct store *s)
{
    const struct off2f_store *h = (const struct off2f_store *)s->base;
    if (s->bytes < OFF2F_DATA + OFF2F_PAGE)
        return fail(EINVAL, "%llu bytes are too few for a store", (unsigned long long)s->bytes);
    if (memcmp(h->magic, OFF2F_STORE_MAGIC, 8) != 0)
        return fail(EUCLEAN, "there is no text store; `off2f format` makes one");
    if (h->checksum != xxh64(h, offsetof(struct off2f_store, checksum)))
        return fail(EUCLEAN, "the checksum of the store's header is wrong");
    if (h->version != OFF2F_VERSION || h->slots != OFF2F_SLOTS)
        return fail(EUCLEAN, "version %u of the store is not known", h->version);
    if (h->bytes != s->bytes)
        return fail(EUCLEAN, "the store was made for %llu bytes, here are %llu",
                    (unsigned long long)h->bytes, (unsigned long long)s->bytes);
    return 0;
}

int store_format(struct store *s)
{
    struct off2f_store h = {.version = OFF2F_VERSION, .slots = OFF2F_SLOTS, .bytes = s->bytes};
    if (s->bytes < OFF2F_DATA + OFF2F_PAGE)
        return fail(EINVAL, "%llu bytes are too few for a store", (unsigned long long)s->bytes);
    if (s->in_use && s->in_use(s->context, 0, s->bytes))
        return fail(EBUSY, "processes run texts of the store");
    // Otherwise a part of an old directory would count while it goes.
    memset(s->base, 0, sizeof h);
    STORE_FLUSH(STORE_FORMAT_OLD, s->base, sizeof h);
    STORE_FENCE(STORE_FORMAT_OLD);
    memset(s->base, 0, OFF2F_DATA);
    STORE_FLUSH(STORE_FORMAT_EMPTY, s->base, OFF2F_DATA);
    STORE_FENCE(STORE_FORMAT_EMPTY);
    memcpy(h.magic, OFF2F_STORE_MAGIC, 8);
    h.checksum = xxh64(&h, offsetof(struct off2f_store, checksum));
    memcpy(s->base, &h, sizeof h);
    STORE_FLUSH(STORE_FORMAT_HEADER, s->base, sizeof h);
    STORE_FENCE(STORE_FORMAT_HEADER);
    return 0;
}

// The newest record of a name, or the one with this number's successor; NULL if there is none.
static struct off2f_record *find(const struct store *s, const char *name)
{
    struct off2f_record *newest = NULL;
    for (unsigned i = 0; i < OFF2F_SLOTS; i++) {
        struct off2f_record *r = record(s, i);
        if (counts(s, r) && strcmp(r->name, name) == 0 &&
            (!newest || r->sequence > newest->sequence))
            newest = r;
    }
    return newest;
}

// Whether a range is free; otherwise `next` is where the search may go on.
static bool is_free(const struct store *s, uint64_t at, uint64_t bytes, uint64_t *next)
{
    for (unsigned i = 0; i < OFF2F_SLOTS; i++) {
        const struct off2f_record *r = record(s, i);
        if (!counts(s, r))
            continue;
        uint64_t end = r->offset + r->pages * OFF2F_PAGE;
        if (r->offset < at + bytes && at < end) {
            *next = end;
            return false;
        }
    }
    *next = at + OFF2F_PAGE;
    // What was removed may still be mapped.
    return !s->in_use || !s->in_use(s->context, at, bytes);
}

// The first free place, at distance `phase` from a multiple of `step`; 0 if there is none.
static uint64_t place_for(const struct store *s, uint64_t bytes, uint64_t step, uint64_t phase)
{
    uint64_t at = OFF2F_DATA;
    while (true) {
        at += (phase - at) & (step - 1);
        if (bytes > s->bytes || at > s->bytes - bytes)
            return 0;
        uint64_t next;
        if (is_free(s, at, bytes, &next))
            return at;
        at = next;
    }
}

static void drop(struct store *s, struct off2f_record *r)
{
    (void)s;
    store_word(&r->commit, 0);
    STORE_FLUSH(STORE_REMOVE, r, sizeof r->commit);
    STORE_FENCE(STORE_REMOVE);
}

int store_put(struct store *s, const struct store_text *t)
{
    struct off2f_record new = {
        .sequence = 1,
        .pages = t->header->pages,
        .vaddr = t->header->vaddr,
        .checksum = t->header->checksum,
        .id = t->header->id,
    };
    struct off2f_record *slot = NULL, *old;
    uint64_t bytes = new.pages * OFF2F_PAGE;
    int error = store_check(s);
    if (error != 0)
        return error;
    if (strlen(t->name) >= OFF2F_NAME || t->name[0] == 0)
        return fail(ENAMETOOLONG, "a name has 1 to %d bytes", OFF2F_NAME - 1);
    strcpy(new.name, t->name);
    for (unsigned i = 0; i < OFF2F_SLOTS; i++) {
        struct off2f_record *r = record(s, i);
        if (!slot && r->commit == 0)
            slot = r;
        if (counts(s, r) && r->sequence >= new.sequence)
            new.sequence = r->sequence + 1;
    }
    if (!slot)
        return fail(ENOSPC, "all %d records of the directory are in use", OFF2F_SLOTS);
    // A large text lies as its addresses do, so that huge pages can map it.
    new.offset = 0;
    if (bytes >= OFF2F_HUGE)
        new.offset = place_for(s, bytes, OFF2F_HUGE, new.vaddr % OFF2F_HUGE);
    if (new.offset == 0)
        new.offset = place_for(s, bytes, OFF2F_PAGE, 0);
    if (new.offset == 0)
        return fail(ENOSPC, "no %llu free bytes in one piece", (unsigned long long)bytes);

    memcpy(s->base + new.offset, t->pages, bytes);
    STORE_FLUSH(STORE_PUT_TEXT, s->base + new.offset, bytes);
    // The next fence waits for this, too: until then no record counts.
    memcpy(&slot->sequence, &new.sequence, sizeof new - sizeof new.commit);
    STORE_FLUSH(STORE_PUT_RECORD, slot, sizeof *slot);
    STORE_FENCE(STORE_PUT_RECORD);
    old = find(s, t->name);
    store_word(&slot->commit, commit_of(&new));
    STORE_FLUSH(STORE_PUT_COMMIT, slot, sizeof slot->commit);
    STORE_FENCE(STORE_PUT_COMMIT);
    if (old)
        drop(s, old);
    return 0;
}

int store_remove(struct store *s, const char *name)
{
    struct off2f_record *r;
    int error = store_check(s), found = 0;
    if (error != 0)
        return error;
    // After a cut within a replacement there are two; the older one must not come back.
    while ((r = find(s, name)) != NULL) {
        struct off2f_record *oldest = r;
        for (unsigned i = 0; i < OFF2F_SLOTS; i++) {
            struct off2f_record *other = record(s, i);
            if (counts(s, other) && strcmp(other->name, name) == 0 &&
                other->sequence < oldest->sequence)
                oldest = other;
        }
        drop(s, oldest);
        found++;
    }
    return found > 0 ? 0 : fail(ENOENT, "no text `%s`", name);
}

int store_list(const struct store *s, void (*show)(const struct off2f_record *))
{
    int error = store_check(s);
    for (unsigned i = 0; i < OFF2F_SLOTS && error == 0; i++) {
        const struct off2f_record *r = record(s, i);
        if (counts(s, r) && find(s, r->name) == r)
            show(r);
    }
    return error;
}

// What is wrong with a record, or NULL.
static const char *wrong(const struct store *s, unsigned slot)
{
    const struct off2f_record *r = record(s, slot);
    if (r->commit == 0)
        return NULL;
    if (!counts(s, r))
        return "its checksum or a field is wrong";
    if (find(s, r->name) != r)
        return "it was replaced, and not removed";
    if (xxh64(s->base + r->offset, r->pages * OFF2F_PAGE) != r->checksum)
        return "the checksum of its text is wrong";
    for (unsigned i = 0; i < slot; i++) {
        const struct off2f_record *o = record(s, i);
        if (counts(s, o) && o->offset < r->offset + r->pages * OFF2F_PAGE &&
            r->offset < o->offset + o->pages * OFF2F_PAGE)
            return "its text overlaps that of another record";
    }
    return NULL;
}

int store_fsck(struct store *s, bool repair, FILE *out)
{
    unsigned left = 0, good = 0;
    int error = store_check(s);
    if (error != 0)
        return error;
    for (unsigned i = 0; i < OFF2F_SLOTS; i++) {
        const char *what = wrong(s, i);
        if (!what) {
            good += record(s, i)->commit != 0;
            continue;
        }
        fprintf(out, "record %u: %s%s\n", i, what, repair ? "; removed" : "");
        if (repair)
            drop(s, record(s, i));
        else
            left++;
    }
    fprintf(out, "off2f: texts=%u wrong=%u\n", good, left);
    return left == 0 ? 0 : fail(EUCLEAN, "%u records are wrong", left);
}

int store_text_check(const void *file, size_t bytes)
{
    const struct off2f_text *h = file;
    uint64_t sum;
    if (bytes < OFF2F_PAGE || memcmp(h->magic, OFF2F_TEXT_MAGIC, 8) != 0)
        return fail(EBADMSG, "it is no PROG.text");
    if (h->version != OFF2F_VERSION)
        return fail(EBADMSG, "version %u of the format is not known", h->version);
    memcpy(&sum, (const char *)file + OFF2F_SUM_AT, 8);
    if (sum != xxh64(file, OFF2F_SUM_AT) || h->id.len < 1 || h->id.len > OFF2F_ID)
        return fail(EBADMSG, "its header is damaged");
    if (h->pages == 0 || h->pages != bytes / OFF2F_PAGE - 1 || bytes % OFF2F_PAGE != 0)
        return fail(EBADMSG, "it does not have the %llu pages that its header says",
                    (unsigned long long)h->pages);
    if (xxh64((const char *)file + OFF2F_PAGE, h->pages * OFF2F_PAGE) != h->checksum)
        return fail(EBADMSG, "the checksum of its text is wrong");
    return 0;
}

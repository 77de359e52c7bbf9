// The text store: texts of programs on NVMM that no kernel manages, with a directory that is right at
// every moment, whatever a power cut leaves of stores that were not flushed.
//
// The functions work on any memory, so that a tester can run them on a buffer. They return 0, or an
// errno value; `store_error()` says more.
#ifndef OFF2F_STORE_H
#define OFF2F_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "layout.h"

// Every flush and fence has a number of its own, so that a tester can leave out or move each of them. Where they are
// used, `s` is the store.
#ifndef STORE_FLUSH
#define STORE_FLUSH(number, address, bytes) store_flush(s, address, bytes)
#endif
#ifndef STORE_FENCE
#define STORE_FENCE(number) store_fence()
#endif

// In the order in which a change performs them.
enum {
    STORE_FORMAT_OLD = 1,    // the header, removed: there is no store
    STORE_FORMAT_EMPTY = 2,  // the directory, empty
    STORE_FORMAT_HEADER = 3, // the header
    STORE_PUT_TEXT = 4,      // the pages, where nothing refers to them; without a fence of its own
    STORE_PUT_RECORD = 5,    // the record without its commit word
    STORE_PUT_COMMIT = 6,    // the commit word: from here on the text is there
    STORE_REMOVE = 7,        // the commit word of a record that no longer counts
};

struct store {
    char *base;
    uint64_t bytes;
    // Whether a range of the store is mapped by some process, and must not be written; may be NULL.
    bool (*in_use)(void *context, uint64_t offset, uint64_t bytes);
    // Writes a range back through all caches, and returns whether it could; may be NULL. Otherwise CFLUSH.D.L1 writes
    // it back from the L1 data cache of this hart.
    bool (*flush)(void *context, uint64_t offset, uint64_t bytes);
    void *context;
};

// What a put adds.
struct store_text {
    const char *name; // at most 127 bytes
    const struct off2f_text *header;
    const void *pages; // header->pages of them
};

void store_flush(const struct store *s, const void *address, size_t bytes);
void store_fence(void);
// Why the last function failed.
const char *store_error(void);

// Makes an empty store; what was there is lost.
int store_format(struct store *s);
// Checks the header. Returns EUCLEAN if there is no store.
int store_check(const struct store *s);
// Puts a text. One with the same name is replaced, once the new one is there.
int store_put(struct store *s, const struct store_text *text);
// Removes a text. Processes that have mapped it run on, and its pages are not used until they end.
int store_remove(struct store *s, const char *name);
// Calls `show` for each text.
int store_list(const struct store *s, void (*show)(const struct off2f_record *));
// Checks everything, also the texts' checksums, and says on `out` what is wrong. With `repair`, removes
// records that are wrong. Returns EUCLEAN if something is wrong and was left so.
int store_fsck(struct store *s, bool repair, FILE *out);
// Checks PROG.text: `bytes` of a file. Returns EBADMSG if it is not one, or damaged.
int store_text_check(const void *file, size_t bytes);

#endif

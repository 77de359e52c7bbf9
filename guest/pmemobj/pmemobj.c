// pmemobj COMMAND POOL [TRANSACTIONS] [without-snapshot]: transactions of PMDK's libpmemobj, to try `nagori crash`
// with.
//
//   setup      makes a pool
//   workload   runs TRANSACTIONS transactions (default 5); each sets two counters that are far apart, and puts a node
//              into a list
//   recover    opens the pool, which undoes or completes what was under way
//   check      prints counters and list; exit code 1 if they contradict each other
//
// `without-snapshot` leaves out that the second counter belongs to the transaction: a bug that shows after a crash
// only.
//
// The library is loaded when the program runs, and declared here as its manual pages have it: so the program is
// compiled without PMDK.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nagori_mark.h"

typedef struct {
    uint64_t pool, offset;
} oid;

struct node {
    uint64_t value;
    oid next;
};

struct root {
    uint64_t first, pad[511], second;
    oid list;
};

enum { POOL_BYTES = 8 << 20 };

static void *library;

static void *function(const char *name)
{
    void *f = dlsym(library, name);
    if (f == NULL) {
        fprintf(stderr, "pmemobj: %s\n", dlerror());
        exit(2);
    }
    return f;
}

#define CALL(result, name, ...) ((result(*)(__VA_ARGS__))function(#name))

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "pmemobj: %s: %s\n", what, CALL(const char *, pmemobj_errormsg, void)());
    exit(1);
}

static struct root *root(void *pool)
{
    oid o = CALL(oid, pmemobj_root, void *, size_t)(pool, sizeof(struct root));
    struct root *r = CALL(void *, pmemobj_direct, oid)(o);
    if (r == NULL)
        fail("no root object");
    return r;
}

static void add(const void *p, size_t size)
{
    if (CALL(int, pmemobj_tx_add_range_direct, const void *, size_t)(p, size) != 0)
        fail("pmemobj_tx_add_range_direct");
}

static void transaction(void *pool, struct root *r, bool whole)
{
    // No place to jump to when it is aborted, and no parameters.
    if (CALL(int, pmemobj_tx_begin, void *, void *, ...)(pool, NULL, 0) != 0)
        fail("pmemobj_tx_begin");
    add(&r->first, sizeof r->first);
    r->first++;
    if (whole)
        add(&r->second, sizeof r->second);
    r->second++;
    oid o = CALL(oid, pmemobj_tx_alloc, size_t, uint64_t)(sizeof(struct node), 1);
    struct node *n = CALL(void *, pmemobj_direct, oid)(o);
    if (n == NULL)
        fail("pmemobj_tx_alloc");
    n->value = r->first;
    n->next = r->list;
    add(&r->list, sizeof r->list);
    r->list = o;
    CALL(void, pmemobj_tx_commit, void)();
    if (CALL(int, pmemobj_tx_end, void)() != 0)
        fail("pmemobj_tx_end");
    nagori_label(r->first);
}

static int check(struct root *r)
{
    uint64_t expected = r->first, length = 0;
    bool right = r->first == r->second;
    for (oid o = r->list; o.offset != 0 && length <= r->first; length++) {
        struct node *n = CALL(void *, pmemobj_direct, oid)(o);
        right &= n->value == expected--;
        o = n->next;
    }
    printf("first %lu, second %lu, nodes %lu\n", (unsigned long)r->first, (unsigned long)r->second,
           (unsigned long)length);
    return right && length == r->first ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: pmemobj setup|workload|recover|check POOL [TRANSACTIONS] [without-snapshot]\n");
        return 2;
    }
    const char *command = argv[1], *path = argv[2];
    unsigned long transactions = argc > 3 ? strtoul(argv[3], NULL, 0) : 5;
    bool whole = argc < 5 || strcmp(argv[4], "without-snapshot") != 0;
    library = dlopen("libpmemobj.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "pmemobj: %s\n", dlerror());
        return 2;
    }
    void *pool;
    if (strcmp(command, "setup") == 0)
        pool = CALL(void *, pmemobj_create, const char *, const char *, size_t, unsigned)(
            path, "nagori", POOL_BYTES, 0600);
    else
        pool = CALL(void *, pmemobj_open, const char *, const char *)(path, "nagori");
    if (pool == NULL)
        fail(path);
    struct root *r = root(pool);
    int code = 0;
    if (strcmp(command, "workload") == 0)
        while (transactions-- > 0)
            transaction(pool, r, whole);
    else if (strcmp(command, "check") == 0)
        code = check(r);
    CALL(void, pmemobj_close, void *)(pool);
    return code;
}

// Shows what survives a power cut: writes lines to a file on NVMM, makes them persistent in one of
// the ways available to programs, and sets label 1, at which the power can be cut; `check` then
// counts the lines that are there.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nagori_mark.h"

enum {
    BYTES = 2 << 20, // of the file: a large page
    LINE = 64,
    LINES = 128, // that are written: half of a board's L1 data cache
    WORDS = LINES * LINE / 8,
};

static uint64_t word(size_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15u;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "persist-check: %s: %s\n", what, why);
    exit(1);
}

static uint64_t *map(const char *path, int fd)
{
    uint64_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
    // A device has no MAP_SYNC.
    if (p == MAP_FAILED && errno == EOPNOTSUPP)
        p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        fail(path, strerror(errno));
    return p;
}

// The file, all zero.
static void make(const char *path, int fd)
{
    if (ftruncate(fd, 0) != 0 || (errno = posix_fallocate(fd, 0, BYTES)) != 0)
        fail(path, strerror(errno));
    uint64_t *p = map(path, fd);
    memset(p, 0, BYTES);
    if (msync(p, BYTES, MS_SYNC) != 0 || fsync(fd) != 0)
        fail(path, strerror(errno));
}

static void by_write(const char *path, int fd)
{
    static uint64_t data[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        data[i] = word(i);
    if (pwrite(fd, data, sizeof data, 0) != sizeof data || fsync(fd) != 0)
        fail(path, strerror(errno));
}

static void by_store(const char *path, int fd)
{
    uint64_t *p = map(path, fd);
    for (size_t i = 0; i < WORDS; i++)
        p[i] = word(i);
    if (msync(p, LINES * LINE, MS_SYNC) != 0)
        fail(path, strerror(errno));
}

static void by_libpmem(const char *path, int fd)
{
    if (dlopen("libpmem.so.1", RTLD_NOW | RTLD_GLOBAL) == NULL)
        fail("libpmem.so.1", dlerror());
    // Resolved like a program's own reference: a preloaded library comes first.
    void (*persist)(const void *, size_t) =
        (void (*)(const void *, size_t))dlsym(RTLD_DEFAULT, "pmem_persist");
    if (persist == NULL)
        fail("pmem_persist", dlerror());
    uint64_t *p = map(path, fd);
    for (size_t i = 0; i < WORDS; i++)
        p[i] = word(i);
    persist(p, LINES * LINE);
}

static void check(const char *path, int fd)
{
    static uint64_t data[WORDS];
    if (pread(fd, data, sizeof data, 0) != sizeof data)
        fail(path, "it is too short");
    int lost = 0;
    for (size_t line = 0; line < LINES; line++) {
        bool whole = true;
        for (size_t i = line * LINE / 8; i < (line + 1) * LINE / 8; i++)
            whole &= data[i] == word(i);
        lost += !whole;
    }
    printf("persist-check: lost=%d of %d lines\n", lost, LINES);
}

static const struct {
    const char *name;
    void (*run)(const char *, int);
    bool marks;
} WAYS[] = {
    {"make", make, false},
    {"write", by_write, true},
    {"store", by_store, true},
    {"libpmem", by_libpmem, true},
    {"check", check, false},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof WAYS / sizeof *WAYS; i++) {
        if (strcmp(argv[1], WAYS[i].name) != 0)
            continue;
        int fd = open(argv[2], O_RDWR | (i == 0 ? O_CREAT : 0), 0600);
        if (fd < 0)
            fail(argv[2], strerror(errno));
        WAYS[i].run(argv[2], fd);
        if (WAYS[i].marks) {
            nagori_label(1);
            printf("persist-check: written\n");
        }
        return 0;
    }
    printf("usage: persist-check make|write|store|libpmem|check FILE\n"
           "make: a file of zeros, on a file system that is mounted with dax=always.\n"
           "write: writes %d lines, then fsync. store: through a mapping, then msync. libpmem: through a\n"
           "mapping, then pmem_persist. Each sets label 1 when it is done. check: what of it is there.\n",
           LINES);
    return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}

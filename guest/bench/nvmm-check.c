// Checks that a file or device is NVMM: maps it (a file on a file system mounted with dax=always,
// with MAP_SYNC), writes through the mapping, and reads it back in another way; or writes, has the
// power cut, and checks what is left by what the persistence domain promises.

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "bench.h"
#include "nagori.h"
#include "nagori_mark.h"

enum {
    BYTES = 4 << 20, // of a file; two mappings of 2 MiB
    LINES = 128,     // that are flushed, and as many that are not: together a board's L1 data cache
    LINE_WORDS = NAGORI_LINE / 8,
    OLD = 1,
    NEW = 2,
    CUT = 1, // the label of the marker at which the power is to be cut
};

static void usage(FILE *to)
{
    fprintf(to,
            "usage: nvmm-check FILE|DEVICE\n"
            "       nvmm-check --write FILE|DEVICE\n"
            "       nvmm-check --read none|adr|gpf|eadr FILE|DEVICE\n"
            "Maps NVMM (a file on an ext4 mounted with dax=always, or /dev/dax0.0), writes %d\n"
            "bytes through the mapping, flushes them, and checks them through another one.\n"
            "What was there is lost.\n"
            "\n"
            "  --write  writes %d lines that it flushes and %d that it does not, and sets label 1, at\n"
            "           which the power is to be cut. The file must be one that `nvmm-check FILE`\n"
            "           has made; the timing model must be on\n"
            "  --read   after the cut: whether what this persistence domain promises is there\n"
            "\n"
            "Example, with `nagori boot --rootfs --nvmm pmem-region --power-cut-at marker:1\n"
            "--set memory.track_persistence=true`, on a mounted /pmem:\n"
            "  nvmm-check /pmem/a && sync && nagori-ctl timing on && nvmm-check --write /pmem/a\n"
            "  nvmm-check --read adr /pmem/a        # when it has booted and mounted again\n",
            BYTES, LINES, LINES);
}

static uint64_t word(size_t i, uint64_t version)
{
    return (i + 1) * 0x9e3779b97f4a7c15u * version;
}

static bool is_device(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISCHR(s.st_mode);
}

static uint64_t *map(const char *path, int fd)
{
    // MAP_SYNC is refused if a store is not on NVMM once it has left the caches.
    const int flags = is_device(path) ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC;
    uint64_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED)
        die("%s: cannot be mapped%s: %s", path, is_device(path) ? "" : " with MAP_SYNC",
            strerror(errno));
    return p;
}

static void fill(uint64_t *p, size_t from, size_t lines, uint64_t version)
{
    for (size_t i = from * LINE_WORDS; i < (from + lines) * LINE_WORDS; i++)
        p[i] = word(i, version);
}

static int check(const char *path)
{
    const bool device = is_device(path);
    int fd = open(path, O_RDWR | (device ? 0 : O_CREAT), 0600);
    if (fd < 0)
        die("%s: %s", path, strerror(errno));
    if (!device) {
        int error = posix_fallocate(fd, 0, BYTES);
        if (error != 0)
            die("%s: no %d bytes: %s", path, BYTES, strerror(error));
    }
    uint64_t *p = map(path, fd);
    fill(p, 0, BYTES / NAGORI_LINE, OLD);
    if (msync(p, BYTES, MS_SYNC) != 0 && !device)
        die("%s: cannot be flushed: %s", path, strerror(errno));
    munmap(p, BYTES);

    uint64_t *q = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (q == MAP_FAILED)
        die("%s: cannot be mapped again: %s", path, strerror(errno));
    for (size_t i = 0; i < BYTES / sizeof *q; i++)
        if (q[i] != word(i, OLD))
            die("%s: word %zu is %#llx", path, i, (unsigned long long)q[i]);
    munmap(q, BYTES);
    close(fd);
    printf("nvmm-check: ok bytes=%d map=%s\n", BYTES, device ? "device" : "sync");
    return 0;
}

static int write_lines(const char *path)
{
    // CFLUSH.D.L1 acts on the hart's own cache.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        die("cannot stay on one hart: %s", strerror(errno));
    int fd = open(path, O_RDWR);
    if (fd < 0)
        die("%s: %s", path, strerror(errno));
    uint64_t *p = map(path, fd);
    // No page fault comes between the stores and the cut.
    for (size_t i = 0; i < 2 * LINES * LINE_WORDS; i++)
        if (p[i] != word(i, OLD))
            die("%s: not as `nvmm-check FILE` leaves it: word %zu", path, i);
    fill(p, 0, LINES, NEW);
    // CFLUSH.D.L1 reaches only the next level; the kernel writes back through all.
    if (access("/proc/device-tree/cpus/cpu@0/next-level-cache", F_OK) == 0) {
        if (msync(p, LINES * NAGORI_LINE, MS_SYNC) != 0)
            die("%s: cannot be flushed from the outer caches: %s", path, strerror(errno));
    } else {
        for (size_t i = 0; i < LINES; i++)
            nagori_cflush_line(p + i * LINE_WORDS);
    }
    nagori_fence();
    // With the domain `none`, the controller has to have written what it has accepted.
    const struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
    fill(p, LINES, LINES, NEW);
    nagori_label(CUT);
    die("the power was not cut: is there --power-cut-at marker:1?");
}

// How many of the lines have their new content. Dies if one has neither the new nor the old one.
static size_t renewed(const char *path, const uint64_t *p, size_t from)
{
    size_t n = 0;
    for (size_t line = from; line < from + LINES; line++) {
        size_t is_new = 0, is_old = 0;
        for (size_t i = line * LINE_WORDS; i < (line + 1) * LINE_WORDS; i++) {
            is_new += p[i] == word(i, NEW);
            is_old += p[i] == word(i, OLD);
        }
        // A line may have left the caches while it was being written: from its start on.
        if (is_new + is_old != LINE_WORDS)
            die("%s: line %zu has what was never written there", path, line);
        n += is_new == LINE_WORDS;
    }
    return n;
}

static int read_lines(const char *domain, const char *path)
{
    const char *const domains[] = {"none", "adr", "gpf", "eadr"};
    bool known = false;
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        known |= strcmp(domain, domains[i]) == 0;
    if (!known)
        die("`%s` is no persistence domain: none, adr, gpf, or eadr", domain);
    int fd = open(path, O_RDWR);
    if (fd < 0)
        die("%s: %s", path, strerror(errno));
    const uint64_t *p = map(path, fd);
    const size_t flushed = renewed(path, p, 0), others = renewed(path, p, LINES);
    printf("nvmm-check: domain=%s flushed=%zu unflushed=%zu of=%d\n", domain, flushed, others, LINES);
    if (flushed != LINES)
        die("%zu flushed lines are lost", LINES - flushed);
    if (strcmp(domain, "eadr") == 0 && others != LINES)
        die("%zu lines are lost that caches in the domain had", LINES - others);
    printf("nvmm-check: ok\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (argc == 2 && argv[1][0] != '-')
        return check(argv[1]);
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_lines(argv[2]);
    if (argc == 4 && strcmp(argv[1], "--read") == 0)
        return read_lines(argv[2], argv[3]);
    usage(stderr);
    return 2;
}

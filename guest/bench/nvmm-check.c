// Checks that a file or device is NVMM: maps it (a file on a file system mounted with dax=always,
// with MAP_SYNC), writes through the mapping, and reads it back in another way.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"
#include "nagori.h"

enum { BYTES = 4 << 20 }; // of a file; two mappings of 2 MiB

static uint64_t word(size_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15u;
}

int main(int argc, char **argv)
{
    if (argc != 2 || argv[1][0] == '-') {
        printf("usage: nvmm-check FILE|DEVICE\n"
               "Maps NVMM (a file on an ext4 mounted with dax=always, or /dev/dax0.0), writes %d\n"
               "bytes through the mapping, flushes them, and checks them through another one.\n"
               "What was there is lost.\n",
               BYTES);
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    const char *path = argv[1];
    struct stat s;
    bool device = stat(path, &s) == 0 && S_ISCHR(s.st_mode);
    int fd = open(path, O_RDWR | (device ? 0 : O_CREAT), 0600);
    if (fd < 0)
        die("%s: %s", path, strerror(errno));
    if (!device) {
        int error = posix_fallocate(fd, 0, BYTES);
        if (error != 0)
            die("%s: no %d bytes: %s", path, BYTES, strerror(error));
    }
    // Refused if a store is not on NVMM once it has left the caches.
    const int flags = device ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC;
    uint64_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED)
        die("%s: cannot be mapped%s: %s", path, device ? "" : " with MAP_SYNC", strerror(errno));
    for (size_t i = 0; i < BYTES / sizeof *p; i++)
        p[i] = word(i);
    if (msync(p, BYTES, MS_SYNC) != 0 && !device)
        die("%s: cannot be flushed: %s", path, strerror(errno));
    munmap(p, BYTES);

    uint64_t *q = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (q == MAP_FAILED)
        die("%s: cannot be mapped again: %s", path, strerror(errno));
    for (size_t i = 0; i < BYTES / sizeof *q; i++)
        if (q[i] != word(i))
            die("%s: word %zu is %#llx", path, i, (unsigned long long)q[i]);
    munmap(q, BYTES);
    close(fd);
    printf("nvmm-check: ok bytes=%d map=%s\n", BYTES, device ? "device" : "sync");
    return 0;
}

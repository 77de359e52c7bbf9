// The pool of NVMM. A process claims a chunk by locking its range in the device's file; the kernel
// releases the lock when the last process that holds it ends: no daemon, no leftovers.

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "nagori.h"
#include "nvmm.h"

enum {
    MAX_CHUNKS = NVMM_RANGE / NVMM_CHUNK,
    MAX_FREE = 1 << 15,   // ranges on the free list
    KEPT_CHUNKS = 4,      // free ones at the end are kept for the next request
    MPOL_BIND_MODE = 2,   // of <linux/mempolicy.h>
    // Free on the node beside what is added: for what is not touched yet, and for the kernel.
    NODE_RESERVE = 16 << 20,
};

struct range {
    uintptr_t start, end;
};

static struct {
    pthread_mutex_t lock;
    bool forking; // the lock is held for a fork
    char name[160];
    int fd; // -1: anonymous memory of NUMA node `node`
    int node;
    uint64_t unasked; // bytes of the node that may be taken without asking how much is free
    uint64_t offset, chunks; // of the device: first byte, number of chunks
    size_t free_count;
    struct nvmm_counts counts;
    int child_fd; // between the handlers of fork: the child's claims
    bool told;
    // Tables last, so that what every request needs lies in one page.
    struct range free[MAX_FREE]; // sorted, never adjacent
    // Chunk of the device behind each chunk of the range, and behind the child's.
    uint32_t behind[MAX_CHUNKS], child_behind[MAX_CHUNKS];
} pool;

struct nvmm_range nvmm_range;

static void say(const char *format, va_list list)
{
    char text[400];
    int n = snprintf(text, sizeof text, "nagori-malloc: ");
    n += vsnprintf(text + n, sizeof text - (size_t)n - 1, format, list);
    if (n > (int)sizeof text - 2)
        n = (int)sizeof text - 2;
    text[n++] = '\n';
    // Nothing can be done if nobody reads stderr.
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        return;
}

void nvmm_say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
}

void nvmm_die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    abort();
}

// The size of a file; that of a device-DAX device comes from sysfs. 0 if it is unknown.
static uint64_t device_bytes(const struct stat *s)
{
    if (S_ISREG(s->st_mode))
        return (uint64_t)s->st_size;
    char path[80], text[32] = "";
    snprintf(path, sizeof path, "/sys/dev/char/%u:%u/size", major(s->st_rdev), minor(s->st_rdev));
    int f = open(path, O_RDONLY | O_CLOEXEC);
    if (f < 0)
        return 0;
    if (read(f, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(f);
    return strtoull(text, NULL, 0);
}

static int open_device(void)
{
    return open(pool.name, O_RDWR | O_CLOEXEC);
}

// DEVICE[@OFFSET+SIZE]
static void open_file(const char *device, uint64_t offset, uint64_t bytes)
{
    if (strlen(device) >= sizeof pool.name)
        nvmm_die("NAGORI_MALLOC_DEVICE: the name is longer than %zu bytes", sizeof pool.name - 1);
    strcpy(pool.name, device);
    char *at = strchr(pool.name, '@');
    if (at != NULL) {
        *at++ = 0;
        char *end;
        offset = strtoull(at, &end, 0);
        if (end == at || *end != '+')
            nvmm_die("NAGORI_MALLOC_DEVICE=%s: give PATH, PATH@OFFSET+SIZE or node:N", device);
        bytes = strtoull(end + 1, &end, 0);
        if (*end != 0 || bytes == 0)
            nvmm_die("NAGORI_MALLOC_DEVICE=%s: give PATH, PATH@OFFSET+SIZE or node:N", device);
    }
    pool.fd = open_device();
    if (pool.fd < 0)
        nvmm_die("cannot open %s: %s", pool.name, strerror(errno));
    struct stat s;
    if (fstat(pool.fd, &s) != 0)
        nvmm_die("%s: %s", pool.name, strerror(errno));
    if (bytes == 0) {
        bytes = device_bytes(&s);
        if (bytes == 0)
            nvmm_die("the size of %s is unknown: give NAGORI_MALLOC_DEVICE=%s@OFFSET+SIZE", pool.name,
                     pool.name);
    }
    pool.offset = (offset + NVMM_CHUNK - 1) / NVMM_CHUNK * NVMM_CHUNK;
    uint64_t end = offset + bytes;
    pool.chunks = end > pool.offset ? (end - pool.offset) / NVMM_CHUNK : 0;
    if (pool.chunks == 0)
        nvmm_die("%s: less than a chunk of 2 MiB", pool.name);
    if (pool.chunks > MAX_CHUNKS)
        pool.chunks = MAX_CHUNKS;
}

// NVMM that is in no node of the device tree: the control block gives its address.
static void open_hidden(void)
{
    // If there is no device, a read would end the process.
    char node[80];
    snprintf(node, sizeof node, "/proc/device-tree/soc/control@%lx", (unsigned long)NAGORI_CTL_BASE);
    if (access(node, F_OK) != 0)
        nvmm_die("there is neither /dev/dax0.0 nor a control block that tells where NVMM is; "
                 "give NAGORI_MALLOC_DEVICE");
    volatile void *ctl = nagori_open(NAGORI_CTL_BASE);
    if (ctl == NULL)
        nvmm_die("the control block cannot be mapped from /dev/mem: %s; root can, or give "
                 "NAGORI_MALLOC_DEVICE",
                 strerror(errno));
    uint64_t base = nagori_read(ctl, NAGORI_CTL_NVMM_BASE);
    uint64_t bytes = nagori_read(ctl, NAGORI_CTL_NVMM_SIZE);
    munmap((void *)(uintptr_t)ctl, NAGORI_CTL_SIZE);
    if (bytes == 0)
        nvmm_die("this machine has no NVMM");
    open_file("/dev/mem", base, bytes);
}

static void bind_node(void *at, size_t bytes)
{
    unsigned long mask = 1ul << pool.node;
    // The kernel takes one bit less than it is told.
    if (syscall(SYS_mbind, at, bytes, MPOL_BIND_MODE, &mask, 65ul, 0) != 0)
        nvmm_die("no memory can be bound to %s: %s", pool.name, strerror(errno));
}

void nvmm_open(const char *device)
{
    pool.fd = pool.child_fd = -1;
    if (device != NULL && strncmp(device, "node:", 5) == 0) {
        char *end;
        long node = strtol(device + 5, &end, 10);
        if (end == device + 5 || *end != 0 || node < 0 || node > 63)
            nvmm_die("NAGORI_MALLOC_DEVICE=%s: the node is a number from 0 to 63", device);
        pool.node = (int)node;
        pool.chunks = MAX_CHUNKS;
        pool.unasked = NVMM_CHUNK;
        snprintf(pool.name, sizeof pool.name, "NUMA node %ld", node);
    } else if (device != NULL && *device != 0) {
        open_file(device, 0, 0);
    } else if (access("/dev/dax0.0", F_OK) == 0) {
        open_file("/dev/dax0.0", 0, 0);
    } else {
        open_hidden();
    }
    size_t bytes = (size_t)MAX_CHUNKS * NVMM_CHUNK + NVMM_CHUNK;
    void *range = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        nvmm_die("no address space: %s", strerror(errno));
    nvmm_range.base = ((uintptr_t)range + NVMM_CHUNK - 1) & ~(uintptr_t)(NVMM_CHUNK - 1);
    nvmm_range.fresh = nvmm_range.base;
    // All of it at once, so that it remains one mapping. With huge pages the first block would clear 2 MiB; a kernel
    // without them refuses.
    if (pool.fd < 0) {
        bind_node(range, bytes);
        madvise(range, bytes, MADV_NOHUGEPAGE);
    }
}

void *nvmm_table(size_t bytes)
{
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        nvmm_die("no address space: %s", strerror(errno));
    madvise(table, bytes, MADV_NOHUGEPAGE);
    return table;
}

const char *nvmm_name(void)
{
    return pool.name;
}

struct nvmm_counts nvmm_counts(void)
{
    return pool.counts;
}

// A lock of a chunk; the same file does not conflict with itself.
static bool claim(int fd, uint64_t chunk, short type)
{
    struct flock l = {
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = (off_t)(pool.offset + chunk * NVMM_CHUNK),
        .l_len = NVMM_CHUNK,
    };
    return fcntl(fd, F_OFD_SETLK, &l) == 0;
}

static bool ours(uint64_t chunk)
{
    size_t mapped = (nvmm_range.fresh - nvmm_range.base) / NVMM_CHUNK;
    for (size_t i = 0; i < mapped; i++)
        if (pool.behind[i] == chunk)
            return true;
    return false;
}

// Maps chunks of the device, or of the node, at chunk `index` of the range.
static bool map_chunks(int fd, uint64_t chunk, size_t index, size_t count)
{
    void *at = (void *)(nvmm_range.base + index * NVMM_CHUNK);
    size_t bytes = count * NVMM_CHUNK;
    if (fd < 0)
        return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                   (off_t)(pool.offset + chunk * NVMM_CHUNK));
    return p != MAP_FAILED;
}

// Whether a node has so many free bytes: the kernel would end processes that use what is not there. The answer costs
// more than a short program does otherwise, so it holds for a part of what was free.
static bool node_has_room(size_t bytes)
{
    if (bytes <= pool.unasked) {
        pool.unasked -= bytes;
        return true;
    }
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", pool.node);
    int f = open(path, O_RDONLY | O_CLOEXEC);
    if (f < 0)
        return true;
    ssize_t n = read(f, text, sizeof text - 1);
    close(f);
    const char *at = n > 0 ? strstr(text, "MemFree:") : NULL;
    if (at == NULL)
        return true;
    uint64_t available = strtoull(at + strlen("MemFree:"), NULL, 10) << 10;
    if (available < bytes || available - bytes < NODE_RESERVE)
        return false;
    pool.unasked = (available - bytes - NODE_RESERVE) / 8;
    return true;
}

// Enlarges the mapped part of the range: on a node by what is wanted, on a device by one chunk.
static bool grow(size_t wanted)
{
    size_t index = (nvmm_range.fresh - nvmm_range.base) / NVMM_CHUNK;
    size_t count = pool.fd >= 0 ? 1 : (wanted + NVMM_CHUNK - 1) / NVMM_CHUNK;
    if (count > MAX_CHUNKS - index || (pool.fd < 0 && !node_has_room(count * NVMM_CHUNK)))
        return false;
    uint64_t chunk = index;
    if (pool.fd >= 0) {
        static uint64_t next; // with the pool's lock; where to look first
        uint64_t tried = 0;
        for (;; tried++, next++) {
            if (tried == pool.chunks)
                return false;
            if (next >= pool.chunks)
                next = 0;
            if (!ours(next) && claim(pool.fd, next, F_WRLCK))
                break;
        }
        chunk = next++;
    }
    if (!map_chunks(pool.fd, chunk, index, count))
        nvmm_die("chunk %llu of %s cannot be mapped: %s", (unsigned long long)chunk, pool.name,
                 strerror(errno));
    pool.behind[index] = (uint32_t)chunk;
    nvmm_range.fresh += count * NVMM_CHUNK;
    pool.counts.chunks += count;
    if (pool.counts.chunks > pool.counts.peak)
        pool.counts.peak = pool.counts.chunks;
    return true;
}

// The first free range that does not start below an address.
static size_t position(uintptr_t start)
{
    size_t low = 0, high = pool.free_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (pool.free[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(uintptr_t start, uintptr_t end)
{
    struct range *r = pool.free;
    size_t low = position(start);
    bool before = low > 0 && r[low - 1].end == start;
    bool behind = low < pool.free_count && r[low].start == end;
    if (before && behind) {
        r[low - 1].end = r[low].end;
        memmove(&r[low], &r[low + 1], (--pool.free_count - low) * sizeof *r);
    } else if (before) {
        r[low - 1].end = end;
    } else if (behind) {
        r[low].start = start;
    } else {
        if (pool.free_count == MAX_FREE)
            return false;
        memmove(&r[low + 1], &r[low], (pool.free_count++ - low) * sizeof *r);
        r[low] = (struct range){start, end};
    }
    return true;
}

// Enlarges the range, and what is free at its end.
static bool grow_free(size_t wanted)
{
    uintptr_t start = nvmm_range.fresh;
    return grow(wanted) && insert(start, nvmm_range.fresh);
}

// First fit.
static void *find(size_t size, size_t alignment)
{
    for (size_t i = 0; i < pool.free_count; i++) {
        struct range r = pool.free[i];
        uintptr_t start = (r.start + alignment - 1) & ~(uintptr_t)(alignment - 1);
        if (start < r.start || start > r.end || r.end - start < size)
            continue;
        uintptr_t end = start + size;
        if (start > r.start && end < r.end) {
            if (pool.free_count == MAX_FREE)
                continue;
            pool.free[i].end = start;
            memmove(&pool.free[i + 2], &pool.free[i + 1],
                    (pool.free_count++ - i - 1) * sizeof *pool.free);
            pool.free[i + 1] = (struct range){end, r.end};
        } else if (start > r.start) {
            pool.free[i].end = start;
        } else if (end < r.end) {
            pool.free[i].start = end;
        } else {
            memmove(&pool.free[i], &pool.free[i + 1], (--pool.free_count - i) * sizeof *pool.free);
        }
        return (void *)start;
    }
    return NULL;
}

// Returns free chunks at the end of the range, except `keep` of them.
static void trim(size_t keep)
{
    struct range *last = pool.free_count == 0 ? NULL : &pool.free[pool.free_count - 1];
    if (last == NULL || last->end != nvmm_range.fresh)
        return;
    size_t chunks = (last->end - last->start) / NVMM_CHUNK;
    if (chunks <= keep)
        return;
    size_t count = chunks - keep, bytes = count * NVMM_CHUNK;
    // A device's in place of the mapping, so that nobody else takes the address.
    if (pool.fd < 0)
        madvise((void *)(nvmm_range.fresh - bytes), bytes, MADV_DONTNEED);
    else if (mmap((void *)(nvmm_range.fresh - bytes), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return;
    nvmm_range.fresh -= bytes;
    last->end -= bytes;
    if (last->end == last->start)
        pool.free_count--;
    pool.counts.chunks -= count;
    size_t first = (nvmm_range.fresh - nvmm_range.base) / NVMM_CHUNK;
    for (size_t i = 0; pool.fd >= 0 && i < count; i++)
        claim(pool.fd, pool.behind[first + i], F_UNLCK);
}

void *nvmm_take(size_t size, size_t alignment)
{
    void *p;
    bool held = nvmm_lock(&pool.lock);
    while ((p = find(size, alignment)) == NULL) {
        // A large request grows the last free range until it fits.
        if (size > pool.chunks * (uint64_t)NVMM_CHUNK || !grow_free(size))
            break;
    }
    if (p == NULL) {
        pool.counts.failures++;
        if (!pool.told)
            nvmm_say("NVMM is used up: no %zu bytes on %s; the program is told so (ENOMEM)", size,
                     pool.name);
        pool.told = true;
        trim(0);
    } else {
        pool.counts.allocs++;
        pool.counts.used += size;
    }
    nvmm_unlock(&pool.lock, held);
    return p;
}

bool nvmm_extend(void *end, size_t size)
{
    uintptr_t at = (uintptr_t)end;
    bool done = false;
    bool held = nvmm_lock(&pool.lock);
    do {
        size_t i = position(at);
        struct range *r = &pool.free[i];
        bool here = i < pool.free_count && r->start == at;
        if (here && r->end - at >= size) {
            r->start += size;
            if (r->start == r->end)
                memmove(r, r + 1, (--pool.free_count - i) * sizeof *r);
            pool.counts.used += size;
            done = true;
        } else if ((here ? r->end : at) != nvmm_range.fresh) {
            break;
        }
    } while (!done && grow_free(size));
    nvmm_unlock(&pool.lock, held);
    return done;
}

static bool has_room(size_t bytes)
{
    bool held = nvmm_lock(&pool.lock);
    bool room = node_has_room(bytes);
    nvmm_unlock(&pool.lock, held);
    return room;
}

static void count_mapping(int64_t mapped, size_t added, size_t taken)
{
    bool held = nvmm_lock(&pool.lock);
    pool.counts.allocs += mapped > 0;
    pool.counts.frees += mapped < 0;
    pool.counts.used += added - taken;
    nvmm_unlock(&pool.lock, held);
}

void *nvmm_map(size_t size)
{
    if (pool.fd >= 0 || !has_room(size))
        return NULL;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    bind_node(p, size);
    count_mapping(1, size, 0);
    return p;
}

void *nvmm_remap(void *address, size_t old, size_t size)
{
    if (size > old && !has_room(size - old))
        return NULL;
    void *p = mremap(address, old, size, MREMAP_MAYMOVE);
    if (p == MAP_FAILED)
        return NULL;
    count_mapping(0, size, old);
    return p;
}

void nvmm_unmap(void *address, size_t size)
{
    munmap(address, size);
    count_mapping(-1, 0, size);
}

bool nvmm_give(void *address, size_t size)
{
    bool held = nvmm_lock(&pool.lock);
    bool done = insert((uintptr_t)address, (uintptr_t)address + size);
    if (done) {
        pool.counts.frees++;
        pool.counts.used -= size;
        trim(KEPT_CHUNKS);
    }
    nvmm_unlock(&pool.lock, held);
    return done;
}

// Copies the used part of a chunk to the place that the child will have.
static void copy_used(size_t index, char *to)
{
    uintptr_t start = nvmm_range.base + index * NVMM_CHUNK, end = start + NVMM_CHUNK;
    uintptr_t at = start;
    for (size_t i = 0; i < pool.free_count && at < end; i++) {
        struct range r = pool.free[i];
        if (r.end <= at)
            continue;
        if (r.start >= end)
            break;
        if (r.start > at)
            memcpy(to + (at - start), (void *)at, r.start - at);
        at = r.end;
    }
    if (at < end)
        memcpy(to + (at - start), (void *)at, end - at);
}

// A child would share mappings of a device, so the data for the child is copied to chunks that
// belong to a file of its own, before parent or child can change it.
void nvmm_before_fork(void)
{
    nvmm_lock_for_fork(&pool.lock, &pool.forking);
    size_t mapped = (nvmm_range.fresh - nvmm_range.base) / NVMM_CHUNK;
    if (pool.fd < 0 || mapped == 0)
        return;
    pool.child_fd = open_device();
    if (pool.child_fd < 0)
        nvmm_die("fork: cannot open %s again: %s", pool.name, strerror(errno));
    uint64_t next = 0;
    for (size_t i = 0; i < mapped; i++, next++) {
        while (next < pool.chunks && !claim(pool.child_fd, next, F_WRLCK))
            next++;
        if (next == pool.chunks)
            nvmm_die("fork: no NVMM for the child's copy of %zu chunks on %s", mapped, pool.name);
        pool.child_behind[i] = (uint32_t)next;
        char *to = mmap(NULL, NVMM_CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, pool.child_fd,
                        (off_t)(pool.offset + next * NVMM_CHUNK));
        if (to == MAP_FAILED)
            nvmm_die("fork: %s cannot be mapped: %s", pool.name, strerror(errno));
        copy_used(i, to);
        munmap(to, NVMM_CHUNK);
    }
}

void nvmm_after_fork_parent(void)
{
    // By now the child holds its claims, or there is no child.
    if (pool.child_fd >= 0)
        close(pool.child_fd);
    pool.child_fd = -1;
    nvmm_unlock_after_fork(&pool.lock, &pool.forking);
}

void nvmm_after_fork_child(void)
{
    if (pool.child_fd >= 0) {
        size_t mapped = (nvmm_range.fresh - nvmm_range.base) / NVMM_CHUNK;
        for (size_t i = 0; i < mapped; i++) {
            if (!map_chunks(pool.child_fd, pool.child_behind[i], i, 1))
                nvmm_die("fork: %s cannot be mapped: %s", pool.name, strerror(errno));
            pool.behind[i] = pool.child_behind[i];
        }
        close(pool.fd);
        pool.fd = pool.child_fd;
        pool.child_fd = -1;
    }
    nvmm_unlock_after_fork(&pool.lock, &pool.forking);
}

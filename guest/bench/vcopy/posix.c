// vcopy on Linux: RISC-V (in the guest, or on hardware) and x86-64. Two threads, each bound to a
// processor of its own; counters by perf_event_open where the kernel gives them.
#define _GNU_SOURCE
#include "frame.h"

enum { CELLS = sizeof cells / sizeof cells[0] };

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// What is counted, with generic events, so that every processor has them under the same names.
static const struct event {
    const char *name;
    u32 type;
    u64 config;
} events[] = {
#define L1D(op, result) \
    (PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_OP_##op << 8 | PERF_COUNT_HW_CACHE_RESULT_##result << 16)
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"core_cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"l1_loads", PERF_TYPE_HW_CACHE, L1D(READ, ACCESS)},
    {"l1_misses", PERF_TYPE_HW_CACHE, L1D(READ, MISS)},
    {"llc_references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    {"llc_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
};
enum { EVENTS = sizeof events / sizeof events[0] };

static int fds[2][EVENTS];
static u64 counts[2][EVENTS];
static int errors[EVENTS]; // errno of the first failure

static void counters_open(enum role role)
{
    for (int k = 0; k < EVENTS; k++) {
        struct perf_event_attr a = {
            .size = sizeof a,
            .type = events[k].type,
            .config = events[k].config,
            .disabled = 1,
            .exclude_kernel = 1,
            .exclude_hv = 1,
            .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        };
        fds[role][k] = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
        if (fds[role][k] < 0 && errors[k] == 0)
            errors[k] = errno;
    }
}

void counting(enum role role, int on)
{
    for (int k = 0; k < EVENTS; k++) {
        int fd = fds[role][k];
        if (fd < 0)
            continue;
        if (on) {
            ioctl(fd, PERF_EVENT_IOC_RESET, 0);
            ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
            continue;
        }
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        // A counter that had to share its register was not there all the time: it is no count.
        u64 v[3];
        if (read(fd, v, sizeof v) != sizeof v || v[1] != v[2]) {
            errors[k] = EBUSY;
            close(fd);
            fds[role][k] = -1;
        } else {
            counts[role][k] = v[0];
        }
    }
}

static struct places places;
static struct outcome outcomes[2];
static pthread_barrier_t ready;
static int processors[2];

static void bind_to(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        fprintf(stderr, "vcopy: processor %d: %s\n", processor, strerror(errno));
        exit(1);
    }
}

// Cycles of `cycles()` a second.
static double rate(void)
{
    struct timespec a, b, pause = {0, 100000000};
    clock_gettime(CLOCK_MONOTONIC_RAW, &a);
    u64 from = cycles();
    nanosleep(&pause, 0);
    clock_gettime(CLOCK_MONOTONIC_RAW, &b);
    u64 to = cycles();
    return (double)(to - from) / ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
}

static void print(unsigned cell, unsigned repeat, u64 wrong)
{
    for (int role = PRODUCER; role <= CONSUMER; role++) {
        const struct outcome *o = &outcomes[role];
        printf("%u %u %d %lu %lu %lu", cell, repeat, role, o->cycles, o->told,
               o->failures + (role == PRODUCER ? wrong : 0));
        for (int k = 0; k < PHASES; k++)
            printf(" %lu", o->phase[k]);
        for (int k = 0; k < EVENTS; k++)
            if (fds[0][k] >= 0 && fds[1][k] >= 0)
                printf(" %s=%lu", events[k].name, counts[role][k]);
        printf("\n");
    }
}

static void *work(void *arg)
{
    enum role role = *(enum role *)arg;
    bind_to(processors[role]);
    counters_open(role);
    for (unsigned i = 0; i < CELLS; i++)
        for (unsigned r = 0; r < REPEATS; r++) {
            if (role == PRODUCER && r == 0)
                vcopy_start(&cells[i], &places);
            pthread_barrier_wait(&ready);
            vcopy_run(role, &cells[i], &outcomes[role]);
            pthread_barrier_wait(&ready);
            if (role == PRODUCER)
                print(i, r, vcopy_check(&cells[i]));
        }
    return 0;
}

// Memory for the buffers: anonymous, or the beginning of a file on DAX.
static u8 *map(const char *file)
{
    size_t bytes = RING_SIZE * BUFFER;
    int fd = file ? open(file, O_RDWR | O_CREAT, 0600) : -1;
    if (file && (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)) {
        fprintf(stderr, "vcopy: %s: %s\n", file, strerror(errno));
        exit(1);
    }
    int flags = file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    u8 *at = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "vcopy: %s: %s\n", file ? file : "memory", strerror(errno));
        exit(1);
    }
    memset(at, 0, bytes);
    return at;
}

int main(int argc, char **argv)
{
    if (argc > 4 || (argc > 1 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: vcopy [PRODUCER-CPU CONSUMER-CPU [FILE-ON-NVMM]]\n");
        return 2;
    }
    long have = sysconf(_SC_NPROCESSORS_ONLN);
    processors[0] = argc > 2 ? atoi(argv[1]) : 0;
    processors[1] = argc > 2 ? atoi(argv[2]) : 1;
    if (processors[0] == processors[1] || processors[0] < 0 || processors[1] < 0
        || processors[0] >= have || processors[1] >= have) {
        fprintf(stderr, "vcopy: two processors of %ld are needed, each with its number\n", have);
        return 1;
    }
    places.buffers[0] = map(0);
    places.buffers[1] = argc > 3 ? map(argv[3]) : places.buffers[0];
    printf("rate %.0f\n", rate());
    pthread_barrier_init(&ready, 0, 2);
    static enum role roles[2] = {PRODUCER, CONSUMER};
    pthread_t other;
    if (pthread_create(&other, 0, work, &roles[1]) != 0) {
        fprintf(stderr, "vcopy: no thread\n");
        return 1;
    }
    work(&roles[0]);
    pthread_join(other, 0);
    for (int k = 0; k < EVENTS; k++)
        if (errors[k] != 0)
            printf("missing %s %s\n", events[k].name, strerror(errors[k]));
    return 0;
}

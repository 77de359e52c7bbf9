// ringlog COMMAND [RECORDS] [without-flush|combined]: a log of records on NVMM, to try `nagori crash` with.
//
//   setup      makes an empty log
//   workload   appends RECORDS records (default 20)
//   recover    reads the log as a program would after a power cut
//   check      prints what is in the log
//
// A record is valid if the head says so. So its lines have to be durable before the head is: they are flushed, then
// comes a fence, then the head is stored. `without-flush` leaves the flush of the payload out, which is a bug that
// no test without a power cut finds. With `combined` the payload is stored under the hint ntl.all and not flushed,
// which is right on machines that combine such stores in line fill buffers.
//
// NVMM is mapped through /dev/mem at the address that the control block has, or through the file in NAGORI_NVMM.
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nagori.h"
#include "nagori_mark.h"
#include "nagori_nt.h"

enum { SLOTS = 64, WORDS = 16, MAP = 2 << 20 };
#define MAGIC 0x676f6c676e6972UL

struct record {
    uint64_t words[WORDS]; // two lines
};

struct log {
    uint64_t magic, head; // number of the next record; the last SLOTS are kept
    uint64_t pad[6];
    struct record slots[SLOTS];
};

static struct log *map(void)
{
    const char *name = getenv("NAGORI_NVMM");
    off_t offset = 0;
    if (name == NULL) {
        name = "/dev/mem";
        volatile void *board = nagori_open(NAGORI_CTL_BASE);
        if (board == NULL) {
            perror("ringlog: the control block");
            exit(2);
        }
        offset = (off_t)nagori_read(board, NAGORI_CTL_NVMM_BASE);
    }
    int fd = open(name, O_RDWR | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, MAP, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (p == MAP_FAILED) {
        fprintf(stderr, "ringlog: cannot map %s\n", name);
        exit(2);
    }
    return p;
}

static void flush(const void *from, size_t length)
{
    const char *p = (const char *)((uintptr_t)from & ~(uintptr_t)(NAGORI_LINE - 1));
    for (; p < (const char *)from + length; p += NAGORI_LINE)
        nagori_cflush_line(p);
}

static uint64_t word(uint64_t record, unsigned i)
{
    return (record + 1) * 0x9e3779b97f4a7c15UL + i;
}

static __attribute__((noinline)) void append(struct log *log, bool flushes, bool combined)
{
    uint64_t n = log->head;
    struct record *r = &log->slots[n % SLOTS];
    for (unsigned i = 0; i < WORDS; i++) {
        if (combined)
            nagori_nt_store64(&r->words[i], word(n, i));
        else
            ((volatile uint64_t *)r->words)[i] = word(n, i);
    }
    if (flushes)
        flush(r, sizeof *r);
    nagori_fence();
    *(volatile uint64_t *)&log->head = n + 1;
    flush(&log->head, sizeof log->head);
    nagori_fence();
    nagori_label(n + 1);
}

// The oldest record may be the one that was being overwritten.
static uint64_t oldest(const struct log *log)
{
    return log->head < SLOTS ? 0 : log->head - SLOTS + 1;
}

static int recover(const struct log *log)
{
    if (log->magic != MAGIC) {
        fprintf(stderr, "ringlog: there is no log\n");
        return 1;
    }
    for (uint64_t n = oldest(log); n < log->head; n++) {
        for (unsigned i = 0; i < WORDS; i++) {
            if (log->slots[n % SLOTS].words[i] != word(n, i)) {
                fprintf(stderr, "ringlog: record %lu is damaged\n", (unsigned long)n);
                return 1;
            }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    unsigned long records = argc > 2 ? strtoul(argv[2], NULL, 0) : 20;
    bool combined = argc > 3 && strcmp(argv[3], "combined") == 0;
    bool flushes = !combined && (argc < 4 || strcmp(argv[3], "without-flush") != 0);
    struct log *log = map();
    if (strcmp(command, "setup") == 0) {
        memset(log, 0, sizeof *log);
        log->magic = MAGIC;
        flush(log, sizeof *log);
        nagori_fence();
        return 0;
    }
    if (strcmp(command, "workload") == 0) {
        while (records-- > 0)
            append(log, flushes, combined);
        return 0;
    }
    if (strcmp(command, "recover") == 0)
        return recover(log);
    if (strcmp(command, "check") == 0) {
        printf("records %lu\n", (unsigned long)log->head);
        return 0;
    }
    fprintf(stderr, "usage: ringlog setup|workload|recover|check [RECORDS] [without-flush|combined]\n");
    return 2;
}

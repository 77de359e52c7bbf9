// undo COMMAND [OPERATIONS] [clear-first]: two accounts on NVMM with an undo log, to try cuts during recovery with
// (`nagori crash --recuts`).
//
//   setup      two accounts of 1000 each, and an empty log
//   workload   moves OPERATIONS times (default 4) something from the first to the second account
//   recover    takes back what is in the log
//   check      the sum has to be 2000; prints the accounts
//
// The log keeps both old values before either account changes, and is emptied when both new ones are durable. Recovery
// writes the old values back, waits until they are durable, and empties the log then, so that it can be interrupted and
// done again. With `clear-first` recovery empties the log at once: no cut during the workload shows that, only one
// during recovery does.
//
// NVMM is mapped through /dev/mem at the address that the control block has.
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nagori.h"
#include "nagori_mark.h"

enum { MAP = 2 << 20, TOTAL = 2000, LINE_WORDS = 8 };

// A line for each.
struct bank {
    volatile uint64_t first[LINE_WORDS], second[LINE_WORDS];
    volatile uint64_t log[LINE_WORDS]; // old values; the last word says whether they count
};

static struct bank *map(void)
{
    volatile void *board = nagori_open(NAGORI_CTL_BASE);
    int fd = open("/dev/mem", O_RDWR | O_CLOEXEC);
    void *p = MAP_FAILED;
    if (board != NULL && fd >= 0)
        p = mmap(NULL, MAP, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)nagori_read(board, NAGORI_CTL_NVMM_BASE));
    if (p == MAP_FAILED) {
        perror("undo: NVMM");
        exit(2);
    }
    return p;
}

static void flush(const volatile void *at)
{
    nagori_cflush_line((const void *)at);
}

static void set_log(struct bank *b, bool valid)
{
    b->log[LINE_WORDS - 1] = valid;
    flush(b->log);
    nagori_fence();
}

static __attribute__((noinline)) void take_back(struct bank *b)
{
    b->first[0] = b->log[0];
    b->second[0] = b->log[1];
    flush(b->first);
    flush(b->second);
    nagori_fence();
}

static void move(struct bank *b, uint64_t amount)
{
    b->log[0] = b->first[0];
    b->log[1] = b->second[0];
    flush(b->log);
    nagori_fence();
    set_log(b, true);
    b->first[0] -= amount;
    b->second[0] += amount;
    flush(b->first);
    flush(b->second);
    nagori_fence();
    set_log(b, false);
    nagori_label(amount);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    struct bank *b = map();
    if (strcmp(command, "setup") == 0) {
        memset((void *)b, 0, sizeof *b);
        b->first[0] = b->second[0] = TOTAL / 2;
        flush(b->first);
        flush(b->second);
        flush(b->log);
        nagori_fence();
        return 0;
    }
    if (strcmp(command, "workload") == 0) {
        unsigned long operations = argc > 2 ? strtoul(argv[2], NULL, 0) : 4;
        for (unsigned long i = 1; i <= operations; i++)
            move(b, i);
        return 0;
    }
    if (strcmp(command, "recover") == 0) {
        bool clear_first = argc > 2 && strcmp(argv[2], "clear-first") == 0;
        if (b->log[LINE_WORDS - 1] == 0)
            return 0;
        if (clear_first)
            set_log(b, false);
        take_back(b);
        if (!clear_first)
            set_log(b, false);
        return 0;
    }
    if (strcmp(command, "check") == 0) {
        printf("accounts %lu %lu\n", (unsigned long)b->first[0], (unsigned long)b->second[0]);
        return b->first[0] + b->second[0] != TOTAL;
    }
    fprintf(stderr, "usage: undo setup|workload|recover|check [OPERATIONS] [clear-first]\n");
    return 2;
}

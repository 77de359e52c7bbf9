// bench-board: all cells of the reference board's tables, under each method.
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

static const char USAGE[] =
    "usage: bench-board [options]\n"
    "  --methods LIST    (dram,coarse,fine,extended)\n"
    "  --accesses N      measured in each cell (12288)\n"
    "  --warmup N        accesses before them (4096)\n"
    "  --rounds N        of each cell; its row is that of the median (5)\n"
    "  --ctl ADDRESS     of the control block\n"
    "  --anonymous       ordinary memory, no control block: to try the program elsewhere\n"
    "Writes go to the start of each NVMM bank: what is there is lost.\n";

enum { MAX_BANKS = 6, STRIDES = 2, CELLS = 2 * (STRIDES + MAX_BANKS), MAX_ROUNDS = 99 };

static void list_cells(struct cell *c, size_t accesses, size_t warm)
{
    for (enum op op = READ; op <= WRITE; op++) {
        for (size_t i = 1; i <= STRIDES; i++, c++) {
            size_t stride = 4096 * i;
            *c = (struct cell){
                .op = op,
                .kind = STRIDE,
                .value = stride,
                .bytes = accesses * stride,
                .warm = warm * stride,
                .repeat = 1,
            };
        }
        for (size_t banks = 1; banks <= MAX_BANKS; banks++, c++) {
            *c = (struct cell){
                .op = op,
                .kind = NBANK,
                .value = banks,
                .bytes = (accesses + banks - 1) / banks * ROW_STEP,
                .warm = (warm + banks - 1) / banks * ROW_STEP,
                .repeat = 1,
            };
        }
    }
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const struct result *)a)->took.ns, y = ((const struct result *)b)->took.ns;
    return (x > y) - (x < y);
}

// Where the kernel puts page tables decides which rows of DRAM their entries share, and with five or six
// banks, whose entries do not fit a set of L1D, that is worth some percent. So each round has tables in
// another place: behind so many pages that are taken before, and given back.
static struct window place(const struct board *b, unsigned round, size_t bytes)
{
    static const size_t SHIFT = 37 << 20, PLACES = 7;
    size_t taken = round % PLACES * SHIFT;
    char *shift = MAP_FAILED;
    if (taken > 0) {
        shift = mmap(NULL, taken, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (shift == MAP_FAILED)
            die("cannot take %zu MiB: %s", taken >> 20, strerror(errno));
    }
    struct window w = window_map(b, MAX_BANKS, bytes, true);
    if (shift != MAP_FAILED)
        munmap(shift, taken);
    // What the kernel has left to do behind a new mapping should not meet a cell.
    usleep(200000);
    return w;
}

// Other work of the kernel's now and then takes a few percent of a cell's time, too. It seldom meets the
// same cell in most rounds, so the median is free of it; what comes all the time, as ticks do, stays.
static void all_cells(const struct board *b, const char *method, size_t accesses, size_t warm,
                      unsigned rounds)
{
    static struct cell cells[CELLS];
    static struct result results[CELLS][MAX_ROUNDS];
    list_cells(cells, accesses, warm);
    for (unsigned r = 0; r < rounds; r++) {
        struct window w = place(b, r, (accesses + warm) * ROW_STEP);
        for (size_t i = 0; i < CELLS; i++)
            results[i][r] = cell_measure(b, &cells[i], &w);
        window_unmap(&w, MAX_BANKS);
    }
    for (size_t i = 0; i < CELLS; i++) {
        qsort(results[i], rounds, sizeof results[i][0], by_time);
        cell_print(&cells[i], &results[i][rounds / 2], method);
    }
}

// The last hart is the quietest one: Linux boots on the first, and the kernel can be told to
// keep its own work off the last (isolcpus=).
static void settle_down(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sysconf(_SC_NPROCESSORS_CONF) - 1, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("cannot stay on the last hart: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    enum { METHODS, ACCESSES, WARMUP, ROUNDS, CTL, ANONYMOUS, HELP };
    static const struct option OPTIONS[] = {
        {"methods", required_argument, NULL, METHODS},
        {"accesses", required_argument, NULL, ACCESSES},
        {"warmup", required_argument, NULL, WARMUP},
        {"rounds", required_argument, NULL, ROUNDS},
        {"ctl", required_argument, NULL, CTL},
        {"anonymous", no_argument, NULL, ANONYMOUS},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    char all[] = "dram,coarse,fine,extended";
    char *methods = all;
    uint64_t accesses = 12288, warm = 4096, rounds = 5, ctl = NAGORI_CTL_BASE;
    bool anonymous = false;
    for (int o; (o = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (o) {
        case METHODS: methods = optarg; break;
        // A bank has 65536 rows; the warm-up takes some of them.
        case ACCESSES: accesses = parse_number("--accesses", optarg, 1, 49152); break;
        case WARMUP: warm = parse_number("--warmup", optarg, 0, 16384); break;
        case ROUNDS: rounds = parse_number("--rounds", optarg, 1, MAX_ROUNDS); break;
        case CTL: ctl = parse_number("--ctl", optarg, 0, INT64_MAX); break;
        case ANONYMOUS: anonymous = true; break;
        default: fputs(USAGE, o == HELP ? stdout : stderr); return o == HELP ? 0 : 2;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "bench-board: no arguments\n%s", USAGE);
        return 2;
    }
    struct board b = {0};
    if (!anonymous)
        board_open(&b, ctl);
    for (const char *p = methods; *p != '\0';) {
        // Names are checked before the first cell is run.
        char name[32] = {0};
        size_t length = strcspn(p, ",");
        if (length >= sizeof name)
            die("method %s: dram, coarse, fine or extended", p);
        memcpy(name, p, length);
        method_number(name);
        p += length + (p[length] == ',');
    }
    if (!anonymous)
        settle_down();
    if (b.ctl == NULL) {
        all_cells(&b, "none", accesses, warm, (unsigned)rounds);
        return 0;
    }
    const char *before = board_method(&b);
    for (char *name = strtok(methods, ","); name != NULL; name = strtok(NULL, ",")) {
        board_set_method(&b, method_number(name));
        all_cells(&b, name, accesses, warm, (unsigned)rounds);
    }
    board_set_method(&b, method_number(before));
    return 0;
}

// bench-flush: the cost of CFLUSH.D.L1 for lines that are absent, clean or dirty, one line at a
// time and for the whole cache.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "loops.h"

static const char USAGE[] =
    "usage: bench-flush [options]\n"
    "  --lines N         lines that are flushed one by one (64)\n"
    "  --all-lines N     lines that are brought into the cache for a flush of all of it (256)\n"
    "  --repeat N        measurements that are averaged (64)\n"
    "  --method M        dram, coarse, fine or extended (as it is set)\n"
    "  --dram            flush lines of ordinary memory, not of NVMM\n"
    "  --ctl ADDRESS     of the control block\n"
    "  --anonymous       ordinary memory, no control block: to try the program elsewhere\n"
    "Writes go to the start of the NVMM range: what is there is lost.\n";

enum state { ABSENT, CLEAN, DIRTY };
static const char *const STATES[] = {"absent", "clean", "dirty"};

static void prepare(enum state s, volatile char *base, size_t bytes)
{
    loop_flush(base, bytes);
    if (s == CLEAN)
        loop_read(base, bytes, NAGORI_LINE);
    else if (s == DIRTY)
        loop_write(base, bytes, NAGORI_LINE);
    nagori_fence();
}

static void measure(const struct board *b, const char *method, const char *region, bool all,
                    enum state s, volatile char *base, size_t lines, unsigned repeat)
{
    bool with_cycles = cycles_readable();
    uint64_t ns = 0, cycles = 0;
    bool timed = board_timed(b);
    board_set_timed(b, true);
    // The first one warms up.
    for (unsigned i = 0; i <= repeat; i++) {
        prepare(s, base, lines * NAGORI_LINE);
        struct reading t0 = clock_read(with_cycles);
        if (all)
            nagori_cflush_all();
        else
            loop_flush(base, lines * NAGORI_LINE);
        nagori_fence();
        struct reading t1 = clock_read(with_cycles);
        if (i != 0) {
            ns += t1.ns - t0.ns;
            cycles += t1.cycles - t0.cycles;
        }
    }
    board_set_timed(b, timed);
    double flushes = (double)repeat * (all ? 1.0 : (double)lines);
    printf("row op=flush benchmark=%s value=%s method=%s latency_ns=%.1f region=%s lines=%zu",
           all ? "flush_all" : "flush_line", STATES[s], method, (double)ns / flushes, region,
           lines);
    if (with_cycles)
        printf(" cycles=%.2f", (double)cycles / flushes);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    enum { LINES, ALL_LINES, REPEAT, METHOD, DRAM, CTL, ANONYMOUS, HELP };
    static const struct option OPTIONS[] = {
        {"lines", required_argument, NULL, LINES},
        {"all-lines", required_argument, NULL, ALL_LINES},
        {"repeat", required_argument, NULL, REPEAT},
        {"method", required_argument, NULL, METHOD},
        {"dram", no_argument, NULL, DRAM},
        {"ctl", required_argument, NULL, CTL},
        {"anonymous", no_argument, NULL, ANONYMOUS},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    uint64_t lines = 64, all_lines = 256, repeat = 64, ctl = NAGORI_CTL_BASE;
    const char *method = NULL;
    bool dram = false, anonymous = false;
    for (int o; (o = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (o) {
        case LINES: lines = parse_number("--lines", optarg, 1, 1 << 20); break;
        case ALL_LINES: all_lines = parse_number("--all-lines", optarg, 1, 1 << 20); break;
        case REPEAT: repeat = parse_number("--repeat", optarg, 1, 1000000); break;
        case METHOD: method = optarg; break;
        case DRAM: dram = true; break;
        case CTL: ctl = parse_number("--ctl", optarg, 0, INT64_MAX); break;
        case ANONYMOUS: anonymous = true; break;
        default: fputs(USAGE, o == HELP ? stdout : stderr); return o == HELP ? 0 : 2;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "bench-flush: no arguments\n%s", USAGE);
        return 2;
    }

    if (!allowed(nagori_cflush_all))
        die("this machine has no CFLUSH.D.L1 for user programs");

    struct board b = {0};
    if (!anonymous)
        board_open(&b, ctl);
    const char *name = use_method(&b, method);
    // Without a control block, memory is anonymous.
    struct board memory = b;
    if (dram)
        memory.ctl = NULL;
    size_t most = lines > all_lines ? lines : all_lines;
    struct window w = window_map(&memory, 1, most * NAGORI_LINE, true);
    const char *region = memory.ctl != NULL ? "nvmm" : "dram";
    for (enum state s = ABSENT; s <= DIRTY; s++)
        measure(&b, name, region, false, s, w.base, lines, (unsigned)repeat);
    for (enum state s = ABSENT; s <= DIRTY; s++)
        measure(&b, name, region, true, s, w.base, all_lines, (unsigned)repeat);
    return 0;
}

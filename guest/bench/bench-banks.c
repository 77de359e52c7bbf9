// bench-banks: average latency of accesses that go to several NVMM banks in turn.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

static const char USAGE[] =
    "usage: bench-banks [options]\n"
    "  --op read|write   (read)\n"
    "  --banks N         NVMM banks, of 512 MiB, 1 to 8 (1)\n"
    "  --rows N          rows of 8 KiB that are visited in each bank (4096 / banks)\n"
    "  --warmup N        rows visited before, in front of them (1024 / banks)\n"
    "  --repeat N        passes over them (1)\n"
    "  --method M        dram, coarse, fine or extended (as it is set)\n"
    "  --ctl ADDRESS     of the control block\n"
    "  --anonymous       ordinary memory, no control block: to try the program elsewhere\n"
    "Beyond the reach of the DTLB, 128 KiB of 4 KiB pages on the board, an access takes a page walk, too\n"
    "(nagori machine show: dtlb.reach).\n"
    "Writes go to the start of each bank: what is there is lost.\n";

int main(int argc, char **argv)
{
    enum { OP, BANKS, ROWS, WARMUP, REPEAT, METHOD, CTL, ANONYMOUS, HELP };
    static const struct option OPTIONS[] = {
        {"op", required_argument, NULL, OP},         {"banks", required_argument, NULL, BANKS},
        {"rows", required_argument, NULL, ROWS},     {"warmup", required_argument, NULL, WARMUP},
        {"repeat", required_argument, NULL, REPEAT}, {"method", required_argument, NULL, METHOD},
        {"ctl", required_argument, NULL, CTL},       {"anonymous", no_argument, NULL, ANONYMOUS},
        {"help", no_argument, NULL, HELP},           {0},
    };
    enum op op = READ;
    uint64_t banks = 1, rows = 0, warm = UINT64_MAX, repeat = 1, ctl = NAGORI_CTL_BASE;
    const char *method = NULL;
    bool anonymous = false;
    for (int o; (o = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (o) {
        case OP: op = parse_op(optarg); break;
        case BANKS: banks = parse_number("--banks", optarg, 1, 8); break;
        case ROWS: rows = parse_number("--rows", optarg, 1, 65536); break;
        case WARMUP: warm = parse_number("--warmup", optarg, 0, 65536); break;
        case REPEAT: repeat = parse_number("--repeat", optarg, 1, 1000000); break;
        case METHOD: method = optarg; break;
        case CTL: ctl = parse_number("--ctl", optarg, 0, INT64_MAX); break;
        case ANONYMOUS: anonymous = true; break;
        default: fputs(USAGE, o == HELP ? stdout : stderr); return o == HELP ? 0 : 2;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "bench-banks: no arguments\n%s", USAGE);
        return 2;
    }
    struct board b = {0};
    if (!anonymous)
        board_open(&b, ctl);
    struct cell c = {
        .op = op,
        .kind = NBANK,
        .value = banks,
        .bytes = (rows != 0 ? rows : 4096 / banks) * ROW_STEP,
        .warm = (warm != UINT64_MAX ? warm : 1024 / banks) * ROW_STEP,
        .repeat = (unsigned)repeat,
    };
    struct window w = cell_window(&b, &c);
    cell_run(&b, &c, &w, use_method(&b, method));
    return 0;
}

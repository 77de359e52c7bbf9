// bench-locality: average latency of accesses that are a stride apart.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

static const char USAGE[] =
    "usage: bench-locality [options]\n"
    "  --op read|write   (read)\n"
    "  --stride N        bytes from access to access (4096)\n"
    "  --size N          bytes that are gone through (4096 strides)\n"
    "  --warmup N        bytes gone through before, in front of them (1024 strides)\n"
    "  --repeat N        passes over them (1)\n"
    "  --method M        dram, coarse, fine or extended (as it is set)\n"
    "  --ctl ADDRESS     of the control block\n"
    "  --anonymous       ordinary memory, no control block: to try the program elsewhere\n"
    "Beyond the reach of the DTLB, 128 KiB of 4 KiB pages on the board, an access takes a page walk, too\n"
    "(nagori machine show: dtlb.reach).\n"
    "Writes go to the start of the NVMM range: what is there is lost.\n";

int main(int argc, char **argv)
{
    enum { OP, STEP, SIZE, WARMUP, REPEAT, METHOD, CTL, ANONYMOUS, HELP };
    static const struct option OPTIONS[] = {
        {"op", required_argument, NULL, OP},         {"stride", required_argument, NULL, STEP},
        {"size", required_argument, NULL, SIZE},     {"warmup", required_argument, NULL, WARMUP},
        {"repeat", required_argument, NULL, REPEAT}, {"method", required_argument, NULL, METHOD},
        {"ctl", required_argument, NULL, CTL},       {"anonymous", no_argument, NULL, ANONYMOUS},
        {"help", no_argument, NULL, HELP},           {0},
    };
    enum op op = READ;
    uint64_t stride = 4096, size = 0, warm = UINT64_MAX, repeat = 1, ctl = NAGORI_CTL_BASE;
    const char *method = NULL;
    bool anonymous = false;
    for (int o; (o = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (o) {
        case OP: op = parse_op(optarg); break;
        case STEP: stride = parse_number("--stride", optarg, 8, 1 << 30); break;
        case SIZE: size = parse_number("--size", optarg, 8, 1ull << 40); break;
        case WARMUP: warm = parse_number("--warmup", optarg, 0, 1ull << 40); break;
        case REPEAT: repeat = parse_number("--repeat", optarg, 1, 1000000); break;
        case METHOD: method = optarg; break;
        case CTL: ctl = parse_number("--ctl", optarg, 0, INT64_MAX); break;
        case ANONYMOUS: anonymous = true; break;
        default: fputs(USAGE, o == HELP ? stdout : stderr); return o == HELP ? 0 : 2;
        }
    }
    if (optind != argc || stride % 8 != 0) {
        fprintf(stderr, "bench-locality: a stride is a multiple of 8; no arguments\n%s", USAGE);
        return 2;
    }
    struct board b = {0};
    if (!anonymous)
        board_open(&b, ctl);
    struct cell c = {
        .op = op,
        .kind = STRIDE,
        .value = stride,
        .bytes = size != 0 ? size : 4096 * stride,
        .warm = warm != UINT64_MAX ? warm / stride * stride : 1024 * stride,
        .repeat = (unsigned)repeat,
    };
    struct window w = cell_window(&b, &c);
    cell_run(&b, &c, &w, use_method(&b, method));
    return 0;
}

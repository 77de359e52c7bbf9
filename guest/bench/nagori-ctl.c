// nagori-ctl: reads and changes the machine's memory controller, timing and statistics.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char USAGE[] =
    "usage: nagori-ctl [-a ADDRESS] COMMAND\n"
    "  show                    the settings\n"
    "  method [NAME]           dram, coarse, fine or extended\n"
    "  timing [on|off]         the timing model\n"
    "  get REGISTER            by its name in nagori_regs.h, such as ADDED_RCD\n"
    "  set REGISTER NUMBER\n"
    "  stats                   the counters\n"
    "  stats reset\n"
    "  stats dump [LABEL]      have the host record them, under a number\n"
    "  snapshot [LABEL]        have the host save the whole machine, if it wants to; the label is a\n"
    "                          number, or text of up to 64 characters\n";

enum { LABEL_TEXT_MAX = 64 };

struct name {
    const char *name;
    unsigned long offset;
};

#define R(name) {#name, NAGORI_CTL_##name}
static const struct name SETTINGS[] = {
    R(HARTS),
    R(CORE_HZ),
    R(MEMORY_BASE),
    R(MEMORY_SIZE),
    R(NVMM_BASE),
    R(NVMM_SIZE),
    R(BANKS),
    R(CLOCK_PS),
    R(TIMED),
    R(WARM_UP),
    R(METHOD),
    R(COARSE_READ),
    R(COARSE_WRITE),
    R(ADDED_RCD),
    R(ADDED_RP),
    R(ADDED_RAS),
    R(BASE_WAIT),
    R(BASE_RCD),
    R(BASE_RAS),
    R(BASE_RTP),
    R(BASE_WTP),
    R(BASE_RP),
    R(REFRESH_INTERVAL),
    R(REFRESH_DURATION),
    R(LABEL),
    {0},
};
static const struct name OTHERS[] = {
    R(ID),       R(VERSION),       R(ERROR),     R(ERROR_OFFSET), R(ERROR_VALUE),
    R(ERROR_COUNT), R(STATS_CONTROL), R(TIME_NS),   R(STATS_FROM_NS), R(CLOCKS),
    R(REFRESHES),   R(REFRESH_TICKS_LOST), R(HOST_REQUEST), {0},
};

#define M(name) {#name, NAGORI_MEM_##name}
static const struct name MEMORY[] = {
    M(READS),       M(WRITES),           M(READ_BYTES),       M(WRITE_BYTES), M(ROW_HITS),
    M(BANK_SWITCHES), M(ACTIVATIONS),    M(PRECHARGES_CLEAN), M(PRECHARGES_DIRTY),
    M(REFRESHES),   {0},
};

#define H(name) {#name, NAGORI_HART_##name}
static const struct name HART[] = {
    H(INSTRUCTIONS),   H(CYCLES),          H(L1D_LOAD_MISSES), H(L1D_STORE_MISSES),
    H(L1D_WALK_MISSES), H(L1D_UPGRADES),   H(L1D_WRITEBACKS),  H(L1D_FLUSHES),
    H(PROBES),         H(L1I_MISSES),      H(DTLB_MISSES),     H(ITLB_MISSES),
    H(MISPREDICTS),    H(MEMORY_STALL_CYCLES), H(EXCEPTIONS),  H(INTERRUPTS),
    H(IDLE_CYCLES),    {0},
};

static const struct name *find(const struct name *list, const char *name)
{
    for (; list->name != NULL; list++)
        if (strcmp(list->name, name) == 0)
            return list;
    return NULL;
}

static unsigned long register_offset(const char *name)
{
    const struct name *r = find(SETTINGS, name);
    if (r == NULL)
        r = find(OTHERS, name);
    if (r == NULL)
        die("there is no register %s; `nagori-ctl show` names the settings", name);
    return r->offset;
}

static void print_register(const struct board *b, const struct name *r)
{
    unsigned long long value = nagori_read(b->ctl, r->offset);
    unsigned long o = r->offset;
    bool hex = o == NAGORI_CTL_ID || o == NAGORI_CTL_MEMORY_BASE || o == NAGORI_CTL_MEMORY_SIZE ||
               o == NAGORI_CTL_NVMM_BASE || o == NAGORI_CTL_NVMM_SIZE;
    printf(hex ? "%-18s %#llx" : "%-18s %llu", r->name, value);
    if (o == NAGORI_CTL_METHOD)
        printf(" (%s)", method_name(value));
    printf("\n");
}

// One line for each counter, one column for each of `count` blocks of counters.
static void print_counters(const struct board *b, const struct name *list, const char *title,
                           unsigned long block, unsigned long step, unsigned count)
{
    printf("%-20s", title);
    for (unsigned i = 0; i < count; i++)
        printf(" %12u", i);
    printf("\n");
    for (; list->name != NULL; list++) {
        printf("%-20s", list->name);
        for (unsigned i = 0; i < count; i++)
            printf(" %12llu",
                   (unsigned long long)nagori_read(b->ctl, block + i * step + list->offset));
        printf("\n");
    }
}

static void print_stats(const struct board *b)
{
    for (const struct name *r = OTHERS; r->name != NULL; r++)
        if (r->offset >= NAGORI_CTL_TIME_NS)
            print_register(b, r);
    unsigned banks = (unsigned)nagori_read(b->ctl, NAGORI_CTL_BANKS);
    unsigned harts = (unsigned)nagori_read(b->ctl, NAGORI_CTL_HARTS);
    print_counters(b, MEMORY, "region (1: NVMM)", NAGORI_CTL_REGION(0),
                   NAGORI_CTL_REGION(1) - NAGORI_CTL_REGION(0), 2);
    print_counters(b, MEMORY, "bank", NAGORI_CTL_BANK(0), NAGORI_CTL_BANK(1) - NAGORI_CTL_BANK(0), banks);
    print_counters(b, HART, "hart", NAGORI_CTL_HART(0), NAGORI_CTL_HART(1) - NAGORI_CTL_HART(0), harts);

    static const char *const KINDS[] = {"DRAM reads", "DRAM writes", "NVMM reads", "NVMM writes"};
    for (unsigned k = 0; k < 4; k++) {
        uint64_t count = nagori_read(b->ctl, NAGORI_CTL_LATENCY(k) + NAGORI_LATENCY_COUNT);
        uint64_t sum = nagori_read(b->ctl, NAGORI_CTL_LATENCY(k) + NAGORI_LATENCY_SUM);
        printf("latency of %s: %llu", KINDS[k], (unsigned long long)count);
        if (count != 0)
            printf(", mean %.1f ns", (double)sum / (double)count);
        printf("\n");
        for (unsigned i = 0; i < 32; i++) {
            unsigned long offset = NAGORI_CTL_LATENCY(k) + NAGORI_LATENCY_BUCKETS + i * 8;
            uint64_t n = nagori_read(b->ctl, offset);
            if (n != 0)
                printf("  from %10llu ns %12llu\n", i == 0 ? 0 : 1ull << i, (unsigned long long)n);
        }
    }
}

static bool is_number(const char *text)
{
    char *end;
    strtoull(text, &end, 0);
    return text[0] >= '0' && text[0] <= '9' &&
           (*end == '\0' || (strchr("kKMG", *end) != NULL && end[1] == '\0'));
}

// Up to eight characters as a register's value, the first in the lowest byte.
static uint64_t packed(const char *text)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8 && text[i] != '\0'; i++)
        value |= (uint64_t)(unsigned char)text[i] << 8 * i;
    return value;
}

static void check_label(const char *text)
{
    if (is_number(text))
        return;
    size_t length = strlen(text);
    bool plain = length > 0 && length <= LABEL_TEXT_MAX;
    for (const char *c = text; *c != '\0'; c++)
        plain = plain && *c >= ' ' && *c <= '~';
    if (!plain)
        die("label `%s`: give a number, or up to %d printable ASCII characters", text,
            LABEL_TEXT_MAX);
}

static void set_label(const struct board *b, const char *text)
{
    if (is_number(text)) {
        board_set(b, "LABEL", NAGORI_CTL_LABEL, parse_number("LABEL", text, 0, UINT64_MAX));
        return;
    }
    board_set(b, "LABEL", NAGORI_CTL_LABEL, packed(text));
    for (size_t i = 0; i < strlen(text); i += 8)
        board_set(b, "LABEL_TEXT", NAGORI_CTL_LABEL_TEXT, packed(text + i));
}

static int usage(void)
{
    fputs(USAGE, stderr);
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t phys = NAGORI_CTL_BASE;
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "-a") == 0) {
        phys = parse_number("-a", argv[2], 0, INT64_MAX);
        at = 3;
    }
    int left = argc - at;
    const char *command = left > 0 ? argv[at] : "";
    const char *first = left > 1 ? argv[at + 1] : NULL;
    const char *second = left > 2 ? argv[at + 2] : NULL;
    if (left < 1 || left > 3)
        return usage();

    struct board b;
    if (strcmp(command, "show") == 0 && left == 1) {
        board_open(&b, phys);
        for (const struct name *r = SETTINGS; r->name != NULL; r++)
            print_register(&b, r);
    } else if (strcmp(command, "method") == 0 && left <= 2) {
        unsigned method = first != NULL ? method_number(first) : 0;
        board_open(&b, phys);
        if (first != NULL)
            board_set_method(&b, method);
        else
            printf("%s\n", board_method(&b));
    } else if (strcmp(command, "timing") == 0 && left <= 2) {
        bool on = first != NULL && strcmp(first, "on") == 0;
        if (first != NULL && !on && strcmp(first, "off") != 0)
            return usage();
        board_open(&b, phys);
        if (first != NULL)
            board_set_timed(&b, on);
        else
            printf("%s\n", board_timed(&b) ? "on" : "off");
    } else if (strcmp(command, "get") == 0 && left == 2) {
        unsigned long offset = register_offset(first);
        board_open(&b, phys);
        printf("%llu\n", (unsigned long long)nagori_read(b.ctl, offset));
    } else if (strcmp(command, "set") == 0 && left == 3) {
        unsigned long offset = register_offset(first);
        uint64_t value = parse_number(first, second, 0, UINT64_MAX);
        board_open(&b, phys);
        board_set(&b, first, offset, value);
    } else if (strcmp(command, "stats") == 0 && left == 1) {
        board_open(&b, phys);
        print_stats(&b);
    } else if (strcmp(command, "stats") == 0 && left == 2 && strcmp(first, "reset") == 0) {
        board_open(&b, phys);
        board_set(&b, "STATS_CONTROL", NAGORI_CTL_STATS_CONTROL, NAGORI_STATS_RESET);
    } else if (strcmp(command, "stats") == 0 && strcmp(first, "dump") == 0) {
        uint64_t label = second != NULL ? parse_number("LABEL", second, 0, UINT64_MAX) : 0;
        board_open(&b, phys);
        if (second != NULL)
            board_set(&b, "LABEL", NAGORI_CTL_LABEL, label);
        board_set(&b, "STATS_CONTROL", NAGORI_CTL_STATS_CONTROL, NAGORI_STATS_DUMP);
    } else if (strcmp(command, "snapshot") == 0 && left <= 2) {
        if (first != NULL)
            check_label(first);
        board_open(&b, phys);
        if (first != NULL)
            set_label(&b, first);
        board_set(&b, "HOST_REQUEST", NAGORI_CTL_HOST_REQUEST, NAGORI_HOST_SNAPSHOT);
    } else {
        return usage();
    }
    return 0;
}

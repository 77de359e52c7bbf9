#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "loops.h"

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    unsigned shift = 0;
    if (*end == 'k' || *end == 'K')
        shift = 10;
    else if (*end == 'M')
        shift = 20;
    else if (*end == 'G')
        shift = 30;
    if (shift != 0)
        end++;
    bool bad = errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' ||
               (shift != 0 && value >> (64 - shift) != 0);
    value <<= shift;
    if (bad || value < min || value > max)
        die("%s %s: give a number from %llu to %llu (suffixes k, M, G)", option, text,
            (unsigned long long)min, (unsigned long long)max);
    return value;
}

// --- memory ---

static char *map(const struct board *b, char *place, size_t bytes, uint64_t phys, bool write)
{
    int prot = PROT_READ | (write ? PROT_WRITE : 0);
    void *p;
    if (b->ctl != NULL) {
        int fd = open("/dev/mem", (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
        if (fd < 0)
            die("/dev/mem: %s (are you root?)", strerror(errno));
        p = mmap(place, bytes, prot, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, (off_t)phys);
        close(fd);
    } else {
        p = mmap(place, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        // Before the first touch, so that there are no large pages.
        if (p != MAP_FAILED)
            madvise(p, bytes, MADV_NOHUGEPAGE);
    }
    if (p == MAP_FAILED)
        die("cannot map %zu bytes at %#llx: %s", bytes, (unsigned long long)phys, strerror(errno));
    return p;
}

struct window window_map(const struct board *b, size_t banks, size_t bytes, bool write)
{
    // The windows of the banks lie side by side, each with its own leaf table: the non-leaf
    // entries of all of them fit the page-walk cache, and equal offsets use equal table slots.
    size_t pitch = (bytes + LEAF_SPAN - 1) / LEAF_SPAN * LEAF_SPAN;
    struct window w = {.bytes = (bytes + PAGE - 1) / PAGE * PAGE, .bank = pitch};
    uint64_t needed = (banks - 1) * (uint64_t)BANK_BYTES + w.bytes;
    if (b->ctl != NULL && needed > b->nvmm_bytes)
        die("%llu MiB of NVMM needed, but there are %llu MiB", (unsigned long long)(needed >> 20),
            (unsigned long long)(b->nvmm_bytes >> 20));

    size_t range = (banks + 1) * pitch;
    char *p = mmap(NULL, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        die("cannot reserve %zu MiB of addresses: %s", range >> 20, strerror(errno));
    p = (char *)(((uintptr_t)p + LEAF_SPAN - 1) / LEAF_SPAN * LEAF_SPAN);
    w.base = p;

    for (size_t i = 0; i < banks; i++) {
        char *bank = map(b, p + i * pitch, w.bytes, b->nvmm_base + i * BANK_BYTES, write);
        for (size_t off = 0; off < w.bytes; off += PAGE) {
            // A store, too: without hardware that sets it, the dirty bit costs a fault.
            volatile uint64_t *word = (volatile uint64_t *)(bank + off);
            uint64_t value = *word;
            if (write || b->ctl == NULL)
                *word = value;
        }
    }
    return w;
}

void window_unmap(struct window *w, size_t banks)
{
    for (size_t i = 0; i < banks; i++)
        munmap((char *)w->base + i * w->bank, w->bytes);
}

// --- time ---

static inline uint64_t rdcycle(void)
{
    uint64_t value;
    __asm__ volatile("rdcycle %0" : "=r"(value));
    return value;
}

static void read_cycles(void)
{
    rdcycle();
}

static sigjmp_buf denied;

static void on_fault(int signal)
{
    (void)signal;
    siglongjmp(denied, 1);
}

bool allowed(void (*f)(void))
{
    static const int SIGNALS[] = {SIGILL, SIGSEGV, SIGBUS};
    enum { COUNT = sizeof SIGNALS / sizeof SIGNALS[0] };
    struct sigaction action = {.sa_handler = on_fault}, old[COUNT];
    volatile bool fine = false;
    for (int i = 0; i < COUNT; i++)
        sigaction(SIGNALS[i], &action, &old[i]);
    if (sigsetjmp(denied, 1) == 0) {
        f();
        fine = true;
    }
    for (int i = 0; i < COUNT; i++)
        sigaction(SIGNALS[i], &old[i], NULL);
    return fine;
}

bool cycles_readable(void)
{
    return allowed(read_cycles);
}

struct reading clock_read(bool with_cycles)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (struct reading){
        .ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec,
        .cycles = with_cycles ? rdcycle() : 0,
    };
}

// --- cells ---

enum op parse_op(const char *text)
{
    if (strcmp(text, "read") == 0)
        return READ;
    if (strcmp(text, "write") == 0)
        return WRITE;
    die("--op %s: read or write", text);
}

const char *op_name(enum op op)
{
    return op == READ ? "read" : "write";
}

const char *use_method(const struct board *b, const char *asked)
{
    if (asked != NULL)
        board_set_method(b, method_number(asked));
    return board_method(b);
}

static void pass(const struct cell *c, const struct window *w, size_t from, size_t bytes)
{
    volatile char *base = w->base + from;
    if (c->kind == STRIDE && c->op == READ)
        loop_read(base, bytes, c->value);
    else if (c->kind == STRIDE)
        loop_write(base, bytes, c->value);
    else if (c->op == READ)
        loop_read_banks(base, bytes, ROW_STEP, w->bank, c->value);
    else
        loop_write_banks(base, bytes, ROW_STEP, w->bank, c->value);
}

struct window cell_window(const struct board *b, const struct cell *c)
{
    return window_map(b, c->kind == NBANK ? c->value : 1, c->warm + c->bytes, c->op == WRITE);
}

struct result cell_measure(const struct board *b, const struct cell *c, const struct window *w)
{
    size_t banks = c->kind == NBANK ? c->value : 1;
    size_t step = c->kind == NBANK ? ROW_STEP : c->value;
    if (c->kind == NBANK && c->warm + c->bytes > BANK_BYTES)
        die("%zu bytes of each bank asked for, but a bank has %zu", c->warm + c->bytes,
            BANK_BYTES);
    bool with_cycles = cycles_readable();

    bool timed = board_timed(b);
    board_set_timed(b, true);
    // The lines of the measured part are not touched here: nothing of it is cached later.
    pass(c, w, 0, c->warm);
    struct reading t0 = clock_read(with_cycles);
    for (unsigned i = 0; i < c->repeat; i++)
        pass(c, w, c->warm, c->bytes);
    struct reading t1 = clock_read(with_cycles);
    board_set_timed(b, timed);
    return (struct result){
        .took = {t1.ns - t0.ns, t1.cycles - t0.cycles},
        .accesses = (c->bytes + step - 1) / step * banks * c->repeat,
    };
}

void cell_print(const struct cell *c, const struct result *r, const char *method)
{
    printf("row op=%s benchmark=%s value=%zu method=%s latency_ns=%.1f accesses=%llu",
           op_name(c->op), c->kind == NBANK ? "nbank" : "stride", c->value, method,
           (double)r->took.ns / (double)r->accesses, (unsigned long long)r->accesses);
    if (cycles_readable())
        printf(" cycles=%.2f", (double)r->took.cycles / (double)r->accesses);
    printf("\n");
    fflush(stdout);
}

void cell_run(const struct board *b, const struct cell *c, const struct window *w,
              const char *method)
{
    struct result r = cell_measure(b, c, w);
    cell_print(c, &r, method);
}

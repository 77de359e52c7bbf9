#include <string.h>

#include "bench.h"

static const struct {
    const char *name;
    unsigned number;
} METHODS[] = {
    {"dram", NAGORI_METHOD_DRAM},
    {"coarse", NAGORI_METHOD_COARSE},
    {"fine", NAGORI_METHOD_FINE},
    {"extended", NAGORI_METHOD_EXTENDED},
};

enum { METHOD_COUNT = sizeof METHODS / sizeof METHODS[0] };

static volatile void *probed;

static void probe(void)
{
    nagori_read(probed, NAGORI_CTL_ID);
}

void board_open(struct board *b, uint64_t phys)
{
    *b = (struct board){.ctl = nagori_open(phys)};
    if (b->ctl == NULL)
        die("no control block at %#llx: %s", (unsigned long long)phys, strerror(errno));
    // Where there is no device at all, the bus answers with a fault.
    probed = b->ctl;
    if (!allowed(probe))
        die("no control block at %#llx: nothing answers there", (unsigned long long)phys);
    uint64_t magic = nagori_read(b->ctl, NAGORI_CTL_ID);
    uint64_t version = nagori_read(b->ctl, NAGORI_CTL_VERSION);
    if (magic != NAGORI_ID || version != NAGORI_VERSION)
        die("no control block of version %u at %#llx: it reads %#llx %#llx", NAGORI_VERSION,
            (unsigned long long)phys, (unsigned long long)magic, (unsigned long long)version);
    b->nvmm_base = nagori_read(b->ctl, NAGORI_CTL_NVMM_BASE);
    b->nvmm_bytes = nagori_read(b->ctl, NAGORI_CTL_NVMM_SIZE);
}

void board_set(const struct board *b, const char *name, unsigned long offset, uint64_t value)
{
    static const char *const REASONS[] = {
        [NAGORI_ERROR_IS_UNKNOWN] = "there is no such register",
        [NAGORI_ERROR_IS_READ_ONLY] = "the register is read-only",
        [NAGORI_ERROR_IS_UPPER_HALF] = "the upper half cannot be written by itself",
        [NAGORI_ERROR_IS_VALUE] = "the value is out of range",
        [NAGORI_ERROR_IS_ALIGNMENT] = "the value is not a multiple of the bank size",
        [NAGORI_ERROR_IS_STATE] = "not possible in this state of the machine",
    };
    if (b->ctl == NULL)
        return;
    uint64_t error = nagori_set(b->ctl, offset, value);
    if (error == 0)
        return;
    bool known = error < sizeof REASONS / sizeof REASONS[0] && REASONS[error] != NULL;
    die("%s = %llu: %s", name, (unsigned long long)value, known ? REASONS[error] : "rejected");
}

unsigned method_number(const char *name)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++)
        if (strcmp(name, METHODS[i].name) == 0)
            return METHODS[i].number;
    die("method %s: dram, coarse, fine or extended", name);
}

const char *method_name(uint64_t method)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++)
        if (method == METHODS[i].number)
            return METHODS[i].name;
    return "unknown";
}

const char *board_method(const struct board *b)
{
    return b->ctl == NULL ? "none" : method_name(nagori_read(b->ctl, NAGORI_CTL_METHOD));
}

void board_set_method(const struct board *b, unsigned method)
{
    board_set(b, "METHOD", NAGORI_CTL_METHOD, method);
}

bool board_timed(const struct board *b)
{
    return b->ctl != NULL && nagori_read(b->ctl, NAGORI_CTL_TIMED) == NAGORI_TIMED;
}

void board_set_timed(const struct board *b, bool on)
{
    board_set(b, "TIMED", NAGORI_CTL_TIMED, on ? NAGORI_TIMED : NAGORI_FUNCTIONAL);
}

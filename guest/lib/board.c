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

void board_open(struct board *b, uint64_t phys)
{
    *b = (struct board){.present = true};
    if (nagori_ctl_open(&b->ctl, phys) != 0)
        die("no control block at %#llx: %s", (unsigned long long)phys, strerror(errno));
    uint64_t id = nagori_ctl_read(&b->ctl, NAGORI_CTL_ID);
    if (id != NAGORI_ID)
        die("no control block at %#llx: it reads %#llx", (unsigned long long)phys,
            (unsigned long long)id);
    b->nvmm_base = nagori_ctl_read(&b->ctl, NAGORI_CTL_NVMM_BASE);
    b->nvmm_bytes = nagori_ctl_read(&b->ctl, NAGORI_CTL_NVMM_SIZE);
}

unsigned method_number(const char *name)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++)
        if (strcmp(name, METHODS[i].name) == 0)
            return METHODS[i].number;
    die("method %s: dram, coarse, fine or extended", name);
}

const char *method_name(unsigned method)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++)
        if (method == METHODS[i].number)
            return METHODS[i].name;
    return "unknown";
}

unsigned board_method(const struct board *b)
{
    return (unsigned)nagori_ctl_read(&b->ctl, NAGORI_CTL_METHOD);
}

void board_set_method(const struct board *b, unsigned method)
{
    if (b->present)
        nagori_ctl_write(&b->ctl, NAGORI_CTL_METHOD, method);
}

void board_set_timed(const struct board *b, bool on)
{
    if (b->present)
        nagori_ctl_write(&b->ctl, NAGORI_CTL_TIMED, on);
}

bool board_timed(const struct board *b)
{
    return b->present && nagori_ctl_read(&b->ctl, NAGORI_CTL_TIMED) != 0;
}

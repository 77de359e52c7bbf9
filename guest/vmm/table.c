/* The table in hardware, by the machine's control block (docs/registers.md). */
#include "nagori_regs.h"
#include "vmm.h"

enum { CONSTANT = 1, FULL = 2, SOFTWARE = 6 };

static volatile u32 lock;

static volatile u64 *reg(u64 offset)
{
    return (volatile u64 *)(NAGORI_CTL_BASE + offset);
}

static void take(void)
{
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        ;
}

static void release(void)
{
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

/* Returns whether the last write was accepted. */
static int accepted(void)
{
    u64 error = *reg(NAGORI_CTL_ERROR);
    if (error)
        *reg(NAGORI_CTL_ERROR) = 0;
    return !error;
}

static int put(u64 vm, u64 from, u64 to, u64 size, u64 command)
{
    *reg(NAGORI_CTL_IOMAP_VM) = vm;
    *reg(NAGORI_CTL_IOMAP_FROM) = from;
    *reg(NAGORI_CTL_IOMAP_TO) = to;
    *reg(NAGORI_CTL_IOMAP_SIZE_LOG2) = lowest(size);
    *reg(NAGORI_CTL_IOMAP_RIGHTS) = 3;
    accepted();
    *reg(NAGORI_CTL_IOMAP_COMMAND) = command;
    return accepted();
}

/* Numbers of VMs begin with 1: harts and devices that belong to nobody have 0. */
static u64 number(const struct vm *vm)
{
    return vm - vms + 1;
}

void set_hart_vm(u64 hart, u64 vm)
{
    take();
    *reg(NAGORI_CTL_IOMAP_HART) = hart;
    *reg(NAGORI_CTL_IOMAP_HART_VM) = vm;
    release();
}

/* Entries of one table. The place is counted on, if the table does not choose it. */
static void fill(int devices, u64 kind, u64 *place, const struct vm *vm, u64 from, u64 to, u64 size)
{
    *reg(NAGORI_CTL_IOMAP_TABLE) = devices;
    *reg(NAGORI_CTL_IOMAP_PLACE) = *place;
    int chooses = kind != FULL && kind != SOFTWARE;
    if (*place >= *reg(NAGORI_CTL_IOMAP_PLACES))
        fatal("the I/O table has too few entries");
    if (!put(number(vm), from, to, size, chooses ? NAGORI_IOMAP_FILL : NAGORI_IOMAP_WRITE))
        fatal("the I/O table refuses an entry");
    ++*place;
}

/* Everything that is known before the VMs start. Small tables get the ranges of the harts at the first access. Returns
 * whether the machine has a table. */
int fill_table(void)
{
    u64 kind = *reg(NAGORI_CTL_IOMAP_KIND), place = 0, device_place = 0;
    if (!kind) {
        if (by_table)
            fatal("the partition file wants the I/O table, and the machine has none");
        return 0;
    }
    /* Where we translate, devices at their own places are reached through the table, which then has to know them. */
    if (!by_table && kind != FULL)
        fatal("this kind of I/O table works with `io table` only");
    *reg(NAGORI_CTL_ERROR) = 0;
    *reg(NAGORI_CTL_IOMAP_TABLE) = 1;
    int devices = accepted() && kind != CONSTANT;
    *reg(NAGORI_CTL_IOMAP_TABLE) = 0;
    for (struct vm *v = vms; v < vms + vm_count; v++) {
        for (u64 n = 1; n < 32; n++) {
            *reg(NAGORI_CTL_IOMAP_DEVICE) = n;
            if (v->sources >> n & 1)
                *reg(NAGORI_CTL_IOMAP_DEVICE_VM) = number(v);
        }
        /* Memory in naturally aligned parts. */
        for (u64 at = v->memory, end = v->memory + v->size; devices && at < end;) {
            u64 size = at & -at;
            while (size > end - at)
                size >>= 1;
            fill(1, kind, &device_place, v, at, at, size);
            at += size;
        }
        for (int i = 0; kind == FULL && i < v->map_count; i++)
            fill(0, kind, &place, v, v->maps[i].from, v->maps[i].to, v->maps[i].size);
    }
    *reg(NAGORI_CTL_IOMAP_TABLE) = 0;
    return 1;
}

/* Puts the range that holds an address into a small table. Returns 0 if it was there: then the device has refused. */
int refill(struct vm *vm, u64 addr)
{
    static u64 oldest;
    u64 kind = *reg(NAGORI_CTL_IOMAP_KIND);
    if (kind == CONSTANT || kind == FULL)
        return 0;
    for (int i = 0; i < vm->map_count; i++) {
        struct map *m = &vm->maps[i];
        if (!within(addr, 1, m->from, m->size))
            continue;
        take();
        int software = kind == SOFTWARE;
        u64 places = *reg(NAGORI_CTL_IOMAP_PLACES);
        *reg(NAGORI_CTL_IOMAP_PLACE) = oldest;
        int done = put(number(vm), m->from, m->to, m->size, software ? NAGORI_IOMAP_WRITE : NAGORI_IOMAP_FILL);
        if (software && done)
            oldest = (oldest + 1) % places;
        vm->refills += done;
        release();
        return done;
    }
    return 0;
}

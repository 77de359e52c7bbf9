/* SBI 2.0, as far as Linux needs it. */
#include "vmm.h"

enum { OK = 0, FAILED = -1, NOT_SUPPORTED = -2, INVALID = -3, DENIED = -4, BAD_ADDRESS = -5, AVAILABLE = -6 };
enum { STARTED, STOPPED, START_PENDING, STOP_PENDING, SUSPENDED };
enum {
    BASE = 0x10, TIME = 0x54494d45, IPI = 0x735049, RFENCE = 0x52464e43, HSM = 0x48534d, SRST = 0x53525354,
    DBCN = 0x4442434e, PMU = 0x504d55,
};
enum { FENCE_I = 1, SFENCE = 2, SFENCE_ASID = 3 };

#define CLINT 0x2000000ull
#define MSIP(hart) (*(volatile u32 *)(CLINT + 4 * (hart)))
#define MTIMECMP(hart) (*(volatile u64 *)(CLINT + 0x4000 + 8 * (hart)))

struct result {
    i64 error, value;
};

static struct result ok(i64 value)
{
    return (struct result){OK, value};
}

static struct result error(i64 code)
{
    return (struct result){code, 0};
}

static const u64 extensions[] = {BASE, TIME, IPI, RFENCE, HSM, SRST, DBCN, PMU};

static struct result base(u64 function, u64 a0)
{
    switch (function) {
    case 0:
        return ok(2 << 24);
    case 1: /* No number is registered for this monitor. */
    case 2:
        return ok(function == 1 ? 0x4e41 : 1);
    case 3:
        for (u32 i = 0; i < sizeof extensions / sizeof *extensions; i++)
            if (extensions[i] == a0)
                return ok(1);
        return ok(0);
    case 4:
        return ok(csr_read("mvendorid"));
    case 5:
        return ok(csr_read("marchid"));
    case 6:
        return ok(csr_read("mimpid"));
    }
    return error(NOT_SUPPORTED);
}

static void set_timer(const struct hart *h, u64 at)
{
    if (csr_read("0x30a") >> 63) { /* menvcfg.STCE: the hart has stimecmp */
        csr_write("0x14d", at);
        return;
    }
    csr_clear("mip", 1 << IRQ_S_TIMER);
    MTIMECMP(h->id) = at;
    csr_set("mie", 1 << IRQ_M_TIMER);
}

/* Harts of the VM that a mask names; 0 if one of them is not its own. */
static u64 targets(const struct vm *vm, u64 mask, u64 first)
{
    if (first == ~0ull)
        return vm->harts;
    if (first >= MAX_HARTS || (mask << first) >> first != mask)
        return 0;
    mask <<= first;
    return mask & ~vm->harts ? 0 : mask;
}

static void fence(u64 kind, u64 start, u64 size, u64 asid)
{
    if (kind == FENCE_I) {
        asm volatile("fence.i" ::: "memory");
    } else if (size > 64 * 4096 || start + size < start || (!start && !size)) {
        asm volatile("sfence.vma" ::: "memory");
    } else {
        /* Counted: the last page may be that of the end of the address space. */
        u64 at = start & ~4095ull;
        for (u64 n = (start - at + size + 4095) >> 12; n; n--, at += 4096)
            if (kind == SFENCE)
                asm volatile("sfence.vma %0" ::"r"(at) : "memory");
            else
                asm volatile("sfence.vma %0, %1" ::"r"(at), "r"(asid) : "memory");
    }
}

void handle_requests(struct hart *h)
{
    MSIP(h->id) = 0;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&h->ipi, 0, __ATOMIC_ACQ_REL))
        csr_set("mip", 1 << IRQ_S_SOFT);
    u64 kind = __atomic_load_n(&h->fence, __ATOMIC_ACQUIRE);
    if (kind) {
        fence(kind, h->fence_start, h->fence_size, h->fence_asid);
        __atomic_store_n(&h->fence, 0, __ATOMIC_RELEASE);
    }
    if (h->state == STOP_PENDING)
        wait_to_start(h);
}

static struct result remote_fence(struct hart *h, u64 kind, u64 mask, const u64 *args)
{
    static volatile u32 locks[MAX_VMS];
    volatile u32 *lock = &locks[h->vm - vms];
    /* Another hart that holds it may wait for us. */
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        handle_requests(h);
    for (u64 i = 0; i < hart_count; i++) {
        struct hart *to = &harts[i];
        if (!(mask >> i & 1) || to == h || to->state != STARTED)
            continue;
        to->fence_start = args[2];
        to->fence_size = args[3];
        to->fence_asid = args[4];
        __atomic_store_n(&to->fence, kind, __ATOMIC_RELEASE);
        MSIP(i) = 1;
    }
    if (mask >> h->id & 1)
        fence(kind, args[2], args[3], args[4]);
    for (u64 i = 0; i < hart_count; i++)
        while (mask >> i & 1 && harts[i].state == STARTED && __atomic_load_n(&harts[i].fence, __ATOMIC_ACQUIRE))
            handle_requests(h);
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    return ok(0);
}

static struct result hart_state(struct hart *h, u64 function, u64 hart, u64 start, u64 arg)
{
    if (function == 1) {
        h->state = STOPPED;
        wait_to_start(h);
    }
    if (function == 3) {
        if (hart) /* Only the retentive suspension, which is a wfi. */
            return error(NOT_SUPPORTED);
        asm volatile("wfi");
        return ok(0);
    }
    if (hart >= MAX_HARTS || !(h->vm->harts >> hart & 1))
        return error(INVALID);
    struct hart *to = &harts[hart];
    if (function == 2)
        return ok(to->state);
    if (function != 0)
        return error(NOT_SUPPORTED);
    if (!within(start, 4, h->vm->memory, h->vm->size))
        return error(BAD_ADDRESS);
    if (to->state != STOPPED)
        return error(AVAILABLE);
    to->start_at = start;
    to->start_arg = arg;
    __atomic_store_n(&to->state, START_PENDING, __ATOMIC_RELEASE);
    MSIP(hart) = 1;
    return ok(0);
}

static struct result reset(struct hart *h, u64 type)
{
    struct vm *vm = h->vm;
    if (type > 2)
        return error(INVALID);
    u64 reads, writes;
    count_accesses(vm, &reads, &writes);
    say("VM %s ends: %d I/O accesses emulated (%d reads, %d writes), %d misses, %d refused, %d refills, %d done again",
        vm->name, reads + writes, reads, writes, vm->misses, vm->refused, vm->refills, vm->again);
    check_monitor();
    __atomic_store_n(&vm->running, 0, __ATOMIC_RELEASE);
    int others = 0;
    for (int i = 0; i < vm_count; i++)
        others |= vms[i].running;
    if (vm->owns_machine || !others)
        power(type ? 0x7777 : 0x5555);
    for (u64 i = 0; i < hart_count; i++)
        if (vm->harts >> i & 1 && harts[i].state == STARTED && &harts[i] != h) {
            harts[i].state = STOP_PENDING;
            MSIP(i) = 1;
        }
    wait_to_start(h);
}

static struct result console(const struct hart *h, u64 function, const u64 *a)
{
    enum { LONGEST = 256 };
    if (function == 2) {
        put_char((char)a[0]);
        return ok(0);
    }
    if (function > 2)
        return error(NOT_SUPPORTED);
    if (a[2] || !within(a[1], a[0], h->vm->memory, h->vm->size))
        return error(INVALID);
    /* A part of a long text at a time, so that no VM keeps the console from the others. */
    u64 n = a[0] < LONGEST ? a[0] : LONGEST, done = 0;
    lock_console();
    for (volatile char *c = (volatile char *)a[1]; done < n; done++, c++) {
        if (function == 0) {
            put_char(*c);
            continue;
        }
        int got = get_char();
        if (got < 0)
            break;
        *c = (char)got;
    }
    unlock_console();
    return ok(done);
}

/* The cycle counter and that of instructions; no events. */
static struct result counters(u64 function, const u64 *a)
{
    enum { CYCLES = 1, INSTRUCTIONS = 2, SET_START = 1, CSR_CYCLE = 0xc00, BITS = 63 };
    u64 wanted;
    switch (function) {
    case 0:
        return ok(3); /* Number 1 is the time, which is none. */
    case 1:
        if (a[0] != 0 && a[0] != 2)
            return error(INVALID);
        return ok((CSR_CYCLE + a[0]) | BITS << 12);
    case 2:
        wanted = a[3] == CYCLES ? 0 : a[3] == INSTRUCTIONS ? 2 : 99;
        if (wanted == 99 || a[0] > wanted || !(a[1] << a[0] >> wanted & 1))
            return error(NOT_SUPPORTED);
        return ok(wanted);
    case 3:
    case 4:
        if (a[0] || (a[1] & ~5ull))
            return error(INVALID);
        if (function == 3 && a[2] & SET_START) {
            if (a[1] & 1)
                csr_write("mcycle", a[3]);
            if (a[1] & 4)
                csr_write("minstret", a[3]);
        }
        if (function == 3)
            csr_clear("0x320", a[1]); /* mcountinhibit */
        else
            csr_set("0x320", a[1]);
        return ok(0);
    }
    return error(NOT_SUPPORTED);
}

void sbi_call(struct hart *h)
{
    u64 *a = &h->regs[10], function = a[6], mask;
    struct result r = error(NOT_SUPPORTED);
    h->regs[0] += 4;
    switch (a[7]) {
    case BASE:
        r = base(function, a[0]);
        break;
    case TIME:
        if (!function)
            set_timer(h, a[0]), r = ok(0);
        break;
    case IPI:
        mask = targets(h->vm, a[0], a[1]);
        if (function)
            break;
        r = mask ? ok(0) : error(INVALID);
        for (u64 i = 0; i < hart_count; i++)
            if (mask >> i & 1) {
                __atomic_store_n(&harts[i].ipi, 1, __ATOMIC_RELEASE);
                MSIP(i) = 1;
            }
        break;
    case RFENCE:
        mask = targets(h->vm, a[0], a[1]);
        if (function <= 2)
            r = mask ? remote_fence(h, FENCE_I + function, mask, a) : error(INVALID);
        break;
    case HSM:
        r = hart_state(h, function, a[0], a[1], a[2]);
        break;
    case SRST:
        if (!function)
            r = reset(h, a[0]);
        break;
    case DBCN:
        r = console(h, function, a);
        break;
    case PMU:
        r = counters(function, a);
        break;
    }
    a[0] = r.error;
    a[1] = r.value;
}

/* The monitor: start, protection, traps. */
#include "vmm.h"

enum { STARTED, STOPPED, START_PENDING };
enum { TREE_ROOM = 64 << 10 };

/* What the loader says about the software behind us (OpenSBI's fw_dynamic_info). */
struct next {
    u64 magic, version, addr, mode, options, boot_hart;
};

struct hart harts[MAX_HARTS];
u64 hart_count;
static volatile u32 ready;
static u8 tree[TREE_ROOM] __attribute__((aligned(8)));

void power(u64 value)
{
    *(volatile u32 *)0x100000 = (u32)value;
    for (;;)
        asm volatile("wfi");
}

void fatal(const char *why)
{
    say("%s; mcause %x, mepc %x, mtval %x", why, csr_read("mcause"), csr_read("mepc"), csr_read("mtval"));
    power(0x13333); /* The test finisher's failure with the code 1. */
    __builtin_unreachable();
}

/* Our code and constants, to see that no VM has changed them. */
static u64 sum_of_monitor(void)
{
    extern const u64 _start[], _constant_end[];
    u64 sum = 0;
    for (const u64 *p = _start; p < _constant_end; p++)
        sum = (sum ^ *p) * 0x9e3779b97f4a7c15 + (sum >> 32);
    return sum;
}
static u64 sum_at_start;

void check_monitor(void)
{
    if (sum_of_monitor() != sum_at_start)
        fatal("the monitor has been changed");
}

static void copy(u8 *to, const u8 *from, u64 n)
{
    while (n--)
        *to++ = *from++;
}

/* One entry of PMP; A is 1 for TOR, 2 for NA4, 3 for NAPOT, 0 for the address below the next TOR. */
static void pmp(int n, u64 addr, u64 config)
{
    switch (n) {
#define ENTRY(i) case i: csr_write("pmpaddr" #i, addr); break;
    ENTRY(0) ENTRY(1) ENTRY(2) ENTRY(3) ENTRY(4) ENTRY(5) ENTRY(6) ENTRY(7)
    ENTRY(8) ENTRY(9) ENTRY(10) ENTRY(11) ENTRY(12) ENTRY(13) ENTRY(14) ENTRY(15)
#undef ENTRY
    default:
        fatal("a VM has more ranges than there are PMP entries");
    }
    u64 shift = 8 * (n & 7), mask = 0xffull << shift;
    if (n < 8)
        csr_write("pmpcfg0", (csr_read("pmpcfg0") & ~mask) | config << shift);
    else
        csr_write("pmpcfg2", (csr_read("pmpcfg2") & ~mask) | config << shift);
}

enum { R = 1, W = 2, X = 4, TOR = 1 << 3, NA4 = 2 << 3, NAPOT = 3 << 3 };

/* The hart reaches its VM's memory, and devices that need no translation or that the table translates. What is not
 * listed is not permitted below machine mode. */
static void protect(const struct vm *vm)
{
    int n = 0;
    for (int i = 0; i < 16; i++)
        pmp(i, 0, 0);
    pmp(n++, vm->memory >> 2, 0);
    pmp(n++, (vm->memory + vm->size) >> 2, TOR | R | W | X);
    if (by_table) {
        pmp(n++, (0x80000000ull - 1) >> 3, NAPOT | R | W);
        return;
    }
    for (int i = 0; i < vm->map_count; i++) {
        const struct map *m = &vm->maps[i];
        if (m->from != m->to)
            continue;
        if (m->size == 4)
            pmp(n++, m->from >> 2, NA4 | R | W);
        else
            pmp(n++, m->from >> 2 | (m->size / 8 - 1), NAPOT | R | W);
    }
}

/* Waits for a start by SBI, and goes there in supervisor mode. */
void wait_to_start(struct hart *h)
{
    if (h->state != START_PENDING)
        h->state = STOPPED;
    csr_write("mie", 1 << IRQ_M_SOFT);
    while (__atomic_load_n(&h->state, __ATOMIC_ACQUIRE) != START_PENDING)
        asm volatile("wfi");
    *(volatile u32 *)(0x2000000 + 4 * h->id) = 0;
    protect(h->vm);
    for (int i = 1; i < 32; i++)
        h->regs[i] = 0;
    h->regs[0] = h->start_at;
    h->regs[10] = h->id;
    h->regs[11] = h->start_arg;
    h->ipi = h->fence = 0;
    csr_write("medeleg", 0xb15d & ~(1u << FETCH_ACCESS | 1u << LOAD_ACCESS | 1u << STORE_ACCESS));
    csr_write("mideleg", 1 << IRQ_S_SOFT | 1 << IRQ_S_TIMER | 1 << IRQ_S_EXT | 1 << IRQ_OVERFLOW);
    csr_write("mcounteren", ~0u);
    csr_write("0x30a", 1ull << 63 | 0xf0); /* menvcfg: stimecmp and operations on cache blocks, where they exist */
    csr_write("satp", 0);
    csr_write("sie", 0);
    csr_write("stvec", 0);
    csr_clear("mip", 1 << IRQ_S_SOFT | 1 << IRQ_S_TIMER);
    csr_clear("mstatus", SIE | SPIE | MPP | MPRV | SUM | MXR);
    csr_set("mstatus", MPP_S);
    asm volatile("sfence.vma\n fence.i" ::: "memory");
    __atomic_store_n(&h->state, STARTED, __ATOMIC_RELEASE);
    enter(h);
}

static void prepare(struct vm *vm, const u8 *machine_tree, const struct next *next)
{
    u64 n = tree_size(machine_tree);
    if (vm->is_next) {
        vm->entry = next->addr;
        vm->tree = (u64)machine_tree;
    } else {
        copy((u8 *)vm->entry, vm->image, vm->image_size);
    }
    if (!within(vm->entry, 4, vm->memory, vm->size) || !within(vm->tree, n, vm->memory, vm->size))
        fatal("the loader has put a VM's kernel or device tree where it has no memory");
}

void first(u64 hart, const u8 *machine_tree, const struct next *next)
{
    u64 n = tree_size(machine_tree);
    if (!n || n > TREE_ROOM)
        fatal("there is no device tree, or a large one");
    /* All harts, to count them. */
    static const struct vm all = {.harts = ~0ull};
    copy(tree, machine_tree, n);
    hart_count = make_tree(&all, tree);
    read_partitions();
    int table = fill_table();
    sum_at_start = sum_of_monitor();
    static u8 original[TREE_ROOM] __attribute__((aligned(8)));
    copy(original, machine_tree, n);
    for (struct vm *v = vms; v < vms + vm_count; v++)
        prepare(v, machine_tree, next);
    for (struct vm *v = vms; v < vms + vm_count; v++) {
        copy(tree, original, n);
        make_tree(v, tree);
        copy((u8 *)v->tree, tree, n);
        v->running = 1;
        int boot = lowest(v->harts);
        for (u64 i = 0; i < hart_count; i++)
            if (v->harts >> i & 1) {
                harts[i].vm = v;
                harts[i].state = STOPPED;
                if (table)
                    set_hart_vm(i, v - vms + 1);
            }
        harts[boot].start_at = v->entry;
        harts[boot].start_arg = v->tree;
        harts[boot].state = START_PENDING;
        say("VM %s: harts %x, memory %x, %d bytes", v->name, v->harts, v->memory, v->size);
    }
    (void)hart;
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
}

void others(struct hart *h)
{
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        ;
    if (h->vm)
        wait_to_start(h);
}

void handle(struct hart *h)
{
    u64 cause = csr_read("mcause");
    switch (cause) {
    case INTERRUPT | IRQ_M_SOFT:
        handle_requests(h);
        break;
    case INTERRUPT | IRQ_M_TIMER:
        csr_clear("mie", 1 << IRQ_M_TIMER);
        csr_set("mip", 1 << IRQ_S_TIMER);
        break;
    case ECALL_S:
        sbi_call(h);
        break;
    case LOAD_ACCESS:
    case STORE_ACCESS:
        access_fault(h, cause);
        break;
    default:
        if (cause & INTERRUPT)
            fatal("an interrupt that nobody has enabled");
        inject(h, cause, csr_read("mtval"));
    }
}

/* A small monitor for virtual machines (VMs) on fixed parts of a machine. README.md says how it works. */
#ifndef VMM_H
#define VMM_H
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

enum { MAX_HARTS = 16, MAX_VMS = 4, MAX_MAPS = 320, MAX_NODES = 16, NAME = 16, NOTES = 128 };

/* Causes of traps (mcause). */
enum {
    FETCH_ACCESS = 1, ILLEGAL = 2, LOAD_ACCESS = 5, STORE_ACCESS = 7, ECALL_S = 9,
};
#define INTERRUPT (1ull << 63)
enum { IRQ_S_SOFT = 1, IRQ_M_SOFT = 3, IRQ_S_TIMER = 5, IRQ_M_TIMER = 7, IRQ_S_EXT = 9, IRQ_OVERFLOW = 13 };

/* mstatus */
#define SIE (1ull << 1)
#define SPIE (1ull << 5)
#define MPIE (1ull << 7)
#define SPP (1ull << 8)
#define MPP (3ull << 11)
#define MPP_S (1ull << 11)
#define MPRV (1ull << 17)
#define SUM (1ull << 18)
#define MXR (1ull << 19)

/* Part of the I/O map that a VM believes in, and where it is on the bus. */
struct map {
    u64 from, to, size;
    u64 reads, writes; /* done by emulate.c; those of vmm.S are counted in struct seen */
};

/* A virtual machine, as the partition file says. */
struct vm {
    char name[NAME];
    u64 harts;          /* one bit each */
    u64 memory, size;   /* the one range of memory that it has */
    u64 entry, tree;    /* where it starts; where its device tree is put */
    const u8 *image;    /* copied to its entry, if the firmware's loader has put nothing there */
    u64 image_size;
    int is_next;        /* starts what the loader has loaded behind us */
    int owns_machine;   /* its shutdown is the machine's */
    char nodes[MAX_NODES][32];
    int node_count;
    struct map maps[MAX_MAPS];
    int map_count;
    u64 sources;        /* interrupt sources of devices that are its own */
    u64 misses, refused, refills;
    u64 again;          /* traps after which the VM was to execute what is there now */
    volatile int running;
};
extern struct vm vms[MAX_VMS];
extern int vm_count;
extern int by_table; /* the table in hardware translates; otherwise we emulate */

/* An access that was emulated, and all that it depends on: vmm.S does it again as long as that is the same. */
struct seen {
    u64 satp;
    u64 va, to;            /* the part of a page that is one range of the map, and where it is */
    const u64 *pte_at[3];  /* entries of page tables, and what is in them */
    u64 pte[3];
    u64 count;
    struct map *map;
    u32 word, span;        /* the instruction, a short one twice; how many addresses from va on it may access */
    u32 base_stub, access_stub;
    short offset;
    u8 length, cause;
} __attribute__((aligned(128)));

/* What is saved of a hart at a trap, and its place in the VM. Offsets are known to vmm.S. */
struct hart {
    u64 regs[32];          /* 0: mepc */
    u64 stack;             /* 256 */
    u64 guard;             /* 264: where to go on if an access of ours traps; 0 if none may */
    u64 guard_cause;       /* 272 */
    u64 id;                /* 280 */
    struct vm *vm;
    volatile u64 ipi, fence;          /* requests of other harts */
    volatile u64 fence_start, fence_size, fence_asid;
    volatile u64 state;               /* as in SBI's HSM */
    volatile u64 start_at, start_arg;
    u64 reported;                     /* kinds of refused instructions that were reported */
    u64 again, again_tval;            /* an access that did not look like the one that has trapped */
    struct seen seen[NOTES] __attribute__((aligned(1024)));
} __attribute__((aligned(32768)));
_Static_assert(sizeof(struct hart) == 1 << 15 && offsetof(struct hart, seen) == 1024 &&
               offsetof(struct hart, again) == 368 && sizeof(struct seen) == 128 &&
               offsetof(struct seen, count) == 72 && offsetof(struct seen, word) == 88 &&
               offsetof(struct seen, offset) == 104 && offsetof(struct seen, cause) == 107, "as in vmm.S");
extern struct hart harts[MAX_HARTS];
extern u64 hart_count;

#define csr_read(name) ({ u64 v_; asm volatile("csrr %0, " name : "=r"(v_)::"memory"); v_; })
#define csr_write(name, v) asm volatile("csrw " name ", %0" ::"r"((u64)(v)) : "memory")
#define csr_set(name, v) asm volatile("csrs " name ", %0" ::"r"((u64)(v)) : "memory")
#define csr_clear(name, v) asm volatile("csrc " name ", %0" ::"r"((u64)(v)) : "memory")

static inline struct hart *me(void)
{
    struct hart *h;
    asm volatile("mv %0, tp" : "=r"(h));
    return h;
}
/* Number of the lowest bit that is set; there is one. */
static inline u64 lowest(u64 n)
{
    u64 i = 0;
    while (!(n >> i & 1))
        i++;
    return i;
}
static inline int within(u64 addr, u64 len, u64 start, u64 size)
{
    return addr >= start && addr - start < size && len <= size - (addr - start);
}

/* vmm.S: accesses that may trap. They return 0, or the cause of the trap, in which case nothing was done. */
u64 try_load(u64 addr, u32 width, u64 *value);
u64 try_store(u64 addr, u32 width, u64 value);
u64 try_fetch(u64 addr, u64 *half);   /* with the rights of whoever trapped */
_Noreturn void enter(struct hart *h);

/* main.c */
_Noreturn void fatal(const char *why);
_Noreturn void wait_to_start(struct hart *h);
void power(u64 value);
void check_monitor(void);
/* print.c: %s %x %d */
void say(const char *format, ...);
void lock_console(void);
void unlock_console(void);
void put_char(char c);
int get_char(void);
/* config.c */
void read_partitions(void);
/* fdt.c */
u64 make_tree(const struct vm *vm, u8 *tree);
u64 tree_size(const u8 *tree);
/* sbi.c */
void sbi_call(struct hart *h);
void handle_requests(struct hart *h);
/* emulate.c */
void access_fault(struct hart *h, u64 cause);
void inject(struct hart *h, u64 cause, u64 tval);
void count_accesses(const struct vm *vm, u64 *reads, u64 *writes);
/* table.c */
int fill_table(void);
int refill(struct vm *vm, u64 addr);
void set_hart_vm(u64 hart, u64 vm);

#endif

/* A VM with two harts (partitions/hostile.txt): while hart 0 executes an I/O access that the monitor emulates, hart 1
 * rewrites the instruction, and then the page table entry by which its address is found: between what is ours, what is
 * not, and what does no harm. Small steps of the harts make them meet: --set functional_quantum_cycles=5. On the
 * command line: vm.seed, vm.rounds. */
#include "attempt.h"

volatile u64 trap_cause;
static u64 seed, failures, accesses, refused, changes;
static volatile u64 going, faults_of_other;

enum { MAC = 0x52000000, MODE = 0xa000, CANARY = 0x5ca1ab1e, OURS = 0x600d600d, VICTIM = 0x87c80000 };
enum { BREAKPOINT = 3, LOAD_PAGE = 13, STORE_PAGE = 15 };
/* What is not ours: the victim's memory, that of the monitor, the table's registers, the MAC's old place. */
static const u64 foreign[] = {VICTIM, VICTIM + 0x1238, 0x80000000, 0x80002000, 0x4000398, 0x10001000};
enum { FOREIGN = sizeof foreign / sizeof *foreign };

/* The instruction that is rewritten, and an ebreak. */
static volatile u32 slot[16] __attribute__((aligned(64)));
static u64 our_page[512] __attribute__((aligned(4096)));
static volatile u64 root[512] __attribute__((aligned(4096))), middle[512] __attribute__((aligned(4096)));
static volatile u64 leaf[512] __attribute__((aligned(4096)));
enum { V = 1, R = 2, W = 4, X = 8, A = 64, D = 128, PAGES = 0x2000 };
#define VA (4ull << 30)

u64 trap(u64 cause, u64 epc, u64 ra)
{
    faults_of_other++;
    return go_on(cause, epc, ra);
}

static void failed(const char *what, u64 cause, u64 value)
{
    if (failures++ >= 20)
        return;
    print("race: REACHED: ");
    print(what);
    print(", cause ");
    print_number(cause);
    print(", value ");
    print_number(value);
    print("\r\n");
}

/* Base a3 is ours by emulation, a2 is not ours, a5 is our memory. a4 is loaded, a6 stored. */
enum { ONE_WORD = 9 };
static const u32 code[] = {
    0x0006a703, /* lw a4, 0(a3) */
    0x00062703, /* lw a4, 0(a2) */
    0x00e62023, /* sw a4, 0(a2) */
    0x00170713, /* addi a4, a4, 1 */
    0x00e6a72f, /* amoadd.w a4, a4, (a3) */
    0x0007a703, /* lw a4, 0(a5) */
    0x00014298, /* c.lw a4, 0(a3); c.nop */
    0x0001c218, /* c.sw a4, 0(a2); c.nop */
    0x0106a023, /* sw a6, 0(a3) */
};

static void (*volatile change)(void);

static void change_code(void)
{
    u32 to = code[below(&changes, ONE_WORD)];
    /* Sometimes in two halves, so that those of two instructions meet. */
    if (random(&changes) & 1) {
        *slot = to;
    } else {
        ((volatile uint16_t *)slot)[0] = to;
        ((volatile uint16_t *)slot)[1] = to >> 16;
    }
}

static void change_entry(void)
{
    static const u64 to[] = {MAC, MAC, VICTIM, 0x80000000, 0x10001000, 0};
    u64 n = below(&changes, 8), flags = V | R | W | A | D;
    if (n < 6)
        *leaf = to[n] ? to[n] >> 12 << 10 | flags : 0;
    else if (n < 7)
        *leaf = (u64)our_page >> 12 << 10 | flags;
    else /* The table itself lies elsewhere for a while. */
        *middle = (u64)VICTIM >> 12 << 10 | V;
    if (n < 7)
        *middle = (u64)leaf >> 12 << 10 | V;
}

/* With a small table: devices that both harts use at the same time. */
static const u64 devices[] = {MAC, 0x50000208, 0x50001000, 0xc000000, 0xc002000, 0xc200000};
static void use(u64 n)
{
    (void)*(volatile u32 *)devices[n % 6];
}

static void use_devices(void)
{
    use(random(&changes));
}

/* Hart 1. */
void second_hart(void)
{
    for (;;)
        if (going)
            change();
}

static u64 stack[512] __attribute__((aligned(16)));
void race_start(void);
asm(".text\n.globl race_start\nrace_start:\nmv sp, a1\nlla t0, vector\ncsrw stvec, t0\nj second_hart\n");

static void begin(void (*what)(void))
{
    change = what;
    going = 1;
}

/* Executes what is in the slot. Returns whether it has trapped at an address of ours or not ours, rather than been
 * done. */
static int execute(u64 a2, u64 a3, u64 a5)
{
    for (int k = 1; k < 32; k++)
        run.x[k] = 0;
    run.x[12] = a2;
    run.x[13] = a3;
    run.x[14] = CANARY;
    run.x[15] = a5;
    run.x[16] = MODE;
    run.pc = (u64)slot;
    asm volatile("fence.i\n sfence.vma" ::: "memory");
    attempt();
    accesses++;
    return run.epc == (u64)slot && run.cause != BREAKPOINT;
}

static void instructions(u64 rounds)
{
    begin(change_code);
    while (rounds--) {
        u64 a2 = foreign[below(&seed, FOREIGN)];
        u32 secret = pattern(a2 & ~7ull) >> (a2 & 4 ? 32 : 0);
        int trapped = execute(a2, MAC, (u64)our_page);
        u32 a4 = run.x[14];
        refused += trapped;
        if (a2 - VICTIM < 0x8000 && a4 == secret)
            failed("the victim's memory by an instruction", run.cause, a4);
        if (trapped && a4 != CANARY)
            failed("a register by an instruction that has trapped", run.cause, a4);
        /* The second half may trap by itself, if it belongs to another instruction than the first. */
        if (run.epc - (u64)slot > 6)
            failed("another place", run.cause, run.epc);
    }
    going = 0;
}

static void entries(u64 rounds)
{
    root[2] = 2ull << 28 | V | R | W | X | A | D;
    for (u64 i = 0; i < 2; i++)
        root[i] = i << 28 | V | R | W | A | D;
    root[4] = (u64)middle >> 12 << 10 | V;
    *middle = (u64)leaf >> 12 << 10 | V;
    *our_page = OURS;
    *(volatile u32 *)MAC = MODE; /* Halves of two instructions may have stored 0. */
    asm volatile("csrw satp, %0\n sfence.vma" ::"r"(8ull << 60 | (u64)root >> 12) : "memory");
    begin(change_entry);
    while (rounds--) {
        int store = below(&seed, 2);
        *slot = store ? 0x0106a023 : 0x0006a703; /* sw a6, 0(a3); lw a4, 0(a3) */
        int trapped = execute(0, VA, 0);
        u32 a4 = run.x[14];
        refused += trapped;
        int load_right = store || trapped ? a4 == CANARY : a4 == OURS || a4 == MODE;
        if (!load_right)
            failed("something by a page table", run.cause, a4);
        u64 c = run.cause;
        if (trapped && c != (store ? STORE_ACCESS : LOAD_ACCESS) && c != (store ? STORE_PAGE : LOAD_PAGE))
            failed("another trap", c, run.tval);
        if (trapped && run.tval != VA)
            failed("another address", c, run.tval);
    }
    going = 0;
    asm volatile("csrw satp, zero\n sfence.vma" ::: "memory");
}

void start(u64 hart, const uint8_t *tree)
{
    (void)hart;
    seed = option(tree, "vm.seed=", 1);
    changes = ~seed;
    u64 rounds = option(tree, "vm.rounds=", 2000);
    *slot = code[3];
    slot[1] = 0x90029002;
    if (call(HSM, 0, 1, (u64)race_start, (u64)(stack + 512)))
        failed("no second hart", 0, 0);
    instructions(rounds);
    entries(rounds);
    u64 vector;
    asm volatile("lla %0, vector\n csrw stvec, %0" : "=r"(vector));
    u64 before = faults_of_other;
    if (before)
        failed("the rewriting hart has trapped", trap_cause, before);
    begin(use_devices);
    for (u64 i = 0; i < rounds; i++)
        use(random(&seed));
    going = 0;
    if (faults_of_other != before)
        failed("a fault of a device that both harts use", trap_cause, faults_of_other - before);
    print("race: ");
    print_number(accesses);
    print(" instructions, ");
    print_number(refused);
    print(" refused, ");
    print_number(failures);
    print(" reached what is not ours\r\n");
    *SIGN = DONE;
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

// A small program for debuggers and profiles: every hart adds numbers, calls itself, touches memory.
typedef unsigned long u64;

#define HARTS 8
#define WORDS 4096
#define SYSCON ((volatile unsigned *)0x100000)

char stacks[HARTS][4096] __attribute__((aligned(16)));
volatile u64 sums[HARTS];
volatile u64 watched;
volatile u64 arrived;
double half = 0.5;
u64 table[WORDS];

__asm__(".globl _start\n"
        ".section .text.init,\"ax\"\n"
        "_start:\n"
        "  li t0, 0x6000\n"          // floating point on
        "  csrs mstatus, t0\n"
        "  la sp, stacks\n"
        "  addi t1, a0, 1\n"
        "  slli t1, t1, 12\n"
        "  add sp, sp, t1\n"
        "  li s0, 0\n"
        "  call work\n"
        "1: wfi\n"
        "  j 1b\n"
        ".text\n");

__attribute__((noinline)) u64 fibonacci(u64 n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__attribute__((noinline)) u64 fill(u64 hart)
{
    u64 sum = 0;
    for (u64 i = hart; i < WORDS; i += 8) {
        table[i] += i;
        sum += table[i];
    }
    return sum;
}

__attribute__((noinline)) void finish(u64 hart)
{
    sums[hart] = fibonacci(8) + fill(hart);
    watched = watched + hart + 1;
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
}

void work(u64 hart)
{
    double x = half * (double)(hart + 1);
    half = x > 100 ? x : 0.5;
    finish(hart);
    if (hart)
        return;
    while (arrived < EXPECTED)
        ;
    *SYSCON = 0x5555;
    for (;;)
        ;
}

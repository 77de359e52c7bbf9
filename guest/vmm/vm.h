/* What the bare-metal programs in VMs share: SBI calls, text, traps (vm.S). */
#ifndef VM_H
#define VM_H
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;

enum { FETCH_ACCESS = 1, LOAD_ACCESS = 5, STORE_ACCESS = 7 };
enum { TIME = 0x54494d45, IPI = 0x735049, HSM = 0x48534d, SRST = 0x53525354, DBCN = 0x4442434e };

static inline u64 call(u64 extension, u64 function, u64 x, u64 y, u64 z)
{
    register u64 a0 asm("a0") = x, a1 asm("a1") = y, a2 asm("a2") = z, a6 asm("a6") = function, a7 asm("a7") = extension;
    asm volatile("ecall" : "+r"(a0), "+r"(a1) : "r"(a2), "r"(a6), "r"(a7) : "memory");
    return a0;
}

/* Whole lines at a time, so that those of several VMs are not mixed. */
static inline void print(const char *s)
{
    static char line[200];
    static u64 n;
    for (; *s; s++) {
        line[n++] = *s;
        if (*s == '\n' || n == sizeof line) {
            call(DBCN, 0, n, (u64)line, 0);
            n = 0;
        }
    }
}

static inline void print_number(u64 n)
{
    char text[21];
    int i = 20;
    text[i] = 0;
    do
        text[--i] = '0' + n % 10;
    while (n /= 10);
    print(text + i);
}

/* A trap that was not an interrupt: its cause, until somebody asks. */
extern volatile u64 trap_cause;
static inline u64 last_trap(void)
{
    u64 cause = trap_cause;
    trap_cause = 0;
    return cause;
}

/* Called by the vector; returns where to go on. `ra` is that of the code that has trapped. */
u64 trap(u64 cause, u64 epc, u64 ra);
/* Behind the instruction; behind the call, if it could not be fetched. */
static inline u64 go_on(u64 cause, u64 epc, u64 ra)
{
    trap_cause = cause;
    if (cause == FETCH_ACCESS)
        return ra;
    return epc + ((*(uint16_t *)epc & 3) == 3 ? 4 : 2);
}
#endif

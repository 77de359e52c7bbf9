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
    register u64 a0 asm("a0") = x, a1 asm("a1") = y, a2 asm("a2") = z, a6 asm("a6") = function,
        a7 asm("a7") = extension;
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

static inline u64 now(void)
{
    u64 t;
    asm volatile("rdtime %0" : "=r"(t)::"memory");
    return t;
}

static inline u64 cycle(void)
{
    u64 t;
    asm volatile("rdcycle %0" : "=r"(t)::"memory");
    return t;
}

/* A number on the kernel's command line, as in `vm.seed=5`; the name comes with the `=`. The whole device tree is
 * searched, since nothing else in it looks like that. */
static inline u64 option(const uint8_t *tree, const char *name, u64 otherwise)
{
    u64 size = (u64)tree[4] << 24 | tree[5] << 16 | tree[6] << 8 | tree[7];
    for (u64 i = 0; i < size; i++) {
        u64 n = 0, value = 0, base = 10;
        while (name[n] && i + n < size && (char)tree[i + n] == name[n])
            n++;
        if (name[n])
            continue;
        const char *s = (const char *)tree + i + n;
        if (s[0] == '0' && s[1] == 'x')
            base = 16, s += 2;
        for (;; s++) {
            u64 d = *s >= '0' && *s <= '9'                 ? *s - '0'
                    : (*s | 32) >= 'a' && (*s | 32) <= 'f' ? (*s | 32) - 'a' + 10
                                                           : 99;
            if (d >= base)
                return value;
            value = value * base + d;
        }
    }
    return otherwise;
}

/* Numbers that look random, the same for the same seed (Steele, Lea and Flood's SplitMix). */
static inline u64 mix(u64 z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static inline u64 random(u64 *state)
{
    return mix(*state += 0x9e3779b97f4a7c15);
}

static inline u64 below(u64 *state, u64 n)
{
    return random(state) % n;
}

/* What victim.c has in the words of its memory, so that others know it if they see it. */
static inline u64 pattern(u64 addr)
{
    return mix(addr);
}

/* By this value in the control block's LABEL, which both see at this address, an attacker tells the victim to look. */
#define SIGN  ((volatile u64 *)0x50000208)
#define DONE 0x646f6e6520646f6e

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

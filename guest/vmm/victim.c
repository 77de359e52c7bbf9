/* A VM that has something to lose (partitions/hostile.txt): its memory is full of a pattern, and it looks whether that
 * is still there when the other VM says that it has done its worst. */
#include "vm.h"

volatile u64 trap_cause;
extern const u64 _start[], _constant_end[];
extern u64 _end[];
enum { LOOK = 500 }; /* ticks between two looks at the label */

u64 trap(u64 cause, u64 epc, u64 ra)
{
    if (cause >> 63) {
        call(TIME, 0, ~0ull, 0, 0);
        return epc;
    }
    return go_on(cause, epc, ra);
}

static u64 sum(const u64 *from, const u64 *to)
{
    u64 s = 0;
    for (; from < to; from++)
        s = mix(s ^ *from);
    return s;
}

void start(u64 hart, const uint8_t *tree)
{
    (void)hart;
    /* Behind the program (whose last page is the stack), and up to the device tree. */
    u64 *first = _end, *last = (u64 *)tree, changed = 0;
    u64 code = sum(_start, _constant_end);
    u64 description = sum(last, last + 512);
    for (u64 *p = first; p < last; p++)
        *p = pattern((u64)p);
    print("victim: ready\r\n");
    while (*SIGN != DONE) {
        call(TIME, 0, now() + LOOK, 0, 0);
        asm volatile("csrw sie, %0\n wfi\n csrsi sstatus, 2\n csrci sstatus, 2" ::"r"(1 << 5));
    }
    for (u64 *p = first; p < last; p++)
        changed += *p != pattern((u64)p);
    changed += code != sum(_start, _constant_end);
    changed += description != sum(last, last + 512);
    changed += last_trap() != 0;
    print("victim: ");
    print_number(last - first);
    print(" words, ");
    print_number(changed);
    print(" of them changed\r\n");
    call(SRST, 0, 0, 0, 0);
    for (;;)
        ;
}

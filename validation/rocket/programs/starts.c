// Rounds of 20 and 24 taken branches with 28 entries in the branch target buffer. Which entries a round loses depends
// on the state that it begins with, in the RTL as in the model, and one more jump before it makes a fifth of the
// cycles; so each row is a sum over a hundred beginnings.
#include "region.h"

// What is repeated, `count` times, behind a line's beginning.
#define ROUND(name, lead, option, count, text)                                                     \
    static NOINLINE void name(u64 rounds)                                                          \
    {                                                                                              \
        __asm__ volatile(".option push\n.option norelax\n.option norvc\n j 9f\n.balign 64\n9:\n"   \
                         lead "\n1:\n.option push\n.option " option "\n.rept " #count "\n" text     \
                         "\n2:\n.endr\n.option pop\n addi %0, %0, -1\n bnez %0, 1b\n.option pop"   \
                         : "+r"(rounds)                                                            \
                         :                                                                         \
                         : "memory");                                                              \
    }
ROUND(branches20, "nop", "norvc", 20, " beq x0, x0, 2f\n nop")
ROUND(branches24, "nop", "norvc", 24, " beq x0, x0, 2f\n nop")
ROUND(jumps20, "nop", "norvc", 20, " j 2f\n nop")
ROUND(jumps24, "nop", "norvc", 24, " j 2f\n nop")
ROUND(short20, "nop", "rvc", 20, " c.j 2f\n c.nop\n c.nop")
ROUND(shifted20, "nop", "rvc", 20, " j 2f\n c.nop")
#define BEFORE(count) ROUND(before##count, "", "norvc", count, " j 2f\n nop")
BEFORE(0)
BEFORE(3)
BEFORE(6)
BEFORE(9)
BEFORE(12)
BEFORE(15)
BEFORE(18)
BEFORE(21)
BEFORE(24)
BEFORE(27)

static void (*const begin[])(u64) = {before0,  before3,  before6,  before9,  before12,
                                     before15, before18, before21, before24, before27};
enum { WAYS = sizeof begin / sizeof *begin };

#define FROM_ALL(name, rounds)                                                                     \
    MEASURE(name, for (u64 k = 0; k < TIMES(100); k++) begin[k % WAYS](1 + k / WAYS), rounds(30))

u64 run(u64 hart)
{
    FROM_ALL("20 branches", branches20);
    FROM_ALL("24 branches", branches24);
    FROM_ALL("20 jumps", jumps20);
    FROM_ALL("24 jumps", jumps24);
    FROM_ALL("20 short jumps", short20);
    FROM_ALL("20 jumps to second halves", shifted20);
    return hart;
}

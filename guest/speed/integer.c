// Integer arithmetic in registers.
#include "speed.h"
#include "collatz.h"
u64 run(u64 hart)
{
    return collatz(TIMES(400000)) + hart;
}

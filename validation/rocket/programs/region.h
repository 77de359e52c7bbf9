// Regions of C programs; see region.inc.
#ifndef REGION_H
#define REGION_H
#include "speed.h"

#define REGION(name) __asm__ volatile("slti x0, %0, 0x4e5" : : "r"(name) : "memory")
#define END() __asm__ volatile("slti x0, x0, 0x4e5" : : : "memory")
// The statement, as a region that is entered twice: the second time counts.
#define MEASURE(name, ...)                                                                         \
    do {                                                                                           \
        for (int pass_ = 0; pass_ < 2; pass_++) {                                                  \
            REGION(name);                                                                          \
            __VA_ARGS__;                                                                           \
            END();                                                                                 \
        }                                                                                          \
    } while (0)
// The compiler knows nothing of what it does, so it is called each time.
#define NOINLINE __attribute__((noipa))
// The compiler does not know the value any more.
#define HIDE(x) __asm__ volatile("" : "+r"(x))
#endif

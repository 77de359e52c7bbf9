/* Executing anything: attempt.S. */
#ifndef ATTEMPT_H
#define ATTEMPT_H
#include "vm.h"

struct attempt {
    u64 x[32];               /* registers before, and after; x[0] is unused */
    u64 pc, user;            /* where to go, and whether in user mode */
    u64 cause, tval, epc;    /* the trap that has ended it */
    u64 home[17];            /* the caller's registers */
};
extern struct attempt run;

/* Goes to run.pc with these registers. Returns at the next trap, with the registers as they were then. */
void attempt(void);
#endif

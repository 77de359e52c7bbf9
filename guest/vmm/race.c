#include "vm.h"
volatile u64 trap_cause;
u64 trap(u64 c, u64 e, u64 r) { return go_on(c, e, r); }
void start(void) { for (;;); }

/* A hostile enclave: the command says what it tries to reach. */
#include "spy.h"

static u8 text[SEALED_MOST] __attribute__((aligned(8)));

u64 enclave(u64 command, struct spy *shared)
{
    u64 at = shared->at;
    volatile u64 *there = (volatile u64 *)at;
    switch (command) {
    case SPY_READ:
        return *there;
    case SPY_WRITE:
        *there = 1;
        return 0;
    case SPY_JUMP:
        ((void (*)(void))at)();
        return 0;
    case SPY_CSR:
        asm volatile("csrw pmpcfg0, zero");
        return 0;
    case SPY_FLOAT:
        asm volatile(".insn r 0x53, 0, 0x71, x10, x0, x0" ::: "a0"); /* fmv.x.d a0, f0 */
        return 0;
    case SPY_SEAL_FROM:
        return ask(CALL_SEAL, at, 64, (u64)shared->room, 0).a[0];
    case SPY_SEAL_TO:
        return ask(CALL_SEAL, (u64)text, 64, at, 0).a[0];
    case SPY_SEAL_LONG:
        return ask(CALL_SEAL, (u64)text, at, (u64)shared->room, 0).a[0];
    case SPY_UNSEAL_TO:
        return ask(CALL_UNSEAL, (u64)shared->room, 64, at, 0).a[0];
    case SPY_UNSEAL:
        return ask(CALL_UNSEAL, (u64)shared->room, shared->bytes, (u64)text, 0).a[0];
    case SPY_COMMIT:
        return ask(CALL_COMMIT, at, 0, 0, 0).a[0];
    case SPY_CALL:
        return ask(CALL_CREATE, at, 4096, at + 4096, 4096).a[0];
    }
    return 0;
}

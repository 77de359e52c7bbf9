/* What the enclave in spy.c tries. */
#ifndef SPY_H
#define SPY_H
#include "call.h"

enum {
    SPY_READ,
    SPY_WRITE,
    SPY_JUMP,
    SPY_CSR,
    SPY_FLOAT,
    SPY_SEAL_FROM,
    SPY_SEAL_TO,
    SPY_SEAL_LONG,
    SPY_UNSEAL_TO,
    SPY_UNSEAL,
    SPY_COMMIT,
    SPY_CALL,
};

struct spy {
    u64 at, bytes;
    u8 room[2048];
};
#endif

/* What the host asks of the enclave in ledger.c, through the memory that they share. */
#ifndef LEDGER_H
#define LEDGER_H
#include "call.h"

/* Commands: the argument of CALL_ENTER. */
enum {
    LEDGER_ADD,      /* books `value`, and seals the account into `sealed` */
    LEDGER_COMMIT,   /* the host has kept what was sealed last */
    LEDGER_LOAD,     /* takes the account from `sealed` */
    LEDGER_LOOK,     /* `count` and `total` */
    LEDGER_COUNT,    /* counts to `value` */
    LEDGER_WALK,     /* reads and writes each line of its pages, which are more than the cache holds */
    LEDGER_LEAK,     /* has its secret in all registers when it exits */
    LEDGER_NOTHING,
};

enum { PAGES = 20480, SECRETS = 4, ACCOUNT = (2 + SECRETS) * 8 };

struct ledger {
    u64 value;
    u64 count, total;
    struct blob sealed;
    u8 text[ACCOUNT];
};

/* The words that nobody else may see. They are in no image: they are computed. */
static inline u64 secret(u64 i)
{
    asm volatile("" : "+r"(i)); /* or the compiler computes them */
    return (i + 1) * 0x9e3779b97f4a7c15ull ^ 0x5ec4e7;
}
#endif

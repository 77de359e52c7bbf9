/* An enclave that keeps an account: numbers come in, their count and sum go out, and what is kept is sealed. */
#include "ledger.h"

static struct {
    u64 count, total;
    u64 secrets[SECRETS];
} account;
static u64 version;
static volatile u64 pages[PAGES / 8];

static u64 add(struct ledger *shared)
{
    account.count++;
    account.total += shared->value;
    for (u64 i = 0; i < SECRETS; i++)
        account.secrets[i] = secret(i);
    struct answer a = ask(CALL_SEAL, (u64)&account, sizeof account, (u64)&shared->sealed, 0);
    version = a.a[1];
    return a.a[0];
}

static u64 load(struct ledger *shared)
{
    return ask(CALL_UNSEAL, (u64)&shared->sealed, sizeof account, (u64)&account, 0).a[0];
}

u64 enclave(u64 command, struct ledger *shared)
{
    _Static_assert(sizeof account == ACCOUNT, "ledger.h");
    switch (command) {
    case LEDGER_ADD:
        return add(shared);
    case LEDGER_COMMIT:
        return ask(CALL_COMMIT, version, 0, 0, 0).a[0];
    case LEDGER_LOAD:
        return load(shared);
    case LEDGER_LOOK:
        shared->count = account.count;
        shared->total = account.total;
        return 0;
    case LEDGER_COUNT: {
        u64 n = shared->value, done = 0;
        for (volatile u64 i = 0; i < n; i++)
            done++;
        return done;
    }
    case LEDGER_WALK:
        for (u64 i = 0; i < PAGES / 8; i += 8)
            pages[i] += i;
        return 0;
    case LEDGER_LEAK:
        asm volatile("mv t0, %0\n"
                     ".irp r, 1,3,4,6,7,8,9,11,12,13,14,15,16,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
                     "mv x\\r, t0\n"
                     ".endr\n"
                     "li a0, 0\n"
                     "li a7, 0x200\n"
                     "ecall\n" ::"r"(secret(0))
                     : "memory");
    }
    return 0;
}

/* Parts of the monitor. */
#ifndef MONITOR_H
#define MONITOR_H
#include "ascon.h"
#include "call.h"

enum { MAX_HARTS = 16, ENCLAVES = 4, NOBODY = -1 };

#define csr_read(name) ({ u64 v_; asm volatile("csrr %0, " #name : "=r"(v_)); v_; })
#define csr_write(name, value) asm volatile("csrw " #name ", %0" ::"r"((u64)(value)) : "memory")
#define csr_set(name, value) asm volatile("csrs " #name ", %0" ::"r"((u64)(value)) : "memory")
#define csr_clear(name, value) asm volatile("csrc " #name ", %0" ::"r"((u64)(value)) : "memory")

struct range {
    u64 base, size;
};

static inline int overlaps(struct range a, struct range b)
{
    return a.base < b.base + b.size && b.base < a.base + a.size;
}

static inline int holds(struct range r, u64 at, u64 bytes)
{
    return at >= r.base && bytes <= r.size && at - r.base <= r.size - bytes;
}

/* record.c: what the monitor knows for ever, in a page of NVMM that is its own. */
enum { RECORD_SIZE = 4096 };
/* Finds the record, or makes one; memory of enclaves that were alive when the power failed is zero then. */
void record_open(u64 at);
/* Which memory an enclave has from now on, or no longer has (size 0). */
void record_live(int slot, struct range memory);
/* The place of an identity; NOBODY if there is no room. */
int record_identity(const u8 measurement[ASCON_HASH]);
u64 record_issue(int identity);
/* Versions of an identity that may be unsealed: from the one committed to the one issued last. */
int record_allows(int identity, u64 version);
void record_commit(int identity, u64 version);

/* Zero, also where it is durable. */
void scrub(struct range memory);
#endif

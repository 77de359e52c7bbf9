/* What host and enclaves ask of the monitor: `ecall` with the number in a7. The answer is in a0, and what it names in
 * a1 and behind. All addresses are physical. */
#ifndef CALL_H
#define CALL_H
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;

/* The image has the monitor here; the host is behind it. */
#define MONITOR_BASE 0x80000000ull
#define MONITOR_SIZE 0x40000ull

/* Of the host (S mode). */
enum {
    /* a0 base, a1 size: an enclave of the memory there, whose first bytes the host has written; the size is a power of
     * two of at least 4096, the base a multiple of it, and all of it in NVMM. a2, a3: memory that host and enclave
     * share, of the same form, and the host's otherwise. Gives back in a1 the enclave's number. */
    CALL_CREATE = 0x100,
    /* a0 number, a1 argument, a2 ticks after which it is interrupted (0: never). Gives back a0 as below and a1 its
     * value, or the cause. */
    CALL_ENTER,
    /* a0 number, a1 ticks: goes on where it was interrupted. */
    CALL_RESUME,
    /* a0 number: its measurement in a1 to a4. */
    CALL_MEASUREMENT,
    /* a0 number: its memory is zero, and the host's again. */
    CALL_DESTROY,
    /* a0 hart, a1 address, a2 argument: a hart that waits runs there in S mode. */
    CALL_START,
};

/* Of an enclave (U mode). */
enum {
    /* a0: the value that CALL_ENTER or CALL_RESUME gives back. */
    CALL_EXIT = 0x200,
    /* a0 text in the enclave, a1 its bytes, a2 blob in the shared memory: a1 is the version of what was sealed. */
    CALL_SEAL,
    /* a0 blob in the shared memory, a1 bytes of the text, a2 where it goes in the enclave: a1 is its version. Refused
     * if the blob is not one of this enclave as it was when it was created, or older than what was committed or
     * unsealed. */
    CALL_UNSEAL,
    /* a0 version: blobs of older ones are not unsealed any more. */
    CALL_COMMIT,
};

/* What CALL_ENTER and CALL_RESUME give back. */
enum { ENDED = 0, INTERRUPTED = 1, FAULTED = 2 };

/* Errors. */
#define ERROR_CALL (-1ull)    /* no such call */
#define ERROR_RANGE (-2ull)   /* memory that it may not be */
#define ERROR_NUMBER (-3ull)  /* no such enclave or hart */
#define ERROR_STATE (-4ull)   /* the enclave is not in a state for this */
#define ERROR_FULL (-5ull)    /* no room for another one */
#define ERROR_BLOB (-6ull)    /* not a blob of this enclave */
#define ERROR_OLD (-7ull)     /* a blob that has been replaced */

enum { SEALED_MOST = 1024 };

/* What is sealed: opaque to the host. */
struct blob {
    u64 version;
    u8 tag[16];
    u8 text[];
};

struct answer {
    u64 a[5];
};

static inline struct answer ask(u64 number, u64 a, u64 b, u64 c, u64 d)
{
    register u64 a0 asm("a0") = a, a1 asm("a1") = b, a2 asm("a2") = c, a3 asm("a3") = d, a4 asm("a4") = 0;
    register u64 a7 asm("a7") = number;
    asm volatile("ecall" : "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3), "+r"(a4) : "r"(a7) : "memory");
    return (struct answer){{a0, a1, a2, a3, a4}};
}

/* Writes the lines of a range back from the first-level cache; then they are durable. CFLUSH.D.L1, the form for all
 * modes. */
static inline void persist(const volatile void *from, u64 bytes)
{
    u64 first = (u64)from & ~63ull, end = (u64)from + bytes;
    asm volatile("fence rw, rw" ::: "memory");
    for (u64 line = first; line < end; line += 64)
        asm volatile(".insn i 0x73, 0, x0, %0, -0x340" ::"r"(line) : "memory");
    asm volatile("fence rw, rw" ::: "memory");
}
#endif

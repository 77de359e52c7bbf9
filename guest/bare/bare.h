/* Harness of the bare-metal self-checks. Every program defines `void tests(void)`, which hart 0
 * runs in M mode; all other harts wait for work (start_hart). Results go to the UART by name. */
#ifndef BARE_H
#define BARE_H
#include <stddef.h>
#include <stdint.h>
typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint16_t u16;
typedef uint8_t u8;

#define MAX_HARTS 16
#define NONE (~0ull)            /* "no trap" as a cause */
#define ANY 0xa5a5000000005a5aull /* "do not compare" */
enum { U = 0, S = 1, M = 3 };

/* exception causes (privileged spec, table of mcause) */
enum {
    C_IFETCH_MIS = 0, C_IFETCH_ACC = 1, C_ILLEGAL = 2, C_BREAK = 3, C_LOAD_MIS = 4, C_LOAD_ACC = 5,
    C_STORE_MIS = 6, C_STORE_ACC = 7, C_ECALL_U = 8, C_ECALL_S = 9, C_ECALL_M = 11,
    C_IFETCH_PF = 12, C_LOAD_PF = 13, C_STORE_PF = 15,
};
#define IRQ(n) (1ull << 63 | (n))
enum { SSI = 1, MSI = 3, STI = 5, MTI = 7, SEI = 9, MEI = 11 };

/* mstatus */
#define ST_SIE (1ull << 1)
#define ST_MIE (1ull << 3)
#define ST_SPIE (1ull << 5)
#define ST_MPIE (1ull << 7)
#define ST_SPP (1ull << 8)
#define ST_MPP (3ull << 11)
#define ST_MPP_S (1ull << 11)
#define ST_MPP_M (3ull << 11)
#define ST_FS (3ull << 13)
#define ST_MPRV (1ull << 17)
#define ST_SUM (1ull << 18)
#define ST_MXR (1ull << 19)
#define ST_TVM (1ull << 20)
#define ST_TW (1ull << 21)
#define ST_TSR (1ull << 22)

struct hart {
    u64 regs[32];   /* registers at the last trap to M */
    u64 sregs[32];  /* registers at the last trap to S */
    u64 want_epc;   /* address of the instruction under TRY */
    u64 mstack, sstack;
    u64 ctx[15];
    u64 stack;
    /* what the last traps were */
    u64 armed;      /* traps are expected: record, step over the instruction */
    u64 in_run;     /* an unexpected trap ends run() */
    u64 depth;
    u64 ntraps;
    u64 cause, tval, epc; /* of the first trap since arm() */
    u64 status;     /* mstatus, or sstatus if taken in S, as the handler found it */
    u64 taken_in;   /* M or S */
    u64 ended;      /* run() ended by its own end */
    u64 nirq;
    u64 irq[32];    /* causes of interrupts in order; S-level ones | 0x100 when taken in S */
    u64 irq_epc, irq_status;
    u64 irq_ends;   /* an interrupt ends run() */
    void (*volatile fn)(u64);
    u64 arg;
    u64 volatile state; /* 0 not up, 1 idle, 2 busy */
} __attribute__((aligned(2048))); /* crt.S strides by 2048 */
extern struct hart harts[MAX_HARTS];
extern u64 vec_slot;
extern char mtrap[], strap[], vec_m[], vec_s[], run_end[], _end[];

static inline struct hart *me(void)
{
    struct hart *h;
    asm volatile("mv %0, tp" : "=r"(h));
    return h;
}

/* One instruction (or more; the first one has the label) that may trap. Afterwards see
 * expect_trap / expect_none, or the return value of cause(). Works in every mode as long as the
 * harness' data can be reached, i.e. without translation or with an identity mapping. */
#define LIST(...) __VA_ARGS__
#define TRY(insn, outs, ins)                                                                     \
    do {                                                                                         \
        arm();                                                                                   \
        asm volatile(".option push\n.option norelax\nlla t6, 99f\nsd t6, 512(tp)\n.option pop\n" \
                     "99: " insn                                                                 \
                     : outs                                                                      \
                     : ins                                                                       \
                     : "t6", "t5", "t4", "memory");                                              \
        disarm();                                                                                \
    } while (0)
static inline void arm(void)
{
    struct hart *h = me();
    h->ntraps = 0;
    h->cause = NONE;
    h->tval = h->epc = h->status = h->taken_in = 0;
    asm volatile("" ::: "memory");
    h->armed = 1;
    asm volatile("" ::: "memory");
}
static inline void disarm(void)
{
    asm volatile("" ::: "memory");
    me()->armed = 0;
}
static inline u64 cause(void)
{
    asm volatile("" ::: "memory");
    return me()->cause;
}

/* checks; names are static strings */
void check_(const char *name, int line, u64 got, u64 want);
void expect_trap_(const char *name, int line, u64 cause, u64 tval);
void expect_cause_(const char *name, int line, u64 cause);
void expect_none_(const char *name, int line);
void group(const char *name);           /* until end_group, checks print only when they fail */
void end_group(void);
void skip(const char *name, const char *why);
#define CHECK(name, got, want) check_(name, __LINE__, (u64)(got), (u64)(want))
#define EXPECT_TRAP(name, cause, tval) expect_trap_(name, __LINE__, cause, (u64)(tval))
#define EXPECT_CAUSE(name, cause) expect_cause_(name, __LINE__, cause)
#define EXPECT_NONE(name) expect_none_(name, __LINE__)
/* The next check may fail on QEMU (a bug there, or a choice which the board makes otherwise). */
#define QEMU_DIFFERS(why) (qemu_why = on_qemu ? (why) : 0)
extern const char *qemu_why;
void note(const char *key, u64 value);  /* context for failures inside a group */

extern int on_qemu;                     /* QEMU, which differs in places; see bare.c */
void tests(void);

/* Calls fn(a0, a1) in a mode; an unarmed trap ends it (see struct hart). Leaves MIE = 0. */
u64 run(int mode, u64 fn, u64 a0, u64 a1);
#define RUN(mode, fn, ...) run_(mode, (u64)(fn), ##__VA_ARGS__, 0, 0)
#define run_(mode, fn, a, b, ...) run(mode, fn, (u64)(a), (u64)(b))
void end_run(void) __attribute__((noreturn)); /* from inside */
void clean(void);                       /* back to the state at the start of tests() */
int wait_harts(int most);               /* number of harts that are up (gives them time), if there are not more */
void start_hart(int n, void (*fn)(u64), u64 arg);
void join_hart(int n);

#define STR_(x) #x
#define STR(x) STR_(x)
#define csrr(c) ({ u64 v_; asm volatile("csrr %0, " STR(c) : "=r"(v_)::"memory"); v_; })
#define csrw(c, v) ({ asm volatile("csrw " STR(c) ", %0" ::"rK"((u64)(v)) : "memory"); })
#define csrs(c, v) ({ asm volatile("csrs " STR(c) ", %0" ::"rK"((u64)(v)) : "memory"); })
#define csrc(c, v) ({ asm volatile("csrc " STR(c) ", %0" ::"rK"((u64)(v)) : "memory"); })
#define csrrw(c, v) ({ u64 v_; asm volatile("csrrw %0, " STR(c) ", %1" : "=r"(v_) : "rK"((u64)(v)) : "memory"); v_; })
#define TRY_CSRR(c, var) TRY("csrr %0, " STR(c), "+r"(var), )
#define TRY_CSRW(c, val) TRY("csrw " STR(c) ", %0", , "r"((u64)(val)))
/* numbers where the assembler may not know the name */
#define menvcfg 0x30a
#define ADUE (1ull << 61)
#define senvcfg 0x10a
#define stimecmp 0x14d
#define mconfigptr 0xf15

#define FENCE() asm volatile("fence rw, rw" ::: "memory")
#define FENCE_I() asm volatile("fence.i" ::: "memory")
#define SFENCE() asm volatile("sfence.vma" ::: "memory")

static inline u32 rd32(u64 a) { u32 v = *(volatile u32 *)a; asm volatile("fence io, rw" ::: "memory"); return v; }
static inline void wr32(u64 a, u32 v)
{
    asm volatile("fence rw, io" ::: "memory");
    *(volatile u32 *)a = v;
    asm volatile("fence io, rw" ::: "memory");
}
static inline u64 rd64(u64 a) { u64 v = *(volatile u64 *)a; asm volatile("fence io, rw" ::: "memory"); return v; }
static inline void wr64(u64 a, u64 v)
{
    asm volatile("fence rw, io" ::: "memory");
    *(volatile u64 *)a = v;
    asm volatile("fence io, rw" ::: "memory");
}

#define UART 0x10000000ull
#define CLINT 0x2000000ull
#define PLIC 0xc000000ull
#define CONTROL_HARTS 0x4000030 /* of the control block; not in QEMU */
#define MSIP(h) (CLINT + 4 * (h))
#define MTIMECMP(h) (CLINT + 0x4000 + 8 * (h))
#define MTIME (CLINT + 0xbff8)
#define NOTHING 0x00200000ull   /* no memory and no device here on either machine */
#define NOTHING_HIGH 0x6000000000ull

void put(const char *s);
void puthex(u64 v);
void finish(void) __attribute__((noreturn));
#endif

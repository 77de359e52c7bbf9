// Non-temporal copies for guest programs: stores under the hint ntl.all of Zihintntl, which a machine whose
// description says so combines in line fill buffers and writes to memory past the caches, and loads under it, which
// displace nothing.
//
// Hints are executed by every RISC-V processor and assembled by every toolchain: to those that do not know them they
// are additions to x0, and the functions below are ordinary copies. They need no header of this machine.
//
// Non-temporal stores are weakly ordered. nagori_nt_fence() orders them before every later store; memcpy_nt and
// memset_nt end with it. Versions without it end in _weak.
#ifndef NAGORI_NT_H
#define NAGORI_NT_H

#include <stddef.h>
#include <stdint.h>

// A word of whatever a buffer holds.
typedef uint64_t __attribute__((may_alias)) nagori_word;

// Orders all stores before it, non-temporal ones included, before all stores behind it. On NVMM with the persistence
// domain `adr`, non-temporal stores in front of it are durable behind it.
static inline void nagori_nt_fence(void)
{
    __asm__ volatile("fence w, w" : : : "memory");
}

// The hint and its access are one piece of assembly, so that the compiler puts nothing between them.
static inline void nagori_nt_store64(uint64_t *to, uint64_t v)
{
    __asm__ volatile("add x0, x0, x5\n\tsd %1, %0" : "=m"(*to) : "r"(v));
}

static inline void nagori_nt_store8(uint8_t *to, uint8_t v)
{
    __asm__ volatile("add x0, x0, x5\n\tsb %1, %0" : "=m"(*to) : "r"(v));
}

static inline uint64_t nagori_nt_load64(const uint64_t *from)
{
    uint64_t v;
    __asm__ volatile("add x0, x0, x5\n\tld %0, %1" : "=r"(v) : "m"(*from));
    return v;
}

// Any alignment and any length. Whole words are stored from the first multiple of 8 bytes of the destination on.
static inline void *memcpy_nt_weak(void *to, const void *from, size_t n)
{
    uint8_t *d = (uint8_t *)to;
    const uint8_t *s = (const uint8_t *)from;
    for (; n > 0 && ((uintptr_t)d & 7) != 0; n--)
        nagori_nt_store8(d++, *s++);
    if (((uintptr_t)s & 7) == 0)
        for (; n >= 8; n -= 8, d += 8, s += 8)
            nagori_nt_store64((uint64_t *)(void *)d, *(const nagori_word *)(const void *)s);
    for (; n >= 8; n -= 8, d += 8, s += 8) {
        nagori_word v;
        __builtin_memcpy(&v, s, 8);
        nagori_nt_store64((uint64_t *)(void *)d, v);
    }
    for (; n > 0; n--)
        nagori_nt_store8(d++, *s++);
    return to;
}

static inline void *memset_nt_weak(void *to, int c, size_t n)
{
    uint8_t *d = (uint8_t *)to;
    const uint64_t v = 0x0101010101010101u * (uint8_t)c;
    for (; n > 0 && ((uintptr_t)d & 7) != 0; n--)
        nagori_nt_store8(d++, (uint8_t)c);
    for (; n >= 8; n -= 8, d += 8)
        nagori_nt_store64((uint64_t *)(void *)d, v);
    for (; n > 0; n--)
        nagori_nt_store8(d++, (uint8_t)c);
    return to;
}

static inline void *memcpy_nt(void *to, const void *from, size_t n)
{
    memcpy_nt_weak(to, from, n);
    nagori_nt_fence();
    return to;
}

static inline void *memset_nt(void *to, int c, size_t n)
{
    memset_nt_weak(to, c, n);
    nagori_nt_fence();
    return to;
}

// The intrinsics of the RISC-V C API. Clang has them since version 17 in riscv_ntlh.h, GCC does not; where the header
// is missing, integers and pointers of up to 8 bytes can be accessed all the same. The third argument is the hint, by
// default ntl.all.
#if defined(__has_include)
#if __has_include(<riscv_ntlh.h>)
#include <riscv_ntlh.h>
#endif
#endif
#ifndef __riscv_ntl_store
enum {
    __RISCV_NTLH_INNERMOST_PRIVATE = 2,
    __RISCV_NTLH_ALL_PRIVATE,
    __RISCV_NTLH_INNERMOST_SHARED,
    __RISCV_NTLH_ALL,
};

#define NAGORI_NT_CASE(size_, insn_, p_, v_, hint_)                                               \
    if (sizeof(*(p_)) == (size_))                                                                 \
    __asm__ volatile("add x0, x0, x%2\n\t" insn_ " %1, %0" : "=m"(*(p_)) : "r"(v_), "i"(hint_))
#define NAGORI_NT_STORE(p, v, hint)                                                               \
    ({                                                                                            \
        __typeof__(p) nt_p_ = (p);                                                                \
        __typeof__(*nt_p_) nt_v_ = (v);                                                           \
        _Static_assert(sizeof(nt_v_) <= 8, "at most 8 bytes");                                    \
        NAGORI_NT_CASE(1, "sb", nt_p_, nt_v_, hint);                                              \
        NAGORI_NT_CASE(2, "sh", nt_p_, nt_v_, hint);                                              \
        NAGORI_NT_CASE(4, "sw", nt_p_, nt_v_, hint);                                              \
        NAGORI_NT_CASE(8, "sd", nt_p_, nt_v_, hint);                                              \
    })
#define NAGORI_NT_FOURTH(a, b, c, d, ...) d
#define NAGORI_NT_STORE2(p, v) NAGORI_NT_STORE(p, v, __RISCV_NTLH_ALL)
#define __riscv_ntl_store(...)                                                                    \
    NAGORI_NT_FOURTH(__VA_ARGS__, NAGORI_NT_STORE, NAGORI_NT_STORE2, )(__VA_ARGS__)
#endif

#endif

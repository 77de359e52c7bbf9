// What vcopy needs of a processor: ordering, and stores that pass the caches by. RISC-V and x86-64.
#ifndef VCOPY_MACHINE_H
#define VCOPY_MACHINE_H

typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
#define LINE __attribute__((aligned(64)))
#define ALWAYS __attribute__((always_inline)) inline

static ALWAYS u16 load16(const u16 *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static ALWAYS u16 acquire16(const u16 *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static ALWAYS void release16(u16 *p, u16 v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static ALWAYS u32 acquire32(const u32 *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static ALWAYS void release32(u32 *p, u32 v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static ALWAYS void fence_full(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#if defined(__riscv)

// NTL.ALL before the store: the line is of no use to any cache. It is `add x0, x0, x5`, a hint that
// every RISC-V processor executes.
static ALWAYS void store_nt(u64 *to, u64 value)
{
    __asm__ volatile("add x0, x0, x5\n\tsd %1, %0" : "=m"(*to) : "r"(value));
}
static ALWAYS void store_nt32(u32 *to, u32 value)
{
    __asm__ volatile("add x0, x0, x5\n\tsw %1, %0" : "=m"(*to) : "r"(value));
}
static ALWAYS void fence_stores(void) { __asm__ volatile("fence w, w" ::: "memory"); }
static ALWAYS void relax(void) { __asm__ volatile(".word 0x0100000f" ::: "memory"); } // PAUSE
static ALWAYS u64 cycles(void)
{
    u64 n;
    __asm__ volatile("rdcycle %0" : "=r"(n)::"memory");
    return n;
}

// Words of the widest register, as a copy moves them.
typedef u64 word;
static ALWAYS word word_load(const u8 *at) { return *(const u64 *)at; }
static ALWAYS void word_store(u8 *at, word w) { *(u64 *)at = w; }
static ALWAYS void word_store_nt(u8 *at, word w) { store_nt((u64 *)at, w); }

#elif defined(__x86_64__)

#include <emmintrin.h>
#include <x86intrin.h>

static ALWAYS void store_nt(u64 *to, u64 value) { _mm_stream_si64((long long *)to, (long long)value); }
static ALWAYS void store_nt32(u32 *to, u32 value) { _mm_stream_si32((int *)to, (int)value); }
static ALWAYS void fence_stores(void) { _mm_sfence(); }
static ALWAYS void relax(void) { _mm_pause(); }
// The time-stamp counter: its rate is constant, and not that of the core's clock.
static ALWAYS u64 cycles(void)
{
    _mm_lfence();
    u64 n = __rdtsc();
    _mm_lfence();
    return n;
}

#if defined(__AVX__)
#include <immintrin.h>
typedef __m256i word;
static ALWAYS word word_load(const u8 *at) { return _mm256_loadu_si256((const __m256i *)at); }
static ALWAYS void word_store(u8 *at, word w) { _mm256_storeu_si256((__m256i *)at, w); }
static ALWAYS void word_store_nt(u8 *at, word w) { _mm256_stream_si256((__m256i *)at, w); }
#else
typedef __m128i word;
static ALWAYS word word_load(const u8 *at) { return _mm_loadu_si128((const __m128i *)at); }
static ALWAYS void word_store(u8 *at, word w) { _mm_storeu_si128((__m128i *)at, w); }
static ALWAYS void word_store_nt(u8 *at, word w) { _mm_stream_si128((__m128i *)at, w); }
#endif

#else
#error "vcopy knows RISC-V and x86-64"
#endif

// Copies `n` bytes, at least 8, to an address that is a multiple of 64. What is left behind whole
// words is moved in eights, the last of which may move bytes a second time: to an aligned address
// if the stores are non-temporal, since there they are single instructions.
static ALWAYS void copy(u8 *restrict to, const u8 *restrict from, u32 n, int nt)
{
    u32 i = 0;
    for (; i + 4 * sizeof(word) <= n; i += 4 * sizeof(word)) {
        word a = word_load(from + i), b = word_load(from + i + sizeof(word));
        word c = word_load(from + i + 2 * sizeof(word)), d = word_load(from + i + 3 * sizeof(word));
        if (nt) {
            word_store_nt(to + i, a);
            word_store_nt(to + i + sizeof(word), b);
            word_store_nt(to + i + 2 * sizeof(word), c);
            word_store_nt(to + i + 3 * sizeof(word), d);
        } else {
            word_store(to + i, a);
            word_store(to + i + sizeof(word), b);
            word_store(to + i + 2 * sizeof(word), c);
            word_store(to + i + 3 * sizeof(word), d);
        }
    }
    for (; i + 8 <= n; i += 8) {
        u64 w = *(const u64 *)(from + i);
        if (nt)
            store_nt((u64 *)(to + i), w);
        else
            *(u64 *)(to + i) = w;
    }
    if (i < n) {
        // Sources and buffers end at a multiple of eight, so the rest is one more store.
        u64 w = *(const u64 *)(from + i);
        if (nt)
            store_nt((u64 *)(to + i), w);
        else
            *(u64 *)(to + i) = w;
    }
}

#endif

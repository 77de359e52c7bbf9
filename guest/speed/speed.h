// Shared by the programs of the speed benchmark. SCALE (percent) sets their length, HARTS the
// number of harts that run them.
#ifndef SPEED_H
#define SPEED_H
typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
// At least once, however short a run is to be.
#define TIMES(n) ((u64)(n) * SCALE / 100 ? (u64)(n) * SCALE / 100 : 1)
#define LINE __attribute__((aligned(64)))
#define PAGE __attribute__((aligned(4096)))
#define MIB (1ul << 20)
// Xorshift: cheap numbers that a compiler cannot predict.
static inline u64 next(u64 *state)
{
    u64 x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}
// Mixes a value into a result.
static inline u64 mix(u64 sum, u64 value)
{
    return (sum ^ value) * 0x9e3779b97f4a7c15ul;
}
// The program, on one hart; its result depends on everything that it computed.
u64 run(u64 hart);
#endif

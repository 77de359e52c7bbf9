// What the programs of the speed benchmark share. SCALE (percent) sets their length.
#ifndef SPEED_H
#define SPEED_H
typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned char u8;
#ifndef SCALE
#define SCALE 100
#endif
#define TIMES(n) ((u64)(n) * SCALE / 100)
// Xorshift: cheap numbers that a compiler cannot foresee.
static inline u64 next(u64 *state)
{
    u64 x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}
u64 run(void);
#endif

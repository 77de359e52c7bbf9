// XXH64, after its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
#ifndef OFF2F_XXH64_H
#define OFF2F_XXH64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XXH_P1 0x9e3779b185ebca87u
#define XXH_P2 0xc2b2ae3d27d4eb4fu
#define XXH_P3 0x165667b19e3779f9u
#define XXH_P4 0x85ebca77c2b2ae63u
#define XXH_P5 0x27d4eb2f165667c5u

static inline uint64_t xxh_turn(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

static inline uint64_t xxh_round(uint64_t lane, uint64_t input)
{
    return xxh_turn(lane + input * XXH_P2, 31) * XXH_P1;
}

static inline uint64_t xxh64_seeded(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *p = data;
    size_t left = len;
    uint64_t h = seed + XXH_P5, word;
    uint32_t half;
    if (len >= 32) {
        uint64_t lane[4] = {seed + XXH_P1 + XXH_P2, seed + XXH_P2, seed, seed - XXH_P1};
        for (; left >= 32; left -= 32)
            for (int i = 0; i < 4; i++, p += 8) {
                memcpy(&word, p, 8);
                lane[i] = xxh_round(lane[i], word);
            }
        h = xxh_turn(lane[0], 1) + xxh_turn(lane[1], 7) + xxh_turn(lane[2], 12) +
            xxh_turn(lane[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ xxh_round(0, lane[i])) * XXH_P1 + XXH_P4;
    }
    h += len;
    for (; left >= 8; left -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = xxh_turn(h ^ xxh_round(0, word), 27) * XXH_P1 + XXH_P4;
    }
    if (left >= 4) {
        memcpy(&half, p, 4);
        h = xxh_turn(h ^ half * XXH_P1, 23) * XXH_P2 + XXH_P3;
        left -= 4;
        p += 4;
    }
    for (; left > 0; left--, p++)
        h = xxh_turn(h ^ *p * XXH_P5, 11) * XXH_P1;
    h = (h ^ h >> 33) * XXH_P2;
    h = (h ^ h >> 29) * XXH_P3;
    return h ^ h >> 32;
}

// With seed 0, as all checksums of the format are.
static inline uint64_t xxh64(const void *data, size_t len)
{
    return xxh64_seeded(data, len, 0);
}

#endif

/* See ascon.h. Numbers are little-endian, as the hart's are. */
#include "ascon.h"

#define HASH_IV 0x0000080100cc0002ull
#define AEAD_IV 0x00001000808c0001ull
enum { LONG = 12, SHORT = 8 };

static uint64_t rotate(uint64_t x, int by)
{
    return x >> by | x << (64 - by);
}

static void permute(struct ascon *s, int rounds)
{
    uint64_t a = s->x[0], b = s->x[1], c = s->x[2], d = s->x[3], e = s->x[4];
    for (int r = LONG - rounds; r < LONG; r++) {
        c ^= 0xf0 - 0xf * r;
        a ^= e, e ^= d, c ^= b;
        uint64_t t = ~a & b, u = ~b & c, v = ~c & d, w = ~d & e, z = ~e & a;
        a ^= u, b ^= v, c ^= w, d ^= z, e ^= t;
        b ^= a, a ^= e, d ^= c, c = ~c;
        a ^= rotate(a, 19) ^ rotate(a, 28);
        b ^= rotate(b, 61) ^ rotate(b, 39);
        c ^= rotate(c, 1) ^ rotate(c, 6);
        d ^= rotate(d, 10) ^ rotate(d, 17);
        e ^= rotate(e, 7) ^ rotate(e, 41);
    }
    s->x[0] = a, s->x[1] = b, s->x[2] = c, s->x[3] = d, s->x[4] = e;
}

/* Up to 8 bytes as a number. */
static uint64_t get(const uint8_t *from, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes && i < 8; i++)
        n |= (uint64_t)from[i] << 8 * i;
    return n;
}

static void put(uint8_t *to, size_t bytes, uint64_t n)
{
    for (size_t i = 0; i < bytes && i < 8; i++)
        to[i] = n >> 8 * i;
}

void ascon_hash_begin(struct ascon *s)
{
    *s = (struct ascon){.x = {HASH_IV}};
    permute(s, LONG);
}

void ascon_hash_words(struct ascon *s, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        s->x[0] ^= words[i];
        permute(s, LONG);
    }
}

void ascon_hash_end(struct ascon *s, const uint8_t *rest, size_t bytes, uint8_t hash[ASCON_HASH])
{
    for (; bytes >= 8; rest += 8, bytes -= 8) {
        s->x[0] ^= get(rest, 8);
        permute(s, LONG);
    }
    s->x[0] ^= get(rest, bytes) ^ 1ull << 8 * bytes;
    for (int i = 0; i < ASCON_HASH; i += 8) {
        permute(s, LONG);
        put(hash + i, 8, s->x[0]);
    }
}

static void begin(struct ascon *s, const uint8_t *key, const uint8_t *nonce, const uint8_t with[8])
{
    uint64_t k0 = get(key, 8), k1 = get(key + 8, 8);
    *s = (struct ascon){.x = {AEAD_IV, k0, k1, get(nonce, 8), get(nonce + 8, 8)}};
    permute(s, LONG);
    s->x[3] ^= k0, s->x[4] ^= k1;
    s->x[0] ^= get(with, 8);
    s->x[1] ^= 1;
    permute(s, SHORT);
    s->x[4] ^= 1ull << 63;
}

static void end(struct ascon *s, const uint8_t *key, uint8_t tag[ASCON_TAG])
{
    uint64_t k0 = get(key, 8), k1 = get(key + 8, 8);
    s->x[2] ^= k0, s->x[3] ^= k1;
    permute(s, LONG);
    put(tag, 8, s->x[3] ^ k0);
    put(tag + 8, 8, s->x[4] ^ k1);
}

/* The text, in place: what goes into the state is the plain text. */
static void pass(struct ascon *s, uint8_t *text, size_t bytes, int opens)
{
    for (;;) {
        for (int half = 0; half < 2; half++) {
            size_t n = bytes < 8 ? bytes : 8;
            uint64_t in = get(text, n), out = in ^ s->x[half];
            put(text, n, out);
            uint64_t kept = n < 8 ? (1ull << 8 * n) - 1 : ~0ull;
            s->x[half] ^= opens ? out & kept : in;
            text += n, bytes -= n;
            if (n < 8) {
                s->x[half] ^= 1ull << 8 * n;
                return;
            }
        }
        permute(s, SHORT);
    }
}

void ascon_seal(const uint8_t key[ASCON_KEY], const uint8_t nonce[ASCON_NONCE], const uint8_t with[8], uint8_t *text,
                size_t bytes, uint8_t tag[ASCON_TAG])
{
    struct ascon s;
    begin(&s, key, nonce, with);
    pass(&s, text, bytes, 0);
    end(&s, key, tag);
}

int ascon_open(const uint8_t key[ASCON_KEY], const uint8_t nonce[ASCON_NONCE], const uint8_t with[8], uint8_t *text,
               size_t bytes, const uint8_t tag[ASCON_TAG])
{
    struct ascon s;
    uint8_t own[ASCON_TAG], differs = 0;
    begin(&s, key, nonce, with);
    pass(&s, text, bytes, 1);
    end(&s, key, own);
    for (int i = 0; i < ASCON_TAG; i++)
        differs |= own[i] ^ tag[i];
    for (size_t i = 0; differs && i < bytes; i++)
        text[i] = 0;
    return differs;
}

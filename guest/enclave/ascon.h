/* Ascon of NIST SP 800-232: Ascon-Hash256 and Ascon-AEAD128. */
#ifndef ASCON_H
#define ASCON_H
#include <stddef.h>
#include <stdint.h>

enum { ASCON_KEY = 16, ASCON_NONCE = 16, ASCON_TAG = 16, ASCON_HASH = 32 };

struct ascon {
    uint64_t x[5];
};

/* A hash in parts: all but the last one are a multiple of 8 bytes. */
void ascon_hash_begin(struct ascon *s);
void ascon_hash_words(struct ascon *s, const uint64_t *words, size_t count);
void ascon_hash_end(struct ascon *s, const uint8_t *rest, size_t bytes, uint8_t hash[ASCON_HASH]);

/* Encrypts a text in place, of which `with` is authenticated, too. */
void ascon_seal(const uint8_t key[ASCON_KEY], const uint8_t nonce[ASCON_NONCE], const uint8_t with[8], uint8_t *text,
                size_t bytes, uint8_t tag[ASCON_TAG]);
/* Decrypts in place. 0 if the tag is right; otherwise the text is zero afterwards. */
int ascon_open(const uint8_t key[ASCON_KEY], const uint8_t nonce[ASCON_NONCE], const uint8_t with[8], uint8_t *text,
               size_t bytes, const uint8_t tag[ASCON_TAG]);
#endif

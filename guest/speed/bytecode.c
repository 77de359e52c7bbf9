// An interpreter of a small machine language, by a switch: it runs a sieve of prime numbers.
#include "speed.h"
enum op { SET, COPY, ADD, ADDI, LESS, JZ, JUMP, LOAD, STORE, MUL, XOR, SHIFT, HALT };
struct code {
    u8 op, a, b, c;
    int k;
};
enum { LIMIT = 8000 };
// r0: prime, r1: multiple, r2: limit, r3, r4: temporary, r5: count, r6: one, r7: hash
static const struct code sieve[] = {
    { SET, 0, 0, 0, 2 },
    { SET, 2, 0, 0, LIMIT },
    { SET, 6, 0, 0, 1 },
    { SET, 5, 0, 0, 0 },
    // 4: for each number
    { LESS, 3, 0, 2, 0 },
    { JZ, 3, 0, 0, 20 },
    { LOAD, 3, 0, 0, 0 },
    { XOR, 3, 3, 6, 0 },
    { JZ, 3, 0, 0, 18 },
    { ADDI, 5, 5, 0, 1 },
    { MUL, 7, 7, 0, 0 },
    { SHIFT, 4, 7, 0, 7 },
    { XOR, 7, 7, 4, 0 },
    { ADD, 7, 7, 5, 0 },
    { ADD, 1, 0, 0, 0 },
    // 15: for each multiple of a prime
    { LESS, 3, 1, 2, 0 },
    { JZ, 3, 0, 0, 18 },
    { JUMP, 0, 0, 0, 21 },
    // 18: the next number
    { ADDI, 0, 0, 0, 1 },
    { JUMP, 0, 0, 0, 4 },
    { HALT, 0, 0, 0, 0 },
    // 21: strike it out
    { STORE, 6, 1, 0, 0 },
    { ADD, 1, 1, 0, 0 },
    { JUMP, 0, 0, 0, 15 },
};
static u8 memory[LIMIT] LINE;

static u64 interpret(const struct code *code, u64 *r)
{
    for (u64 pc = 0;;) {
        const struct code *i = code + pc++;
        switch (i->op) {
        case SET: r[i->a] = (u64)i->k; break;
        case COPY: r[i->a] = r[i->b]; break;
        case ADD: r[i->a] = r[i->b] + r[i->c]; break;
        case ADDI: r[i->a] = r[i->b] + (u64)i->k; break;
        case LESS: r[i->a] = r[i->b] < r[i->c]; break;
        case JZ: pc = r[i->a] ? pc : (u64)i->k; break;
        case JUMP: pc = (u64)i->k; break;
        case LOAD: r[i->a] = memory[r[i->b]]; break;
        case STORE: memory[r[i->b]] = (u8)r[i->a]; break;
        case MUL: r[i->a] = r[i->b] * (r[i->c] | 1); break;
        case XOR: r[i->a] = r[i->b] ^ r[i->c]; break;
        case SHIFT: r[i->a] = r[i->b] >> i->k; break;
        default: return r[5];
        }
    }
}

u64 run(u64 hart)
{
    u64 r[8] = { 0, 0, 0, 0, 0, 0, 0, 1 + hart }, sum = 0;
    for (u64 pass = 0; pass < TIMES(100); pass++) {
        for (u64 i = 0; i < LIMIT; i++)
            memory[i] = 0;
        sum = mix(sum, interpret(sieve, r) + r[7]);
    }
    return sum;
}

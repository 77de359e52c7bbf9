// Random updates of a table of 2^BITS words. Usage: gups BITS UPDATES
#include "nagori_mark.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { POLYNOMIAL = 7 };

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    size_t words = (size_t)1 << atoi(arguments[1]);
    long updates = atol(arguments[2]);
    uint64_t *table = malloc(words * sizeof *table);
    if (table == NULL)
        return 1;
    for (size_t i = 0; i < words; i++)
        table[i] = i;
    uint64_t r = 1;
    nagori_roi_begin();
    for (long u = 0; u < updates; u++) {
        r = r << 1 ^ ((int64_t)r < 0 ? POLYNOMIAL : 0);
        uint64_t mixed = r * 0x9e3779b97f4a7c15;
        table[mixed >> 20 & (words - 1)] ^= mixed;
    }
    nagori_roi_end();
    uint64_t sum = 0;
    for (size_t i = 0; i < words; i++)
        sum = sum * 31 + table[i];
    printf("%016lx\n", (unsigned long)sum);
}

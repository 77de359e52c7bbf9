// The measured loops. Nothing else is between the two readings of the clock.
#ifndef NAGORI_LOOPS_H
#define NAGORI_LOOPS_H

#include <stddef.h>
#include <stdint.h>

// One access at base, base + stride, ... below base + bytes.
void loop_read(const volatile char *base, size_t bytes, size_t stride);
void loop_write(volatile char *base, size_t bytes, size_t stride);

// At each of the offsets 0, stride, ... below bytes: one access in each of `banks` banks,
// which are `bank` bytes apart.
void loop_read_banks(const volatile char *base, size_t bytes, size_t stride, size_t bank,
                     size_t banks);
void loop_write_banks(volatile char *base, size_t bytes, size_t stride, size_t bank, size_t banks);

// One CFLUSH.D.L1 for each line.
void loop_flush(const volatile char *base, size_t bytes);

#endif

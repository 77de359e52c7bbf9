// What guest programs can do on a Nagori machine that ordinary RISC-V programs cannot:
// flush cache lines from user space, and talk to the control block.
//
// Register names, offsets and values are in nagori_regs.h, which the platform generates.
#ifndef NAGORI_H
#define NAGORI_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nagori_regs.h"

enum { NAGORI_LINE = 64 }; // bytes of a line of the L1 data cache

// CFLUSH.D.L1, the form that user programs may use: writes the line at `p` back, if it is dirty,
// and removes it from this hart's L1 data cache.
static inline void nagori_cflush_line(const volatile void *p)
{
    __asm__ volatile(".insn i 0x73, 0, x0, %0, -0x340" : : "r"(p) : "memory");
}

// CFLUSH.D.L1 for the whole L1 data cache of this hart.
static inline void nagori_cflush_all(void)
{
    __asm__ volatile(".insn i 0x73, 0, x0, x0, -0x340" : : : "memory");
}

// Zicbom; traps unless the kernel allows it to user programs (Debian's 6.12 does not).
static inline void nagori_cbo_inval(volatile void *p)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 0" : : "r"(p) : "memory");
}

static inline void nagori_cbo_clean(const volatile void *p)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 1" : : "r"(p) : "memory");
}

static inline void nagori_cbo_flush(const volatile void *p)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 2" : : "r"(p) : "memory");
}

// Zicboz.
static inline void nagori_cbo_zero(volatile void *p)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 4" : : "r"(p) : "memory");
}

// Orders earlier memory accesses and flushes with later ones.
static inline void nagori_fence(void)
{
    __asm__ volatile("fence rw, rw" : : : "memory");
}

// Maps the control block at physical address `phys` (usually NAGORI_CTL_BASE) into this process,
// which must be root's. Returns the address for nagori_read and nagori_write, or NULL with errno
// set.
static inline volatile void *nagori_open(uint64_t phys)
{
    int fd = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *p = mmap(NULL, NAGORI_CTL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)phys);
    int error = errno;
    close(fd);
    errno = error;
    return p == MAP_FAILED ? NULL : p;
}

// Registers are 64 bits wide; `offset` is one of NAGORI_CTL_*.
static inline uint64_t nagori_read(const volatile void *base, unsigned long offset)
{
    return *(const volatile uint64_t *)((const volatile char *)base + offset);
}

static inline void nagori_write(volatile void *base, unsigned long offset, uint64_t value)
{
    *(volatile uint64_t *)((volatile char *)base + offset) = value;
}

// Writes a register. Returns 0, or why the machine rejected the value: one of NAGORI_ERROR_IS_*.
static inline uint64_t nagori_set(volatile void *base, unsigned long offset, uint64_t value)
{
    nagori_write(base, NAGORI_CTL_ERROR, 0);
    nagori_write(base, offset, value);
    return nagori_read(base, NAGORI_CTL_ERROR);
}

#endif

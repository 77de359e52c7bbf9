// Common to the benchmarks: time, memory, the control block, options, result rows.
#ifndef NAGORI_BENCH_H
#define NAGORI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nagori.h"

// Ends the program with a message and status 1.
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

// A number with an optional suffix k, M, G (powers of 1024); dies if `text` is not one, or
// outside of min..max.
uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max);

// --- the control block ---

// The machine; without a control block (`--anonymous`) `ctl` is NULL and setters do nothing.
struct board {
    volatile void *ctl;
    uint64_t nvmm_base, nvmm_bytes; // physical
};

void board_open(struct board *b, uint64_t phys);
// Writes a register; dies if the machine rejects the value.
void board_set(const struct board *b, const char *name, unsigned long offset, uint64_t value);
// Dies if `name` is not a method.
unsigned method_number(const char *name);
const char *method_name(uint64_t method);
const char *board_method(const struct board *b); // "none" without a control block
void board_set_method(const struct board *b, unsigned method);
bool board_timed(const struct board *b);
void board_set_timed(const struct board *b, bool on);

// --- memory ---

// Banks of NVMM as a program sees them: a window at the start of each. The windows are as far apart
// in virtual addresses as the banks are in physical ones, so that the page table entries of the
// same offset in several banks are at the same place of their pages.
struct window {
    volatile char *base;
    size_t bytes; // of each bank
    size_t bank;  // distance
};

enum { PAGE = 4096 };
#define BANK_BYTES ((size_t)512 << 20)
// The range that one leaf page table covers.
#define LEAF_SPAN ((size_t)2 << 20)

// Maps `bytes` of each of `banks` banks in pages of 4 KiB and touches each page, so that no
// access faults later; contents are kept. Anonymous memory if there is no control block.
struct window window_map(const struct board *b, size_t banks, size_t bytes, bool write);
void window_unmap(struct window *w, size_t banks);

// --- time ---

struct reading {
    uint64_t ns, cycles;
};

// Does `f` run without an illegal instruction or a fault?
bool allowed(void (*f)(void));
// Are user programs allowed to read the cycle counter?
bool cycles_readable(void);
struct reading clock_read(bool with_cycles);

// --- cells ---

enum op { READ, WRITE };
enum kind { STRIDE, NBANK };

struct cell {
    enum op op;
    enum kind kind;
    size_t value;    // the stride in bytes, or the number of banks
    size_t bytes;    // measured, of each bank
    size_t warm;     // bytes of each bank that are gone through before, below the measured
    unsigned repeat; // passes over the measured bytes
};

enum { ROW_STEP = 8192 }; // from row to row of a bank

// What all accesses of a cell took; cycles are 0 where the counter cannot be read.
struct result {
    struct reading took;
    uint64_t accesses;
};

// Measures a cell. The machine is timed from the warm-up to the end. `bytes` is the memory that the
// cell's accesses need.
struct window cell_window(const struct board *b, const struct cell *c);
struct result cell_measure(const struct board *b, const struct cell *c, const struct window *w);
void cell_print(const struct cell *c, const struct result *r, const char *method);
// Measures a cell and prints its row.
void cell_run(const struct board *b, const struct cell *c, const struct window *w,
              const char *method);
enum op parse_op(const char *text);
const char *op_name(enum op op);

// Sets the method of --method; without the option the current one stays. Returns it.
const char *use_method(const struct board *b, const char *asked);

#endif

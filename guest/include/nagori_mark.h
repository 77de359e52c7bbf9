// Markers: how a program tells the machine something, without any privilege.
//
// A marker is the hint `slti x0, rs1, 0x4e0 + n`. The unprivileged specification designates all
// of `slti` with rd = x0 for custom hints (table "RV64I HINT instructions"; "no standard HINTs will
// ever be defined in this subspace"), so a marker is a no-op on other harts, and may stay in
// programs for real hardware. It costs one ordinary instruction. On a machine with `markers = false`
// (nagori --no-markers) it does nothing here, either.
//
// C and C++; needs no other header, no library and no system call.
#ifndef NAGORI_MARK_H
#define NAGORI_MARK_H

enum {
    NAGORI_MARK_ROI_BEGIN = 0x4e0,   // the region of interest begins
    NAGORI_MARK_ROI_END = 0x4e1,     // it ends
    NAGORI_MARK_STATS_RESET = 0x4e2, // statistics start anew
    NAGORI_MARK_STATS_DUMP = 0x4e3,  // the statistics so far are kept under the value
    NAGORI_MARK_METHOD = 0x4e4,      // the delay method is the one with this number
    NAGORI_MARK_LABEL = 0x4e5,       // the value is kept with the time
    NAGORI_MARK_SNAPSHOT = 0x4e6,    // a snapshot is wanted here
    NAGORI_MARK_STOP = 0x4e7,        // the run ends, with this exit code
};

// The marker `number` (a constant) with a value. The compiler moves no memory access across it.
#ifdef __riscv
#define nagori_mark(number, value)                                                     \
    __asm__ volatile("slti x0, %z0, %1"                                                \
                     :                                                                 \
                     : "rJ"((unsigned long)(value)), "i"(number)                       \
                     : "memory")
#else
#define nagori_mark(number, value) ((void)(value))
#endif

// Regions of interest: the code between the two is reported separately, summed over all regions;
// with --region-of-interest nothing else is timed. They do not nest.
static inline void nagori_roi_begin(void) { nagori_mark(NAGORI_MARK_ROI_BEGIN, 0); }
static inline void nagori_roi_end(void) { nagori_mark(NAGORI_MARK_ROI_END, 0); }

// Resets all statistics, including those of an open region.
static inline void nagori_stats_reset(void) { nagori_mark(NAGORI_MARK_STATS_RESET, 0); }

// Dumps the statistics so far, to be shown at the end under the label.
static inline void nagori_stats_dump(unsigned long label)
{
    nagori_mark(NAGORI_MARK_STATS_DUMP, label);
}

// Delay method of NVMM: 0 dram, 1 coarse, 2 fine, 3 extended.
static inline void nagori_method(unsigned long method) { nagori_mark(NAGORI_MARK_METHOD, method); }

// Up to eight characters as a label's value, the first in the lowest byte.
static inline unsigned long nagori_text(const char *text)
{
    unsigned long value = 0;
    for (unsigned i = 0; i < 8 && text[i] != '\0'; i++)
        value |= (unsigned long)(unsigned char)text[i] << 8 * i;
    return value;
}

// Records the label with its time: nagori_label(nagori_text("phase 2")).
static inline void nagori_label(unsigned long value) { nagori_mark(NAGORI_MARK_LABEL, value); }

// Requests a snapshot; it is taken if the command takes snapshots.
static inline void nagori_snapshot(void) { nagori_mark(NAGORI_MARK_SNAPSHOT, 0); }

// Ends the run. Where markers have no effect, the program continues.
static inline void nagori_stop(unsigned code) { nagori_mark(NAGORI_MARK_STOP, code); }

#endif

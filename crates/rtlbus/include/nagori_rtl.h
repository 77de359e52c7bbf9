/* Memory and devices of Nagori behind a core that is simulated as RTL. Generated from crates/rtlbus/src by cbindgen:
 * do not edit.
 *
 * Every function checks its pointers for null and alignment. The caller guarantees what no check can see: a handle
 * comes from nagori_rtl_create, was not destroyed and is used by one thread at a time; strings end with a zero byte;
 * other pointers point to such structures.
 */

#ifndef NAGORI_RTL_H
#define NAGORI_RTL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Exit code of a run that was stopped, or that could not go on.
#define NAGORI_RTL_STOPPED 124

// Exit code of a run that could not begin.
#define NAGORI_RTL_USAGE 2

// A run. Only pointers to it leave the library.
typedef struct NagoriRtl NagoriRtl;

// What a slave drives in one clock. All responses are OKAY.
typedef struct {
  // A beat that was read, lowest bytes first.
  uint64_t r_data[2];
  // A read burst would be accepted.
  uint8_t ar_ready;
  // A write burst would be accepted.
  uint8_t aw_ready;
  // A beat to be written would be accepted.
  uint8_t w_ready;
  // A beat that was read is there.
  uint8_t r_valid;
  // Its burst's id.
  uint8_t r_id;
  // It is the last of its burst.
  uint8_t r_last;
  // A response to a write is there.
  uint8_t b_valid;
  // Its burst's id.
  uint8_t b_id;
} NagoriAxiSlave;

// What a master drives in one clock.
typedef struct {
  // Address of the first byte of a read burst.
  uint64_t ar_addr;
  // Address of the first byte of a write burst.
  uint64_t aw_addr;
  // A beat to be written, lowest bytes first.
  uint64_t w_data[2];
  // A read burst is asked for.
  uint8_t ar_valid;
  // Its id.
  uint8_t ar_id;
  // Its beats less one.
  uint8_t ar_len;
  // Base-two logarithm of the bytes of its beats.
  uint8_t ar_size;
  // A write burst is announced.
  uint8_t aw_valid;
  // Its id.
  uint8_t aw_id;
  // Its beats less one.
  uint8_t aw_len;
  // Base-two logarithm of the bytes of its beats.
  uint8_t aw_size;
  // A beat to be written is there.
  uint8_t w_valid;
  // Which of its bytes are written.
  uint16_t w_strb;
  // It is the last of its burst.
  uint8_t w_last;
  // A beat that was read would be taken.
  uint8_t r_ready;
  // A response to a write would be taken.
  uint8_t b_ready;
} NagoriAxiMaster;

// What the write-back stage does in one clock.
typedef struct {
  // Address of the instruction.
  uint64_t pc;
  // The value written, if `writes`.
  uint64_t value;
  // Its first operand.
  uint64_t rs1;
  // Its second operand.
  uint64_t rs2;
  // `mcause`, if it traps.
  uint64_t cause;
  // `mtval`, if it traps.
  uint64_t tval;
  // Its bits.
  uint32_t word;
  // It retires.
  uint8_t valid;
  // It traps instead.
  uint8_t trap;
  // It writes an integer register in this clock.
  uint8_t writes;
  // Its destination, 0 for none; of floating point if the instruction says so.
  uint8_t rd;
} NagoriRtlCommit;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Begins a run with the arguments of a program, `argv[0]` being its name. Returns null after a message
// to stderr if that is not possible. The memory port has beats of `width` bytes, 8 or 16.
//
// # Safety
// `argv` has `argc` strings, each of which ends with a zero byte.
NagoriRtl *nagori_rtl_create(int argc,
                             const char *const *argv,
                             int width);

// What the ports drive in this clock. It depends on nothing that the core drives in the same clock.
// Returns 0 when the run is over.
//
// # Safety
// See the top of this header.
int nagori_rtl_drive(NagoriRtl *rtl, NagoriAxiSlave *memory, NagoriAxiSlave *devices);

// The clock edge at the end of a clock, in which the core drove this.
//
// # Safety
// See the top of this header.
void nagori_rtl_clock(NagoriRtl *rtl,
                      const NagoriAxiMaster *memory,
                      const NagoriAxiMaster *devices,
                      const NagoriRtlCommit *commit);

// Ends the run, writes its files, prints what the program wrote, frees everything, and returns the exit code.
//
// # Safety
// See the top of this header; `rtl` is not used afterwards.
int nagori_rtl_finish(NagoriRtl *rtl);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NAGORI_RTL_H */

/* The memory model of Nagori for other simulators. Generated from crates/capi/src by cbindgen: do not edit.
 *
 * Every function checks its pointers for null and alignment and returns a status. The caller guarantees what
 * no check can see: a handle comes from nagori_memory_create, was not destroyed and is used by one thread at
 * a time; strings end with a zero byte; buffers are as long as stated. Times are picoseconds. See docs/c-api.md.
 */

#ifndef NAGORI_MEMORY_H
#define NAGORI_MEMORY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Done.
#define NAGORI_OK 0

// The request was not accepted: submit it again at the time returned.
#define NAGORI_BUSY 1

// There is none: no event is pending.
#define NAGORI_NONE 2

// A pointer is null or not aligned.
#define NAGORI_ERROR_POINTER -1

// A name, setting or value is not possible.
#define NAGORI_ERROR_ARGUMENT -2

// The memory's description is not possible.
#define NAGORI_ERROR_CONFIG -3

// The request is outside the memory or has an impossible size.
#define NAGORI_ERROR_REQUEST -4

// The time is beyond what the model can represent.
#define NAGORI_ERROR_TIME -5

// The buffer is too short: the length needed is returned.
#define NAGORI_ERROR_BUFFER -6

// A defect of the library; the handle can only be destroyed.
#define NAGORI_ERROR_INTERNAL -7

// This memory has no such thing (device commands to log).
#define NAGORI_ERROR_UNSUPPORTED -8

// The saved state is damaged, of another version of the library, or of another memory.
#define NAGORI_ERROR_SAVED -9

// A request that reads.
#define NAGORI_READ 0

// A request that writes.
#define NAGORI_WRITE 1

// Changes whenever a program written for an older header would break.
#define NAGORI_ABI_VERSION 2

// A memory. Only pointers to it leave the library.
typedef struct NagoriMemory NagoriMemory;

// A finished request.
typedef struct {
  // The request's id.
  uint64_t id;
  // When the memory accepted it, in ps.
  uint64_t accepted_at;
  // When it was or will be done, in ps.
  uint64_t done_at;
  // NAGORI_READ or NAGORI_WRITE.
  uint32_t kind;
  // 1 if the row (or buffered line) was already open, 0 if not.
  uint32_t row_hit;
} NagoriCompletion;

// A request.
typedef struct {
  // When it arrives, in ps.
  uint64_t at;
  // Its id, which its completion has, too.
  uint64_t id;
  // Its first byte.
  uint64_t addr;
  // NAGORI_READ or NAGORI_WRITE.
  uint32_t kind;
  // Bytes: 1 to 64 inside one 64-byte line.
  uint32_t bytes;
} NagoriRequest;

// A command that a controller sent to a device.
typedef struct {
  // When it was sent, in ps.
  uint64_t at;
  // When it was sent, in clocks of its channel.
  uint64_t clock;
  // Its name with a zero byte: ACT, PRE, PREab, RD, WR, RDA, WRA, REFab, REFpb, PAUSE, RESUM.
  char name[8];
  // Channel, counted over all controllers of the memory.
  uint32_t channel;
  // Rank.
  uint32_t rank;
  // Bank group; 0 for commands that concern the rank.
  uint32_t bank_group;
  // Bank in its group; 0 for commands that concern the rank.
  uint32_t bank;
  // Row; 0 where there is none.
  uint32_t row;
  // Column in bursts; 0 except for reads and writes.
  uint32_t column;
} NagoriCommand;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of this interface: compare it with NAGORI_ABI_VERSION.
uint32_t nagori_abi_version(void);

// Makes a memory from a preset's name ("ddr3-1600k", "board", "xpoint")
// or the path of a description, with `settings_count` strings "key=value".
// On success `*memory` is the handle; on an error it is null, and `message`
// (if not null) gets the error's text, cut to `message_size` with its zero byte.
//
// # Safety
// `name` and the settings end with a zero byte, `settings` has
// `settings_count` entries (or is null, with none), `message` has
// `message_size` bytes.
int32_t nagori_memory_create(const char *name,
                             const char *const *settings,
                             size_t settings_count,
                             NagoriMemory **memory,
                             char *message,
                             size_t message_size);

// Frees a memory; null is ignored.
//
// # Safety
// `memory` comes from nagori_memory_create and is not used afterwards.
void nagori_memory_destroy(NagoriMemory *memory);

// Size in bytes.
//
// # Safety
// See the top of this header.
int32_t nagori_memory_capacity(NagoriMemory *memory, uint64_t *bytes);

// Period in which cycles are reported, in ps, to the nearest one.
//
// # Safety
// See the top of this header.
int32_t nagori_memory_clock(NagoriMemory *memory, uint64_t *period);

// Submits a request of 1 to 64 bytes inside one 64-byte line that arrives at
// `at` ps (a time before the latest one given is treated as that). Returns
// NAGORI_BUSY and sets `*busy_until` if there is no room.
//
// # Safety
// See the top of this header.
int32_t nagori_memory_submit(NagoriMemory *memory,
                             uint64_t at,
                             uint64_t id,
                             uint64_t addr,
                             uint32_t kind,
                             uint32_t bytes,
                             uint64_t *busy_until);

// The earliest time to which advancing can have an effect, or NAGORI_NONE.
//
// # Safety
// See the top of this header.
int32_t nagori_memory_next_event(NagoriMemory *memory, uint64_t *at);

// Processes everything before `t` ps.
//
// # Safety
// See the top of this header.
int32_t nagori_memory_advance(NagoriMemory *memory, uint64_t t);

// Sends all writes taken so far to the device, including writes that a controller
// holds back until there are more of them, and advances until they are there:
// the end of a run. `*end` is the end of the last write in ps (its last data,
// or its cell write), 0 if there never was one. If it does not lie after `at`, all
// writes were over by then; some models do not know since when, and say 0.
// Completions are to be drained afterwards as after nagori_memory_advance.
//
// # Safety
// See the top of this header.
int32_t nagori_memory_flush(NagoriMemory *memory, uint64_t at, uint64_t *end);

// Moves up to `capacity` completions into `out` and sets `*count`; what does
// not fit stays for the next call.
//
// # Safety
// `out` has room for `capacity` completions.
int32_t nagori_memory_drain(NagoriMemory *memory,
                            NagoriCompletion *out,
                            size_t capacity,
                            size_t *count);

// Statistics at `at` ps as JSON with a zero byte. `*needed` (if not null) is
// the length with the zero byte; if `size` is less, nothing is written and
// NAGORI_ERROR_BUFFER is returned. To ask for the length, `size` is 0 and `out` may be null.
//
// # Safety
// `out` has `size` bytes.
int32_t nagori_memory_stats_json(NagoriMemory *memory,
                                 uint64_t at,
                                 char *out,
                                 size_t size,
                                 size_t *needed);

// Text of the latest error of this memory, empty without any; lengths as for
// nagori_memory_stats_json.
//
// # Safety
// `out` has `size` bytes.
int32_t nagori_memory_message(NagoriMemory *memory, char *out, size_t size, size_t *needed);

// Resets the statistics at `at` ps.
//
// # Safety
// See the top of this header.
int32_t nagori_memory_reset_stats(NagoriMemory *memory, uint64_t at);

// Submits requests in their order, as nagori_memory_submit does one by one. `*count` is
// set to how many were accepted; if `accepted_at` is not null, it gets the time of acceptance of each.
//
// With `wait` 0 it ends before the first request for which there is no room, with NAGORI_BUSY and
// `*busy_until`. With `wait` 1 each request waits for room, and later ones arrive no earlier than it is accepted.
//
// If a request is refused, those before it stay accepted, and it is number `*count` (from 0).
//
// # Safety
// `requests` has `size` requests, and `accepted_at`, if not null, room for `size` times. See also the top of this
// header.
int32_t nagori_memory_submit_all(NagoriMemory *memory,
                                 const NagoriRequest *requests,
                                 size_t size,
                                 uint32_t wait,
                                 uint64_t *accepted_at,
                                 size_t *count,
                                 uint64_t *busy_until);

// Keeps every device command from now on (`on` is 1), or stops that and discards the log (0).
// NAGORI_ERROR_UNSUPPORTED for a memory without device commands ("xpoint").
//
// # Safety
// See the top of this header.
int32_t nagori_memory_set_command_log(NagoriMemory *memory, uint32_t on);

// Moves up to `capacity` logged commands, in the order of their times, into `out` and sets
// `*count`; what does not fit stays for the next call. None if nothing is logged.
//
// # Safety
// `out` has room for `capacity` commands.
int32_t nagori_memory_take_commands(NagoriMemory *memory,
                                    NagoriCommand *out,
                                    size_t capacity,
                                    size_t *count);

// Writes the memory's whole state into `out`: requests under way, completions that were not
// drained, buffers, wear, statistics, changed parameters; not the log of commands. `*needed` (if not
// null) is its length; if `size` is less, nothing is written and NAGORI_ERROR_BUFFER is returned.
// To ask for the length, `size` is 0 and `out` may be null.
//
// # Safety
// `out` has `size` bytes.
int32_t nagori_memory_save(NagoriMemory *memory,
                           uint8_t *out,
                           size_t size,
                           size_t *needed);

// Puts the memory into a state that nagori_memory_save wrote, of a memory that was created from the same
// name and settings; it continues exactly as the saved one would. A log of commands stays on or
// off, and begins empty. NAGORI_ERROR_SAVED if the state is not good: the memory is then as before.
//
// # Safety
// `state` has `size` bytes.
int32_t nagori_memory_restore(NagoriMemory *memory,
                              const uint8_t *state,
                              size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NAGORI_MEMORY_H */

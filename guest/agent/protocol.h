// The messages between `nagori run` and its agent in the guest, on port nagori.control.
//
// A message is a header, then `length` bytes; numbers are little-endian. The host's job comes as
// one message for each of its parts, in any order except that JOB_RUN is the last. The host's side
// is crates/session/src/program/protocol.rs.
#ifndef NAGORI_PROTOCOL_H
#define NAGORI_PROTOCOL_H

#include <stdint.h>

enum { PROTOCOL = 1, MESSAGE_MAX = 1 << 16 };

struct head {
    uint32_t type, length;
};

enum {
    // From the host.
    JOB_FILE = 1,    // u32 mode, path: a file is made; its directories, too
    JOB_DATA = 2,    // bytes to append to it
    JOB_ARG = 3,     // the next argument of the program, argv[0] first
    JOB_ENV = 4,     // NAME=VALUE
    JOB_CWD = 5,     // working directory
    JOB_MOUNT = 6,   // u32 flags (1: may be written), tag, 0, path: a share is mounted there
    JOB_FLAGS = 7,   // u32, of FLAG_*
    JOB_EXEC = 8,    // what is executed, if it is not argv[0]; without / it is looked up in PATH
    JOB_MEMORY = 9,  // u32: the NUMA node that the program's memory comes from
    JOB_RUN = 10,    // go
    JOB_SIGNAL = 11, // u32: a signal for the program's process group, any time after JOB_RUN
    JOB_SEED = 12,   // u64: entropy, addresses and starting time of the program follow from it
    JOB_CLOCK = 13,  // u64: the time of day, in seconds since 1970

    // From the agent.
    SAYS_READY = 1,   // u32 PROTOCOL, u32 timed registers are there
    SAYS_STARTED = 2, // u32 process id
    SAYS_ENDED = 3,   // struct ended
    SAYS_FAILED = 4,  // u32 errno, text: the program was not run
};

enum {
    FLAG_TIMED = 1,   // the timing model is on while the program runs
    FLAG_STDIN = 2,   // standard input is port nagori.stdin; otherwise it is empty
    FLAG_NETWORK = 4, // network interfaces are set up before the program is run
};

// Label of the snapshot in which the agent waits for a job: "job wait".
#define LABEL_READY 0x7469617720626f6aUL
// Label of the statistics at the program's end: "job end".
#define LABEL_END 0x646e6520626f6aUL

struct ended {
    uint32_t by_signal, status; // exit code, or the signal's number
    uint64_t user_us, system_us, max_rss_kib, minor_faults, major_faults;
};

#endif

/* The helper that `nagori native` loads into the programs that it starts (LD_PRELOAD). It asks the monitor at the end
 * of each epoch how long to wait, and waits. The formulas and the accounts are the monitor's; nothing is computed
 * here. */
#ifndef NAGORI_HELPER_H
#define NAGORI_HELPER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define MAGIC 0x6e676f31u /* "ngo1": changes with the messages */

enum kind { HELLO = 0, CLOSE = 1, BYE = 2 };

/* As `Cause` of the epoch crate. */
enum cause { TIME = 0, SYNC = 1, FORK = 2, EXEC = 3, EXIT = 4 };

/* What a thread tells the monitor; times in nanoseconds. */
struct request {
    uint32_t magic, kind, pid, tid, cause, reserved;
    uint64_t now;     /* monotonic time at the end of the epoch */
    uint64_t busy;    /* processor time of the thread's own work so far */
    uint64_t stopped; /* how long it was kept from its work after the last request */
    uint64_t flushed; /* lines flushed since then, and what was waited for them is not in `stopped` */
    uint64_t nt;      /* lines of non-temporal stores since then */
};

/* What the monitor answers. */
struct answer {
    uint32_t magic, verdict; /* verdict 0: go on; else: end, the monitor says why */
    uint64_t due;            /* nanoseconds to wait, from the request on */
    uint64_t epoch;          /* nanoseconds of processor time until the next request */
    uint64_t least;          /* at synchronisation, epochs shorter than this go on */
    uint64_t flush_ps;       /* picoseconds to wait for a flushed line */
    uint64_t nt_ps;          /* and for a line of non-temporal stores */
};

/* A thread's state. */
struct self {
    int ready;   /* it is known to the monitor */
    int busy;    /* it is in here: a signal has nothing to do */
    int fd;
    int timed;   /* it has a timer */
    ino_t inode; /* of the socket: the program may close it and open another file with its number */
    pid_t pid, tid;
    timer_t timer;
    uint64_t last;    /* monotonic time at which the epoch began */
    uint64_t spun;    /* processor time that was spent here */
    uint64_t stopped; /* not yet told to the monitor */
    uint64_t flushed, nt;
    uint64_t flush_ps, nt_ps, least, epoch;
    int64_t owed_ps; /* for lines; below zero after waiting too long */
};

extern __thread struct self nagori_self __attribute__((tls_model("initial-exec")));

uint64_t nagori_clock(clockid_t clock);
void nagori_close(enum cause cause, int always);
void nagori_begin(void);
void nagori_bye(void);
void nagori_forked(void);
void nagori_quiet(int quiet);
_Noreturn void nagori_die(const char *why);
/* The next definition of a function after ours. */
void *nagori_next(const char *name, const char *version);

#define SYNCHRONISE() nagori_close(SYNC, 0)
/* In a function of a library that is replaced here: `next` is the library's own. */
#define NEXT(name, version)                                                    \
    static __typeof__(name) *next;                                             \
    if (!next)                                                                 \
    next = (__typeof__(name) *)nagori_next(#name, version)

#endif

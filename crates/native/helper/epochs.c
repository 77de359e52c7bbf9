/* Threads, their timers, and the conversation with the monitor. Everything that a signal handler may reach is
 * async-signal-safe. */
#define _GNU_SOURCE
#include "helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Out of the way of programs that expect their first files to have small numbers. */
#define HIGH_FD 700

__thread struct self nagori_self __attribute__((tls_model("initial-exec")));
static struct sockaddr_un monitor;
static int known;
static int signal_number;

uint64_t nagori_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

_Noreturn void nagori_die(const char *why)
{
    const char *parts[] = {"nagori native: ", why, "; the program ends, because it must not run without emulation\n"};
    for (size_t i = 0; i < 3; i++)
        if (write(2, parts[i], strlen(parts[i])) < 0)
            break;
    syscall(SYS_exit_group, 112);
    __builtin_unreachable();
}

void *nagori_next(const char *name, const char *version)
{
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    if (!found)
        nagori_die(name);
    return found;
}

/* Whether the file is still our socket. */
static int intact(struct self *self)
{
    struct stat s;
    return self->fd >= 0 && fstat(self->fd, &s) == 0 && S_ISSOCK(s.st_mode) && s.st_ino == self->inode;
}

static void reach(struct self *self)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        nagori_die("no socket");
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    while (connect(fd, (struct sockaddr *)&monitor, sizeof monitor) != 0)
        if (errno != EINTR && errno != EAGAIN)
            nagori_die("the monitor is gone");
    struct stat s;
    fstat(fd, &s);
    self->inode = s.st_ino;
    self->fd = fd;
}

/* Tells the monitor, and takes its answer. */
static struct answer ask(struct self *self, enum kind kind, enum cause cause, uint64_t now, uint64_t busy)
{
    struct request request = {
        .magic = MAGIC, .kind = kind, .pid = (uint32_t)self->pid, .tid = (uint32_t)self->tid, .cause = cause,
        .now = now, .busy = busy, .stopped = self->stopped, .flushed = self->flushed, .nt = self->nt,
    };
    struct answer answer = {0};
    if (!intact(self))
        reach(self);
    ssize_t n;
    do
        n = send(self->fd, &request, sizeof request, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n != sizeof request)
        nagori_die("the monitor is gone");
    self->stopped = self->flushed = self->nt = 0;
    if (kind == BYE)
        return answer;
    do
        n = recv(self->fd, &answer, sizeof answer, 0);
    while (n < 0 && errno == EINTR);
    if (n != sizeof answer || answer.magic != MAGIC)
        nagori_die("the monitor is gone");
    if (answer.verdict)
        nagori_die("the monitor cannot go on");
    return answer;
}

static void arm(struct self *self)
{
    struct itimerspec in = {.it_value = {.tv_sec = (time_t)(self->epoch / 1000000000u),
                                         .tv_nsec = (long)(self->epoch % 1000000000u)}};
    if (self->timed)
        timer_settime(self->timer, 0, &in, NULL);
}

/* Ends an epoch: waits for what the monitor says. The time of the question is a part of the waiting, and what it takes
 * too long is reported with the next one. Waiting is counted in processor time, as a core that waits for memory is
 * busy: a thread that is not running is not waiting for memory. */
void nagori_close(enum cause cause, int always)
{
    struct self *self = &nagori_self;
    if (!self->ready || self->busy)
        return;
    self->busy = 1;
    int error = errno;
    uint64_t now = nagori_clock(CLOCK_MONOTONIC);
    /* The child of a vfork has its parent's memory, but is another thread. */
    if ((always || now - self->last >= self->least) && self->tid == (pid_t)syscall(SYS_gettid)) {
        uint64_t cpu = nagori_clock(CLOCK_THREAD_CPUTIME_ID);
        struct answer answer = ask(self, CLOSE, cause, now, cpu - self->spun);
        uint64_t asked = nagori_clock(CLOCK_MONOTONIC) - now;
        uint64_t start = nagori_clock(CLOCK_THREAD_CPUTIME_ID), end = start;
        while (asked + (end - start) < answer.due)
            end = nagori_clock(CLOCK_THREAD_CPUTIME_ID);
        self->stopped = asked + (end - start);
        self->spun += end - cpu;
        self->last = nagori_clock(CLOCK_MONOTONIC);
        arm(self);
    }
    errno = error;
    self->busy = 0;
}

/* Before another program takes the process over: a signal of the timer would end it. */
void nagori_quiet(int quiet)
{
    struct self *self = &nagori_self;
    struct itimerspec never = {0};
    if (!self->ready || self->tid != (pid_t)syscall(SYS_gettid))
        return;
    self->busy = quiet;
    if (quiet && self->timed)
        timer_settime(self->timer, 0, &never, NULL);
    else
        arm(self);
}

static void on_time(int number)
{
    (void)number;
    nagori_close(TIME, 1);
}

/* A thread is there. */
void nagori_begin(void)
{
    struct self *self = &nagori_self;
    if (!known || self->ready)
        return;
    self->busy = 1;
    self->fd = -1;
    self->pid = getpid();
    self->tid = (pid_t)syscall(SYS_gettid);
    struct answer answer = ask(self, HELLO, TIME, nagori_clock(CLOCK_MONOTONIC), 0);
    self->flush_ps = answer.flush_ps;
    self->nt_ps = answer.nt_ps;
    self->least = answer.least;
    self->epoch = answer.epoch;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal_number};
    event.sigev_notify_thread_id = self->tid;
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &self->timer) != 0)
        nagori_die("no timer");
    self->timed = 1;
    /* The thread's work begins now: what was before is not counted as busy. */
    self->spun = nagori_clock(CLOCK_THREAD_CPUTIME_ID);
    self->last = nagori_clock(CLOCK_MONOTONIC);
    arm(self);
    self->ready = 1;
    self->busy = 0;
}

/* A thread ends. */
void nagori_bye(void)
{
    struct self *self = &nagori_self;
    if (!self->ready || self->tid != (pid_t)syscall(SYS_gettid))
        return;
    nagori_close(EXIT, 1);
    self->ready = 0;
    if (self->timed)
        timer_delete(self->timer);
    self->timed = 0;
    uint64_t cpu = nagori_clock(CLOCK_THREAD_CPUTIME_ID);
    ask(self, BYE, EXIT, nagori_clock(CLOCK_MONOTONIC), cpu - self->spun);
    if (intact(self))
        close(self->fd);
    self->fd = -1;
}

/* In the child of a fork, which has its own epochs and owes nothing. */
void nagori_forked(void)
{
    struct self *self = &nagori_self;
    int was = self->ready;
    if (intact(self))
        close(self->fd);
    memset(self, 0, sizeof *self);
    self->fd = -1;
    if (was)
        nagori_begin();
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("NAGORI_NATIVE_SOCKET");
    if (!path)
        nagori_die("NAGORI_NATIVE_SOCKET is not set");
    if (strlen(path) >= sizeof monitor.sun_path)
        nagori_die("the socket's path is too long");
    monitor.sun_family = AF_UNIX;
    strcpy(monitor.sun_path, path);
    signal_number = SIGRTMAX - 2;
    struct sigaction action = {.sa_handler = on_time, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigaction(signal_number, &action, NULL);
    pthread_atfork(NULL, NULL, nagori_forked);
    known = 1;
    nagori_begin();
}

__attribute__((destructor)) static void end(void)
{
    nagori_bye();
}

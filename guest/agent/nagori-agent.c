// nagori-agent [ROOT]: runs one program for `nagori run` and reports how it ended.
//
// Waits on the port nagori.control for a job (see protocol.h), creates its files, runs it with ROOT
// as its root directory and its standard streams on the other ports. The machine's timing model and
// statistics start with the program's exec; the statistics are recorded when it has ended.
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nagori.h"
#include "protocol.h"

enum { CONTROL, INPUT, OUTPUT, ERRORS, PORTS };
static const char *const PORT_NAMES[PORTS] = {
    "nagori.control",
    "nagori.stdin",
    "nagori.stdout",
    "nagori.stderr",
};
// How long the ports may take to appear.
enum { PATIENCE_MS = 10000, STEP_MS = 5 };
// A tick of Debian's kernel; a program with a seed begins later by less than this.
enum { TICK_NS = 4000000 };
enum { MAX_WORDS = 4096, BUFFER = 1 << 16 };
// A node's number must fit the mask that is passed to the kernel.
enum { MAX_NODE = 63, POLICY_BIND = 2 };

static int ports[PORTS];
static volatile void *board;

static struct {
    char *argv[MAX_WORDS + 1], *envp[MAX_WORDS + 1];
    int argc, envc;
    char *cwd, *exec;
    uint32_t flags;
    int file, node;
    bool seeded;
    uint64_t seed;
} job = {.file = -1, .node = -1};

static void write_all(int fd, const void *from, size_t length)
{
    const char *p = from;
    while (length > 0) {
        ssize_t n = write(fd, p, length);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return; // The host has gone.
        p += n;
        length -= (size_t)n;
    }
}

static void say(uint32_t type, const void *bytes, size_t length)
{
    char message[sizeof(struct head) + 512];
    if (length > 512)
        length = 512;
    struct head head = {type, (uint32_t)length};
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, bytes, length);
    write_all(ports[CONTROL], message, sizeof head + length);
}

// Reports why there is no run, and waits for the end of the machine.
static void __attribute__((noreturn, format(printf, 2, 3))) fail(int error, const char *format, ...)
{
    char text[400];
    uint32_t number = (uint32_t)error;
    memcpy(text, &number, sizeof number);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text + 4, sizeof text - 4, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text - 4 ? (size_t)n : sizeof text - 5;
    say(SAYS_FAILED, text, 4 + length);
    for (;;)
        pause();
}

// --- ports ---

static int open_port(const char *name)
{
    char path[64], found[64];
    for (int waited = 0; waited < PATIENCE_MS; waited += STEP_MS) {
        for (int n = 0; n < PORTS; n++) {
            for (int device = 0; device < 8; device++) {
                snprintf(path, sizeof path, "/sys/class/virtio-ports/vport%dp%d/name", device, n);
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                    continue;
                ssize_t length = read(fd, found, sizeof found - 1);
                close(fd);
                if (length <= 0)
                    continue;
                found[strcspn((found[length] = '\0', found), "\n")] = '\0';
                if (strcmp(found, name) != 0)
                    continue;
                snprintf(path, sizeof path, "/dev/vport%dp%d", device, n);
                fd = open(path, O_RDWR | O_CLOEXEC);
                if (fd >= 0)
                    return fd;
            }
        }
        nanosleep(&(struct timespec){0, STEP_MS * 1000000L}, NULL);
    }
    fprintf(stderr, "nagori-agent: there is no port %s\n", name);
    exit(1);
}

static bool read_all(int fd, void *to, size_t length)
{
    char *p = to;
    while (length > 0) {
        ssize_t n = read(fd, p, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        length -= (size_t)n;
    }
    return true;
}

// --- the job ---

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
        *p = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            fail(errno, "cannot make the directory %s", path);
    }
}

static void make_file(uint32_t mode, char *path)
{
    if (job.file >= 0 && close(job.file) != 0)
        fail(errno, "cannot write a file");
    make_parents(path);
    job.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (job.file < 0 || fchmod(job.file, mode & 07777) != 0)
        fail(errno, "cannot make the file %s", path);
}

static void append(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(job.file, bytes, length);
        if (n < 0)
            fail(errno, "cannot write a file into the guest");
        bytes += n;
        length -= (size_t)n;
    }
}

// Whether there are folders of the host.
static bool shares;

static void mount_share(uint32_t flags, const char *tag, char *path)
{
    make_parents(path);
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        fail(errno, "cannot make the directory %s", path);
    unsigned long how = MS_NODEV | MS_NOSUID | (flags & 1 ? 0 : MS_RDONLY);
    if (mount(tag, path, "9p", how, "trans=virtio,version=9p2000.L,msize=512000,cache=mmap") != 0)
        fail(errno, "cannot mount the share %s at %s", tag, path);
    shares = true;
}

static void add_word(char **list, int *count, char *text)
{
    if (*count == MAX_WORDS)
        fail(E2BIG, "more than %d arguments or variables", MAX_WORDS);
    list[(*count)++] = text;
}

static uint32_t number(const char *bytes, size_t length)
{
    uint32_t n = 0;
    if (length < sizeof n)
        fail(EPROTO, "a message of the host is too short");
    memcpy(&n, bytes, sizeof n);
    return n;
}

// A message from the host. `text` is NULL if there are no more messages.
static struct head receive(char **text)
{
    struct head head;
    *text = NULL;
    if (!read_all(ports[CONTROL], &head, sizeof head))
        return (struct head){0};
    if (head.length > MESSAGE_MAX)
        fail(EPROTO, "a message of the host is too long");
    *text = malloc(head.length + 1);
    if (*text == NULL || !read_all(ports[CONTROL], *text, head.length))
        fail(EPROTO, "a message of the host is not whole");
    (*text)[head.length] = '\0';
    return head;
}

// Takes the parts of the job up to JOB_RUN. Sets the time of day, which is otherwise that of the
// cached boot.
static void set_clock(const char *text, uint32_t length)
{
    uint64_t seconds;
    if (length != sizeof seconds)
        fail(EPROTO, "a time that is not 8 bytes");
    memcpy(&seconds, text, sizeof seconds);
    if (clock_settime(CLOCK_REALTIME, &(struct timespec){(time_t)seconds, 0}))
        fail(errno, "cannot set the clock");
}

static void take_job(void)
{
    for (;;) {
        char *text;
        struct head head = receive(&text);
        if (text == NULL) {
            // The host is not connected yet.
            nanosleep(&(struct timespec){0, STEP_MS * 1000000L}, NULL);
            continue;
        }
        switch (head.type) {
        case JOB_FILE:
            if (head.length <= 4)
                fail(EPROTO, "a file without a path");
            make_file(number(text, head.length), text + 4);
            break;
        case JOB_DATA:
            append(text, head.length);
            break;
        case JOB_ARG:
            add_word(job.argv, &job.argc, text);
            continue;
        case JOB_ENV:
            add_word(job.envp, &job.envc, text);
            continue;
        case JOB_CWD:
            job.cwd = text;
            continue;
        case JOB_EXEC:
            job.exec = text;
            continue;
        case JOB_MOUNT: {
            uint32_t flags = number(text, head.length);
            size_t tag = strlen(text + 4);
            if (4 + tag + 1 >= head.length)
                fail(EPROTO, "a share without a path");
            mount_share(flags, text + 4, text + 4 + tag + 1);
            break;
        }
        case JOB_FLAGS:
            job.flags = number(text, head.length);
            break;
        case JOB_MEMORY:
            job.node = (int)number(text, head.length);
            break;
        case JOB_SEED:
            if (head.length != sizeof job.seed)
                fail(EPROTO, "a seed of %u bytes", head.length);
            memcpy(&job.seed, text, sizeof job.seed);
            job.seeded = true;
            break;
        case JOB_CLOCK:
            set_clock(text, head.length);
            break;
        case JOB_RUN:
            free(text);
            if (job.file >= 0)
                close(job.file);
            if (job.argc == 0)
                fail(EPROTO, "a job without a program");
            return;
        default:
            fail(EPROTO, "unknown message %u of the host", head.type);
        }
        free(text);
    }
}

// --- the program ---

static void stats(uint64_t what)
{
    if (board != NULL)
        nagori_write(board, NAGORI_CTL_STATS_CONTROL, what);
}

static void timing(bool on)
{
    if (board != NULL && (job.flags & FLAG_TIMED))
        nagori_write(board, NAGORI_CTL_TIMED, on ? NAGORI_TIMED : NAGORI_FUNCTIONAL);
}

static void set_variables(void)
{
    static const char *const BASE[][2] = {
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", "/root"},
        {"USER", "root"},
        {"LANG", "C.UTF-8"},
    };
    clearenv();
    for (size_t i = 0; i < sizeof BASE / sizeof BASE[0]; i++)
        setenv(BASE[i][0], BASE[i][1], 1);
    for (int i = 0; i < job.envc; i++)
        putenv(job.envp[i]);
}

// Has the kernel keep the library that the host puts before the program's own: reading it from the disk is no cost of
// the program, which would have its C library there already.
static void read_preloaded(void)
{
    static const char NAME[] = "LD_PRELOAD=";
    static char buffer[BUFFER];
    for (int i = 0; i < job.envc; i++) {
        if (strncmp(job.envp[i], NAME, sizeof NAME - 1) != 0)
            continue;
        int fd = open(job.envp[i] + sizeof NAME - 1, O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && read(fd, buffer, sizeof buffer) > 0)
            ;
        if (fd >= 0)
            close(fd);
    }
}

// Makes everything random follow from the seed: the kernel's random numbers, and with them
// addresses, and the time at which the program begins.
static void scatter(void)
{
    // The kernel's pool mixes its input, so the seed may have low entropy.
    struct {
        struct rand_pool_info info;
        uint64_t words[4];
    } entropy = {.info = {.entropy_count = 256, .buf_size = sizeof entropy.words}};
    for (size_t i = 0; i < 4; i++)
        entropy.words[i] = job.seed + i * 0x9e3779b97f4a7c15UL;
    int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, &entropy) != 0 || ioctl(fd, RNDRESEEDCRNG) != 0)
        fail(errno, "cannot seed the kernel's random numbers");
    close(fd);
    uint64_t wait;
    if (getrandom(&wait, sizeof wait, 0) != sizeof wait)
        fail(errno, "no random numbers");
    prctl(PR_SET_TIMERSLACK, 1);
    nanosleep(&(struct timespec){0, (long)(wait % TICK_NS)}, NULL);
}

// In the child: becomes the program, or sends errno through `problem`.
static void __attribute__((noreturn)) become(const int streams[3], int problem)
{
    setpgid(0, 0);
    for (int i = 0; i < 3; i++)
        dup2(streams[i], i);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    set_variables();
    // Disables ASLR, so that addresses in profiles and debuggers are the same in every run.
    if (!job.seeded)
        personality(ADDR_NO_RANDOMIZE);
    unsigned long mask = job.node < 0 ? 0 : 1UL << job.node;
    const char *program = job.exec != NULL ? job.exec : job.argv[0];
    if (mask == 0 || syscall(SYS_set_mempolicy, POLICY_BIND, &mask, MAX_NODE + 2) == 0) {
        timing(true);
        stats(NAGORI_STATS_RESET);
        execvp(program, job.argv);
        int error = errno;
        timing(false);
        errno = error;
    }
    int error = errno;
    write_all(problem, &error, sizeof error);
    _exit(127);
}

static int pipe_of(int ends[2])
{
    return pipe2(ends, O_CLOEXEC);
}

// Bytes on their way to the program's standard input.
static char pending[BUFFER];
static size_t pending_at, pending_length;

static void feed(int *to, int *from)
{
    if (*to >= 0 && pending_length > 0) {
        ssize_t n = write(*to, pending + pending_at, pending_length);
        if (n > 0) {
            pending_at += (size_t)n;
            pending_length -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            // The program no longer reads.
            pending_length = 0;
            close(*to);
            *to = *from = -1;
        }
    } else if (*from >= 0) {
        ssize_t n = read(*from, pending, sizeof pending);
        if (n > 0) {
            pending_at = 0;
            pending_length = (size_t)n;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            *from = -1;
        }
    }
    if (*from < 0 && pending_length == 0 && *to >= 0) {
        close(*to);
        *to = -1;
    }
}

// Copies what is in a pipe; returns false at its end.
static bool copy(int from, int to)
{
    static char bytes[BUFFER];
    ssize_t n = read(from, bytes, sizeof bytes);
    if (n > 0)
        write_all(to, bytes, (size_t)n);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

// Copies everything that a program has left in a pipe.
static void drain(int from, int to)
{
    struct pollfd p = {from, POLLIN, 0};
    while (from >= 0 && poll(&p, 1, 0) > 0 && (p.revents & POLLIN) && copy(from, to)) {
    }
}

static void listen_to_host(pid_t child)
{
    char *text;
    struct head head = receive(&text);
    if (text != NULL && head.type == JOB_SIGNAL)
        kill(-child, (int)number(text, head.length));
    free(text);
}

static struct ended report(int status, const struct rusage *r)
{
    return (struct ended){
        .by_signal = WIFSIGNALED(status),
        .status = (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)),
        .user_us = (uint64_t)r->ru_utime.tv_sec * 1000000 + (uint64_t)r->ru_utime.tv_usec,
        .system_us = (uint64_t)r->ru_stime.tv_sec * 1000000 + (uint64_t)r->ru_stime.tv_usec,
        .max_rss_kib = (uint64_t)r->ru_maxrss,
        .minor_faults = (uint64_t)r->ru_minflt,
        .major_faults = (uint64_t)r->ru_majflt,
    };
}

// Copies bytes to and from the program until it has ended.
static struct ended attend(pid_t child, int input, int output, int errors, int signals)
{
    int from = input >= 0 ? ports[INPUT] : -1;
    for (;;) {
        bool full = pending_length > 0;
        struct pollfd p[] = {
            {signals, POLLIN, 0},
            {ports[CONTROL], POLLIN, 0},
            {output, POLLIN, 0},
            {errors, POLLIN, 0},
            {full ? -1 : from, POLLIN, 0},
            {full ? input : -1, POLLOUT, 0},
        };
        if (poll(p, sizeof p / sizeof p[0], -1) < 0)
            continue;
        if (p[0].revents != 0) {
            struct signalfd_siginfo info;
            ssize_t n = read(signals, &info, sizeof info);
            int status;
            struct rusage usage;
            if (n == sizeof info && wait4(child, &status, WNOHANG, &usage) == child) {
                if (board != NULL)
                    nagori_write(board, NAGORI_CTL_LABEL, LABEL_END);
                stats(NAGORI_STATS_DUMP);
                timing(false);
                drain(output, ports[OUTPUT]);
                drain(errors, ports[ERRORS]);
                return report(status, &usage);
            }
        }
        if (p[1].revents & POLLIN)
            listen_to_host(child);
        if (p[2].revents != 0 && !copy(output, ports[OUTPUT]))
            output = -1;
        if (p[3].revents != 0 && !copy(errors, ports[ERRORS]))
            errors = -1;
        if (p[4].revents != 0 || p[5].revents != 0)
            feed(&input, &from);
    }
}

static void run(void)
{
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, NULL);
    signal(SIGPIPE, SIG_IGN);
    int signals = signalfd(-1, &child_ended, SFD_CLOEXEC);
    int in[2] = {-1, -1}, out[2], err[2], problem[2];
    bool piped = job.flags & FLAG_STDIN;
    if (signals < 0 || pipe_of(out) || pipe_of(err) || pipe_of(problem) || (piped && pipe_of(in)))
        fail(errno, "no pipes for the program");
    if (!piped && (in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        fail(errno, "cannot open /dev/null");
    if (piped)
        fcntl(in[1], F_SETFL, O_NONBLOCK);
    if (job.cwd != NULL && chdir(job.cwd) != 0)
        fail(errno, "cannot change to the directory %s", job.cwd);

    read_preloaded();
    if (job.seeded)
        scatter();
    pid_t child = fork();
    if (child < 0)
        fail(errno, "cannot start a process");
    if (child == 0) {
        signal(SIGPIPE, SIG_DFL);
        become((const int[]){in[0], out[1], err[1]}, problem[1]);
    }
    setpgid(child, child);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    close(problem[1]);
    int error;
    if (read_all(problem[0], &error, sizeof error))
        fail(error, "cannot run %s", job.exec != NULL ? job.exec : job.argv[0]);
    close(problem[0]);
    uint32_t pid = (uint32_t)child;
    say(SAYS_STARTED, &pid, sizeof pid);
    struct ended ended = attend(child, in[1], out[0], err[0], signals);
    // What the program has written goes to the host before the machine ends.
    if (shares)
        sync();
    say(SAYS_ENDED, &ended, sizeof ended);
}

// Has init's script set up the network, outside of the root file system at `root`.
static void set_up_network(int root)
{
    pid_t child = fork();
    if (child == 0) {
        if (fchdir(root) == 0 && chroot(".") == 0)
            execl("/etc/nagori/network", "network", "auto", "20", (char *)NULL);
        _exit(127);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        fail(errno, "cannot start a process");
    if (status != 0)
        fail(EIO, "the network cannot be set up");
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: nagori-agent [ROOT]\n");
        return 2;
    }
    for (int i = 0; i < PORTS; i++)
        ports[i] = open_port(PORT_NAMES[i]);
    // Without the control block there is no timing, but the program can run.
    board = nagori_open(NAGORI_CTL_BASE);
    int outside = open("/", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (argc == 2 && (chdir(argv[1]) != 0 || chroot(".") != 0))
        fail(errno, "cannot make %s the root directory", argv[1]);
    if (chdir("/") != 0)
        fail(errno, "cannot change to the root directory");
    uint32_t ready[2] = {PROTOCOL, board != NULL};
    say(SAYS_READY, ready, sizeof ready);
    // The host takes the snapshot here; every run continues after this point.
    if (board != NULL) {
        nagori_write(board, NAGORI_CTL_LABEL, LABEL_READY);
        nagori_write(board, NAGORI_CTL_HOST_REQUEST, NAGORI_HOST_SNAPSHOT);
    }
    take_job();
    if (job.flags & FLAG_NETWORK)
        set_up_network(outside);
    run();
    for (;;)
        pause();
}

// crash-corpus: small persistent data structures, with flushes and fences that can be dropped or moved, for crash
// exploration (docs/crash-model.md).

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pm.h"

static const struct structure *const all[] = {&ring, &hash, &btree, &alloc};
enum { STRUCTURES = sizeof all / sizeof all[0] };

static int usage(FILE *to)
{
    fprintf(to, "usage: crash-corpus setup|workload|recover|check STRUCTURE NVMM [OPTIONS]\n"
                "NVMM is a device (/dev/dax0.0), a file on a file system mounted with dax=always, which setup\n"
                "makes, /dev/mem@ADDRESS, or board: /dev/mem where the control block says. Structures:");
    for (unsigned i = 0; i < STRUCTURES; i++)
        fprintf(to, " %s", all[i]->name);
    fprintf(to, "\n"
                "  --ops N    operations of the workload\n"
                "  --drop N   the flush or fence with this number does nothing (bugs.toml)\n"
                "  --move N   it comes too late\n"
                "  --cbo      flush by cbo.flush instead of CFLUSH.D.L1\n"
                "check says the content; exit code %d: it is damaged.\n",
            PM_FAILED);
    return to == stdout ? 0 : 2;
}

static _Noreturn void stop(const char *path, const char *what)
{
    fprintf(stderr, "crash-corpus: %s: %s: %s\n", path, what, strerror(errno));
    exit(2);
}

static bool number(const char *text, unsigned *value)
{
    char *end;
    errno = 0;
    unsigned long n = text != NULL ? strtoul(text, &end, 10) : 0;
    if (text == NULL || *text < '0' || *text > '9' || *end != '\0' || errno != 0 || n > 1000000)
        return false;
    *value = (unsigned)n;
    return true;
}

// Device DAX has pages of 2 MiB only, and a file gets such a page if 2 MiB are mapped.
static unsigned char *map(const char *path, bool make)
{
    const size_t bytes = 2 << 20;
    char name[256];
    const char *at = strncmp(path, "/dev/mem@", 9) == 0 ? path + 8 : NULL;
    off_t offset = 0;
    if (at != NULL) {
        char *end;
        offset = (off_t)strtoull(at + 1, &end, 0);
        if (*end != '\0' || offset % PM_LINE != 0) {
            errno = EINVAL;
            stop(path, "no address");
        }
    } else if (strcmp(path, "board") == 0) {
        volatile void *board = nagori_open(NAGORI_CTL_BASE);
        if (board == NULL)
            stop(path, "no control block");
        offset = (off_t)nagori_read(board, NAGORI_CTL_NVMM_BASE);
        at = path;
    }
    snprintf(name, sizeof name, "%s", at != NULL ? "/dev/mem" : path);
    struct stat s;
    bool device = stat(name, &s) == 0 && S_ISCHR(s.st_mode);
    int fd = open(name, O_RDWR | (make && !device ? O_CREAT : 0), 0600);
    if (fd < 0)
        stop(path, "cannot be opened");
    if (make && !device) {
        int error = posix_fallocate(fd, 0, (off_t)bytes);
        if (error != 0) {
            errno = error;
            stop(path, "no room");
        }
    }
    int flags = device ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (p == MAP_FAILED)
        stop(path, "cannot be mapped");
    // The file system's own data, such as the file's size.
    if (make && !device && fsync(fd) != 0)
        stop(path, "cannot be made durable");
    close(fd);
    return p;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout);
    if (argc < 4)
        return usage(stderr);
    const struct structure *s = NULL;
    for (unsigned i = 0; i < STRUCTURES; i++)
        if (strcmp(argv[2], all[i]->name) == 0)
            s = all[i];
    if (s == NULL)
        return usage(stderr);
    struct pm state = {.ops = s->ops};
    for (int i = 4; i < argc; i++) {
        unsigned *value = strcmp(argv[i], "--ops") == 0    ? &state.ops
                          : strcmp(argv[i], "--drop") == 0 ? &state.drop
                          : strcmp(argv[i], "--move") == 0 ? &state.move
                                                           : NULL;
        if (value != NULL) {
            if (!number(argv[++i], value))
                return usage(stderr);
        } else if (strcmp(argv[i], "--cbo") == 0) {
            state.cbo = true;
        } else {
            return usage(stderr);
        }
    }
    struct pm *pm = &state;
    const char *mode = argv[1];
    if (strcmp(mode, "setup") == 0) {
        pm->base = map(argv[3], true);
        memset(pm->base, 0, PM_BYTES);
        FLUSH(0, pm->base, PM_BYTES);
        FENCE(0);
        s->setup(pm);
    } else if (strcmp(mode, "workload") == 0) {
        pm->base = map(argv[3], false);
        s->workload(pm);
    } else if (strcmp(mode, "recover") == 0) {
        pm->base = map(argv[3], false);
        s->recover(pm);
    } else if (strcmp(mode, "check") == 0) {
        pm->base = map(argv[3], false);
        s->check(pm);
    } else {
        return usage(stderr);
    }
    return 0;
}

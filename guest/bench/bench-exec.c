// bench-exec: the time of a program from exec to exit with nothing of it in the kernel's cache, its page
// faults, what was read from a disk, and what from NVMM.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench.h"

extern char **environ;

static const char USAGE[] =
    "usage: bench-exec [--disk NAME] [--warm] LABEL PROGRAM [ARGUMENT...]\n"
    "Runs the program with the timing model on, and prints a row with LABEL.\n"
    "  --disk NAME   the disk whose reads are counted (vda)\n"
    "  --warm        leave the kernel's caches as they are; else they are dropped before\n";

// Bytes that were read from a disk; 0 if there is none.
static uint64_t bytes_read(const char *disk)
{
    char path[128];
    unsigned long long reads, merged, sectors = 0;
    snprintf(path, sizeof path, "/sys/block/%s/stat", disk);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu %llu", &reads, &merged, &sectors) != 3)
        die("%s cannot be read", path);
    fclose(f);
    return sectors * 512;
}

static void drop_caches(void)
{
    sync();
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "3", 1) != 1)
        die("the caches cannot be dropped: %s", strerror(errno));
    close(fd);
}

int main(int count, char **words)
{
    const char *disk = "vda";
    bool warm = false;
    int at = 1;
    for (; at < count && strncmp(words[at], "--", 2) == 0; at++) {
        if (strcmp(words[at], "--warm") == 0)
            warm = true;
        else if (strcmp(words[at], "--disk") == 0 && at + 1 < count)
            disk = words[++at];
        else {
            fputs(USAGE, strcmp(words[at], "--help") == 0 ? stdout : stderr);
            return strcmp(words[at], "--help") == 0 ? 0 : 2;
        }
    }
    if (count - at < 2) {
        fputs(USAGE, stderr);
        return 2;
    }
    char **program = words + at + 1;
    struct board b;
    board_open(&b, NAGORI_CTL_BASE);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (!warm)
        drop_caches();

    uint64_t read_before = bytes_read(disk);
    board_set_timed(&b, true);
    uint64_t fetched = nagori_read(b.ctl, NAGORI_CTL_REGION(1) + NAGORI_MEM_READS);
    uint64_t begin = nagori_read(b.ctl, NAGORI_CTL_TIME_NS);
    pid_t pid;
    int error = posix_spawn(&pid, program[0], &files, NULL, program, environ);
    int status = 0;
    struct rusage used;
    if (error == 0 && wait4(pid, &status, 0, &used) != pid)
        error = errno;
    uint64_t end = nagori_read(b.ctl, NAGORI_CTL_TIME_NS);
    fetched = nagori_read(b.ctl, NAGORI_CTL_REGION(1) + NAGORI_MEM_READS) - fetched;
    board_set_timed(&b, false);
    if (error != 0)
        die("%s: %s", program[0], strerror(error));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die("%s: it has failed (status %#x)", program[0], status);
    printf("exec label=%s method=%s ns=%llu faults=%ld bytes=%llu nvmm=%llu\n", words[at],
           board_method(&b), (unsigned long long)(end - begin), used.ru_minflt + used.ru_majflt,
           (unsigned long long)(bytes_read(disk) - read_before), (unsigned long long)fetched);
    return 0;
}

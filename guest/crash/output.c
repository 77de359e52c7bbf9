// output COMMAND: sends something to the outside before or after what it tells of is durable, for the checks of `nagori
// crash` that need no crash (docs/crash-model.md).
//
//   setup               zeros
//   workload SINK WHEN  stores a number; flushes it, with a fence, before the output (WHEN is durable) or behind it
//                       (early)
//   recover             nothing
//
// SINK is console (/dev/console), network (a datagram to 10.0.2.2 port 9), disk (4 KiB to /dev/vda, past the page
// cache), dma (the same, and what is written is NVMM itself), or in (the disk writes to NVMM). The last two need NVMM
// that the kernel knows: a file on a file system mounted with dax=always, in NAGORI_NVMM; otherwise it is what /dev/mem
// has at the address that the control block says.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nagori.h"
#include "nagori_mark.h"

enum { PAGE = 4096, MAP = 2 << 20, PLACE = 16 << 20 };

static int fail(const char *what)
{
    perror(what);
    return 2;
}

static uint64_t *map(void)
{
    const char *name = getenv("NAGORI_NVMM");
    off_t offset = 0;
    if (name == NULL) {
        name = "/dev/mem";
        volatile void *board = nagori_open(NAGORI_CTL_BASE);
        if (board == NULL)
            exit(fail("output: the control block"));
        offset = (off_t)nagori_read(board, NAGORI_CTL_NVMM_BASE);
    }
    int fd = open(name, O_RDWR | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, MAP, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (p == MAP_FAILED)
        exit(fail(name));
    return p;
}

static void persist(const void *at)
{
    nagori_cflush_line(at);
    nagori_fence();
}

static __attribute__((noinline)) void tell(volatile uint64_t *at, uint64_t value)
{
    *at = value;
}

// What sends, ready to be used without another look at anything.
struct sink {
    const char *name;
    int fd;
    void *data;
};

static bool send_to(const struct sink *to, volatile uint64_t *nvmm)
{
    if (strcmp(to->name, "console") == 0)
        return write(to->fd, "told\n", 5) == 5;
    if (strcmp(to->name, "network") == 0)
        return send(to->fd, "told", 4, 0) == 4;
    if (strcmp(to->name, "disk") == 0)
        return pwrite(to->fd, to->data, PAGE, PLACE) == PAGE;
    if (strcmp(to->name, "dma") == 0)
        return pwrite(to->fd, (void *)nvmm, PAGE, PLACE) == PAGE;
    return pread(to->fd, (void *)nvmm, PAGE, PLACE) == PAGE;
}

static bool open_sink(struct sink *s, const char *name)
{
    s->name = name;
    if (strcmp(name, "console") == 0) {
        s->fd = open("/dev/console", O_WRONLY | O_CLOEXEC);
    } else if (strcmp(name, "network") == 0) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
        inet_aton("10.0.2.2", &to.sin_addr);
        s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&to, sizeof to) != 0 || send(s->fd, "", 1, 0) != 1)
            return false;
        sleep(1); // until the address of the other end is known
    } else {
        s->fd = open("/dev/vda", O_RDWR | O_DIRECT | O_CLOEXEC);
        if (posix_memalign(&s->data, PAGE, PAGE) != 0)
            return false;
        memset(s->data, 7, PAGE);
    }
    return s->fd >= 0;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "recover") == 0)
        return 0;
    uint64_t *nvmm = map();
    if (strcmp(command, "setup") == 0) {
        memset(nvmm, 0, PAGE);
        for (unsigned i = 0; i < PAGE; i += NAGORI_LINE)
            nagori_cflush_line((char *)nvmm + i);
        nagori_fence();
        return 0;
    }
    struct sink sink = {0};
    if (strcmp(command, "workload") != 0 || argc < 4) {
        fprintf(stderr, "usage: output setup|recover|workload SINK durable|early\n");
        return 2;
    }
    bool early = strcmp(argv[3], "early") == 0;
    if (!open_sink(&sink, argv[2]))
        return fail(argv[2]);
    tell(nvmm + 1, 42);
    if (!early)
        persist(nvmm);
    if (!send_to(&sink, nvmm))
        return fail(argv[2]);
    if (early)
        persist(nvmm);
    nagori_label(1);
    return 0;
}

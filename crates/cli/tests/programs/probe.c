// What the tests of `nagori run` run in the guest.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nagori_mark.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    interrupted = signal;
}

// Input to output, as it is.
static int cat(void)
{
    static char bytes[1 << 16];
    ssize_t n;
    while ((n = read(0, bytes, sizeof bytes)) > 0)
        for (char *p = bytes; n > 0;) {
            ssize_t k = write(1, p, (size_t)n);
            if (k < 0)
                return errno;
            p += k;
            n -= k;
        }
    return n < 0;
}

// Reads and writes every line of some memory, in a region of interest.
static int touch(size_t megabytes)
{
    size_t n = megabytes << 20;
    unsigned char *p = malloc(n);
    if (p == NULL)
        return 1;
    memset(p, 1, n);
    unsigned long sum = 0;
    nagori_roi_begin();
    nagori_label(nagori_text("touch"));
    for (size_t i = 0; i < n; i += 64)
        sum += p[i]++;
    nagori_roi_end();
    printf("%lu\n", sum);
    return 0;
}

// A region that stays in a line of code, and in registers.
__attribute__((aligned(64), noinline)) static void calm(long count)
{
    nagori_roi_begin();
    for (; count > 0; count--)
        __asm__ volatile("");
    nagori_roi_end();
}

// Lists, which grow and shrink, of nodes of many sizes, and an array that grows.
static int lists(long count)
{
    enum { LISTS = 64 };
    struct node {
        struct node *next;
        unsigned value;
    } *head[LISTS] = {0};
    unsigned long seed = 1, sum = 0, *array = NULL;
    for (long i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        struct node **list = &head[seed >> 58];
        if (seed >> 40 & 1 && *list != NULL) {
            struct node *old = *list;
            *list = old->next;
            sum += old->value;
            free(old);
        }
        struct node *new = malloc(sizeof *new + (seed >> 33) % 200);
        if (new == NULL)
            return 1;
        *new = (struct node){*list, (unsigned)i};
        *list = new;
        array = realloc(array, (size_t)(i + 1) * sizeof *array);
        if (array == NULL)
            return 1;
        array[i] = seed;
    }
    for (int i = 0; i < LISTS; i++)
        for (struct node *n = head[i]; n != NULL; n = n->next)
            sum += n->value;
    printf("%lu\n", sum);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? atol(argv[2]) : 0;
    if (strcmp(what, "exit") == 0)
        return (int)number;
    if (strcmp(what, "kill") == 0)
        return raise((int)number);
    if (strcmp(what, "cat") == 0)
        return cat();
    if (strcmp(what, "touch") == 0)
        return touch((size_t)number);
    if (strcmp(what, "calm") == 0)
        calm(number);
    if (strcmp(what, "lists") == 0)
        return lists(number);
    if (strcmp(what, "open") == 0) {
        nagori_roi_begin();
        return (int)number;
    }
    if (strcmp(what, "stop") == 0)
        nagori_stop((unsigned)number);
    if (strcmp(what, "loop") == 0)
        for (;;)
            nagori_label((unsigned long)number);
    if (strcmp(what, "wait") == 0) {
        struct sigaction act = {.sa_handler = on_interrupt};
        sigaction(SIGINT, &act, NULL);
        puts("waiting");
        fflush(stdout);
        while (!interrupted)
            pause();
        puts("interrupted");
        return 5;
    }
    char directory[256];
    printf("args %d %s\n", argc, what);
    printf("env %s\n", getenv("PROBE") ? getenv("PROBE") : "none");
    printf("cwd %s\n", getcwd(directory, sizeof directory));
    printf("input %s\n", getchar() == EOF ? "ends" : "is there");
    fprintf(stderr, "to stderr\n");
    return 0;
}

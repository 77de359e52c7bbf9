// Checks an allocator through the functions that programs use, with threads and across fork.
// Prints `malloc-check: ok` and a sum that is the same with every allocator.

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, SLOTS = 256, STEPS = 20000 };

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "malloc-check: %s\n", what);
    exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : fail(#condition))

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void fill(unsigned char *p, size_t size, unsigned char mark)
{
    memset(p, mark, size);
}

static void compare(const unsigned char *p, size_t size, unsigned char mark)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != mark)
            fail("a block has changed");
}

// Sizes from a few bytes to a few hundred KiB, small ones more often.
static size_t random_size(uint64_t *state)
{
    unsigned bits = 3 + next_random(state) % (next_random(state) % 16 == 0 ? 16 : 10);
    return 1 + next_random(state) % (1u << bits);
}

struct job {
    uint64_t seed, sum;
};

static void *work(void *argument)
{
    struct job *job = argument;
    uint64_t state = job->seed;
    struct {
        unsigned char *p;
        size_t size;
    } slot[SLOTS] = {0};
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = next_random(&state) % SLOTS;
        unsigned char mark = (unsigned char)(i * 7 + 1);
        size_t size = random_size(&state);
        if (slot[i].p != NULL)
            compare(slot[i].p, slot[i].size, mark);
        switch (next_random(&state) % 4) {
        case 0:
            free(slot[i].p);
            slot[i].p = malloc(size);
            break;
        case 1: {
            free(slot[i].p);
            slot[i].p = calloc(1, size);
            CHECK(slot[i].p != NULL);
            compare(slot[i].p, size, 0);
            break;
        }
        case 2: {
            unsigned char *p = realloc(slot[i].p, size);
            CHECK(p != NULL);
            if (slot[i].p != NULL)
                compare(p, slot[i].size < size ? slot[i].size : size, mark);
            slot[i].p = p;
            break;
        }
        default:
            free(slot[i].p);
            slot[i].p = NULL;
            continue;
        }
        CHECK(slot[i].p != NULL && malloc_usable_size(slot[i].p) >= size);
        fill(slot[i].p, size, mark);
        slot[i].size = size;
        job->sum += size * (i + 1);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        free(slot[i].p);
    return NULL;
}

// Blocks that grow and shrink in turn, past what is mapped by itself, so that one is in the other's way.
static void growing(void)
{
    enum { BLOCKS = 3, STEP = 44444, MOST = 4 << 20, PAGE = 4096 };
    unsigned char *p[BLOCKS] = {0};
    size_t size = 0;
    for (bool down = false; !down || size > 2 * STEP;) {
        size_t old = size;
        size = down ? size - 2 * STEP : size + STEP;
        for (int i = 0; i < BLOCKS; i++) {
            CHECK((p[i] = realloc(p[i], size)) != NULL && malloc_usable_size(p[i]) >= size);
            for (size_t at = 0; at < size; at += PAGE)
                if (at < old)
                    CHECK(p[i][at] == (unsigned char)(at / PAGE + (size_t)i));
                else
                    p[i][at] = (unsigned char)(at / PAGE + (size_t)i);
        }
        down = down || size > MOST;
    }
    for (int i = 0; i < BLOCKS; i++)
        free(p[i]);
}

static void functions(void)
{
    for (size_t alignment = 8; alignment <= 1 << 20; alignment *= 4) {
        void *p[3];
        p[0] = aligned_alloc(alignment, alignment * 2);
        p[1] = memalign(alignment, 100);
        CHECK(posix_memalign(&p[2], alignment, 3) == 0);
        for (int i = 0; i < 3; i++) {
            CHECK(p[i] != NULL && (uintptr_t)p[i] % alignment == 0);
            fill(p[i], 3, 1);
            free(p[i]);
        }
    }
    void *odd;
    CHECK(posix_memalign(&odd, 3, 8) == EINVAL && posix_memalign(&odd, 4, 8) == EINVAL);
    // The compiler knows that these cannot work.
    volatile size_t huge = SIZE_MAX / 2;
    errno = 0;
    CHECK(malloc(huge + 1) == NULL && errno == ENOMEM);
    CHECK(calloc(huge, 4) == NULL && reallocarray(NULL, huge, 4) == NULL);
    void *p = malloc(0), *q = malloc(0);
    CHECK(p != NULL && q != NULL && p != q);
    free(q);
    p = realloc(p, 100000);
    CHECK(p != NULL);
    CHECK((p = reallocarray(p, 10, 10)) != NULL);
    errno = 77;
    free(p);
    free(NULL);
    CHECK(errno == 77 && malloc_usable_size(NULL) == 0);
    char *page = valloc(10);
    CHECK((uintptr_t)page % 4096 == 0);
    free(page);
}

// Parent and child change their copies of the heap; neither sees the other's changes.
static void forks(void)
{
    enum { BLOCKS = 40 };
    unsigned char *block[BLOCKS];
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc((size_t)i * 1000 + 1);
        fill(block[i], (size_t)i * 1000 + 1, (unsigned char)i);
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        // The parent has changed its own copy by then.
        CHECK(read(pipes[0], &byte, 1) == 1);
        for (int i = 0; i < BLOCKS; i++) {
            compare(block[i], (size_t)i * 1000 + 1, (unsigned char)i);
            fill(block[i], (size_t)i * 1000 + 1, 0xcc);
            block[i] = realloc(block[i], 60000);
            CHECK(block[i] != NULL);
        }
        struct job job = {.seed = 5};
        work(&job);
        _exit(0);
    }
    for (int i = 0; i < BLOCKS; i++)
        fill(block[i], (size_t)i * 1000 + 1, 0xaa);
    CHECK(write(pipes[1], "x", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        compare(block[i], (size_t)i * 1000 + 1, 0xaa);
        free(block[i]);
    }
}

int main(void)
{
    functions();
    growing();
    forks();
    pthread_t thread[THREADS];
    struct job job[THREADS];
    for (int i = 0; i < THREADS; i++) {
        job[i] = (struct job){.seed = (uint64_t)i + 1};
        CHECK(pthread_create(&thread[i], NULL, work, &job[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    forks();
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += job[i].sum;
    printf("malloc-check: ok %llu\n", (unsigned long long)sum);
    return 0;
}

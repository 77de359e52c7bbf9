// The corpus on the host, for crates/crash/tests: records what the workload does to NVMM, and recovers from contents
// that it is given.
//
// crash-host STRUCTURE [OPS [DROP [MOVE]]] writes a line for each step of the workload:
//   I OFFSET BYTES   a line after setup that is not zero
//   S OFFSET BYTES FILE:LINE   a store
//   F OFFSET FILE:LINE   a flush of a line
//   X FILE:LINE   a fence
//   D FILE:LINE   an operation is done
//   E   the end
// All numbers and bytes are hexadecimal, except LINE. Then it reads contents from which it recovers, and answers each;
// both in binary, with the host's byte order:
//   content: uint32 LINES, then for each line of NVMM that differs from setup's uint32 OFFSET and its 64 bytes
//   answer: uint32 CODE (0: fine, 3: damaged, 4: no end), uint64 DIGEST, uint32 READS, uint32 LENGTH, then READS times
//     the uint32 offset of a line that was read before it was overwritten, then LENGTH bytes of text

#include "pm.h"

enum { LINES = PM_BYTES / PM_LINE, MOST_LOADS = 1 << 20, HUNG = 4 };

struct recorder {
    bool writing; // records steps
    unsigned loads;
    // While recovering: bytes that were overwritten, lines that were read before.
    unsigned char written[PM_BYTES];
    bool seen[LINES];
    unsigned reads[LINES], read_count;
};

static unsigned char nvmm[PM_BYTES] __attribute__((aligned(4096)));
static unsigned char after_setup[PM_BYTES];
// As it was when pm_notice was called last.
static unsigned char noticed[PM_BYTES];
static struct recorder rec;

static const char *leaf(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

static size_t offset_of(struct pm *pm, const void *p, size_t bytes)
{
    size_t at = (size_t)((const unsigned char *)p - pm->base);
    if (at > PM_BYTES || bytes > PM_BYTES - at) {
        fprintf(stderr, "crash-host: outside of NVMM\n");
        exit(2);
    }
    return at;
}

void pm_store(struct pm *pm, void *to, const void *from, size_t bytes, const char *file, int line)
{
    size_t at = offset_of(pm, to, bytes);
    memcpy(to, from, bytes);
    memset(rec.written + at, 1, bytes);
    if (!rec.writing)
        return;
    printf("S %zx ", at);
    for (size_t i = 0; i < bytes; i++)
        printf("%02x", nvmm[at + i]);
    printf(" %s:%d\n", leaf(file), line);
}

const void *pm_load(struct pm *pm, const void *from, size_t bytes)
{
    size_t at = offset_of(pm, from, bytes);
    if (rec.loads++ == MOST_LOADS)
        longjmp(pm->end, HUNG);
    for (size_t i = at; i < at + bytes; i++) {
        unsigned line = (unsigned)(i / PM_LINE);
        if (rec.seen[line]) {
            i |= PM_LINE - 1; // its last byte
        } else if (!rec.written[i]) {
            rec.seen[line] = true;
            rec.reads[rec.read_count++] = line;
        }
    }
    return from;
}

void pm_flush_now(struct pm *pm, const void *at, size_t bytes, const char *file, int line)
{
    size_t from = offset_of(pm, at, bytes) / PM_LINE * PM_LINE, end = offset_of(pm, at, bytes) + bytes;
    for (size_t p = from; p < end && rec.writing; p += PM_LINE)
        printf("F %zx %s:%d\n", p, leaf(file), line);
}

void pm_fence_now(struct pm *pm, const char *file, int line)
{
    (void)pm;
    if (rec.writing)
        printf("X %s:%d\n", leaf(file), line);
}

void pm_done(struct pm *pm, const char *file, int line)
{
    (void)pm;
    if (rec.writing)
        printf("D %s:%d\n", leaf(file), line);
}

void pm_notice(struct pm *pm, const char *file, int line)
{
    for (size_t at = 0; at < PM_BYTES && rec.writing; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, nvmm + at, sizeof word);
        if (memcmp(&word, noticed + at, sizeof word) == 0)
            continue;
        memcpy(noticed + at, &word, sizeof word);
        pm_store(pm, nvmm + at, &word, sizeof word, file, line);
    }
}

_Noreturn void pm_fail(struct pm *pm, const char *why)
{
    pm->why = why;
    longjmp(pm->end, PM_FAILED);
}

void pm_say(struct pm *pm, const char *what, uint64_t value)
{
    for (; *what != '\0'; what++)
        pm->digest = (pm->digest ^ (unsigned char)*what) * 0x100000001b3u;
    pm->digest = pm_mix(pm->digest, value);
}

enum input { CONTENT, ENDED, SENSELESS };

// Puts the next content into NVMM.
static enum input take(void)
{
    uint32_t lines, at;
    if (fread(&lines, sizeof lines, 1, stdin) != 1)
        return ENDED;
    memcpy(nvmm, after_setup, sizeof nvmm);
    for (uint32_t i = 0; i < lines; i++)
        if (fread(&at, sizeof at, 1, stdin) != 1 || at % PM_LINE != 0 || at >= PM_BYTES ||
            fread(nvmm + at, PM_LINE, 1, stdin) != 1)
            return SENSELESS;
    return CONTENT;
}

static void put32(uint32_t value)
{
    fwrite(&value, sizeof value, 1, stdout);
}

static void answer(const struct structure *s)
{
    struct pm pm = {.base = nvmm, .quiet = true, .rec = &rec, .digest = 0xcbf29ce484222325u};
    memset(&rec, 0, sizeof rec);
    volatile int code = setjmp(pm.end);
    if (code == 0) {
        s->recover(&pm);
        s->check(&pm);
    }
    const char *why = pm.why != NULL ? pm.why : code == HUNG ? "no end" : "fine";
    put32((uint32_t)code);
    fwrite(&pm.digest, sizeof pm.digest, 1, stdout);
    put32(rec.read_count);
    put32((uint32_t)strlen(why));
    for (unsigned i = 0; i < rec.read_count; i++)
        put32(rec.reads[i] * PM_LINE);
    fputs(why, stdout);
    fflush(stdout);
}

static int record(const struct structure *s, unsigned ops, unsigned drop, unsigned move)
{
    struct pm pm = {.base = nvmm, .rec = &rec, .ops = ops};
    int ended = setjmp(pm.end);
    if (ended != 0) {
        fprintf(stderr, "crash-host: %s: %s\n", s->name, pm.why != NULL ? pm.why : "no end");
        return ended;
    }
    s->setup(&pm);
    memcpy(after_setup, nvmm, sizeof nvmm);
    memcpy(noticed, nvmm, sizeof nvmm);
    for (unsigned line = 0; line < LINES; line++) {
        bool zero = true;
        for (unsigned i = 0; i < PM_LINE; i++)
            zero = zero && nvmm[line * PM_LINE + i] == 0;
        if (zero)
            continue;
        printf("I %x ", line * PM_LINE);
        for (unsigned i = 0; i < PM_LINE; i++)
            printf("%02x", nvmm[line * PM_LINE + i]);
        printf("\n");
    }
    pm.drop = drop;
    pm.move = move;
    rec.writing = true;
    rec.loads = 0;
    s->workload(&pm);
    rec.writing = false;
    printf("E\n");
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    const struct structure *all[] = {&ring, &hash, &btree, &alloc, &text}, *s = NULL;
    for (unsigned i = 0; argc > 1 && i < sizeof all / sizeof all[0]; i++)
        if (strcmp(argv[1], all[i]->name) == 0)
            s = all[i];
    if (s == NULL) {
        fprintf(stderr, "usage: crash-host STRUCTURE [OPS [DROP [MOVE]]]\n");
        return 2;
    }
    unsigned number[3] = {0};
    for (int i = 2; i < argc && i < 5; i++)
        number[i - 2] = (unsigned)atoi(argv[i]);
    int ended = record(s, number[0] != 0 ? number[0] : s->ops, number[1], number[2]);
    if (ended != 0)
        return ended;
    enum input input;
    while ((input = take()) == CONTENT)
        answer(s);
    if (input == SENSELESS)
        fprintf(stderr, "crash-host: what is this?\n");
    return input == SENSELESS ? 2 : 0;
}

/* Plays a stream of reads and writes into a memory and prints what came of it.
 *
 *   cc stream.c $(pkg-config --cflags --libs nagori-memory) -o stream
 *   ./stream xpoint 20000
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nagori_memory.h>

static void fail(const char *what, int status, NagoriMemory *m)
{
    char text[512] = "";
    nagori_memory_message(m, text, sizeof text, NULL);
    fprintf(stderr, "%s: status %d: %s\n", what, status, text);
    exit(1);
}

/* Takes all completions there are; returns their number. */
static uint64_t take(NagoriMemory *m, uint64_t *latency, uint64_t *last)
{
    NagoriCompletion c[32];
    uint64_t all = 0;
    size_t n;
    do {
        int s = nagori_memory_drain(m, c, 32, &n);
        if (s != NAGORI_OK)
            fail("drain", s, m);
        for (size_t i = 0; i < n; i++) {
            *latency += c[i].done_at - c[i].accepted_at;
            if (c[i].done_at > *last)
                *last = c[i].done_at;
        }
        all += n;
    } while (n == 32);
    return all;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "xpoint";
    uint64_t requests = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
    char message[512];
    NagoriMemory *m;

    if (nagori_abi_version() != NAGORI_ABI_VERSION) {
        fprintf(stderr, "header and library do not fit\n");
        return 1;
    }
    int s = nagori_memory_create(name, NULL, 0, &m, message, sizeof message);
    if (s != NAGORI_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }

    uint64_t capacity, t = 0, done = 0, latency = 0, last = 0;
    if ((s = nagori_memory_capacity(m, &capacity)) != NAGORI_OK)
        fail("capacity", s, m);
    for (uint64_t i = 0; i < requests; i++) {
        uint32_t kind = i % 4 == 3 ? NAGORI_WRITE : NAGORI_READ;
        uint64_t until;
        while ((s = nagori_memory_submit(m, t, i, i * 64 % capacity, kind, 64, &until)) == NAGORI_BUSY)
            t = until;
        if (s != NAGORI_OK)
            fail("submit", s, m);
        done += take(m, &latency, &last);
    }
    while ((s = nagori_memory_next_event(m, &t)) == NAGORI_OK) {
        if ((s = nagori_memory_advance(m, t)) != NAGORI_OK)
            fail("advance", s, m);
        done += take(m, &latency, &last);
    }
    if (s != NAGORI_NONE)
        fail("next event", s, m);

    /* Writes are answered before they are in the device: the run ends when all are. */
    uint64_t written;
    if ((s = nagori_memory_flush(m, t, &written)) != NAGORI_OK)
        fail("flush", s, m);
    done += take(m, &latency, &last);
    if (written > last)
        last = written;

    printf("requests %" PRIu64 "\n", done);
    if (done > 0 && last > 0) {
        printf("mean latency %.1f ns\n", (double)latency / (double)done / 1000.0);
        printf("bandwidth %.2f GB/s\n", (double)done * 64.0 * 1000.0 / (double)last);
    } else {
        printf("mean latency -\nbandwidth -\n");
    }

    size_t needed;
    nagori_memory_stats_json(m, last, NULL, 0, &needed);
    char *json = malloc(needed);
    if (!json || (s = nagori_memory_stats_json(m, last, json, needed, NULL)) != NAGORI_OK)
        fail("statistics", s, m);
    printf("%s\n", json);
    free(json);
    nagori_memory_destroy(m);
    return 0;
}

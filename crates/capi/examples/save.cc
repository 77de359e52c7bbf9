// Saves a memory in the middle of a run, restores it into another one, and finds that both go on
// alike: the same completions and the same device commands.
//
//   c++ save.cc $(pkg-config --cflags --libs nagori-memory) -o save
//   ./save ddr4
#include <nagori_memory.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void check(int status, const char *what)
{
    if (status < 0) {
        std::fprintf(stderr, "%s: status %d\n", what, status);
        std::exit(1);
    }
}

NagoriMemory *create(const char *name)
{
    char message[512];
    NagoriMemory *m = nullptr;
    if (nagori_memory_create(name, nullptr, 0, &m, message, sizeof message) != NAGORI_OK) {
        std::fprintf(stderr, "%s\n", message);
        std::exit(1);
    }
    return m;
}

// Plays requests `from` to `to`; returns when the last one was accepted.
uint64_t play(NagoriMemory *m, uint64_t t, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t addr = i * 2654435761u % (1u << 26) / 64 * 64, until = 0;
        uint32_t kind = i % 3 == 2 ? NAGORI_WRITE : NAGORI_READ;
        int s;
        while ((s = nagori_memory_submit(m, t, i, addr, kind, 64, &until)) == NAGORI_BUSY)
            t = until;
        check(s, "submit");
    }
    return t;
}

// Everything that can be seen of the rest of a run, as text.
std::string rest(NagoriMemory *m, uint64_t t)
{
    std::string all;
    char line[128];
    t = play(m, t, 5000, 10000);
    uint64_t end;
    check(nagori_memory_flush(m, t, &end), "flush");
    size_t n;
    NagoriCompletion c[64];
    do {
        check(nagori_memory_drain(m, c, 64, &n), "drain");
        for (size_t i = 0; i < n; i++) {
            std::snprintf(line, sizeof line, "%llu %llu\n", (unsigned long long)c[i].id,
                          (unsigned long long)c[i].done_at);
            all += line;
        }
    } while (n == 64);
    NagoriCommand d[64];
    do {
        check(nagori_memory_take_commands(m, d, 64, &n), "take commands");
        for (size_t i = 0; i < n; i++) {
            std::snprintf(line, sizeof line, "%llu %s %u %u %u\n", (unsigned long long)d[i].at,
                          d[i].name, (unsigned)d[i].rank, (unsigned)d[i].bank, (unsigned)d[i].row);
            all += line;
        }
    } while (n == 64);
    return all;
}

} // namespace

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "ddr4";
    NagoriMemory *a = create(name), *b = create(name);
    uint64_t t = play(a, 0, 0, 5000);

    size_t needed = 0;
    nagori_memory_save(a, nullptr, 0, &needed);
    std::vector<uint8_t> state(needed);
    check(nagori_memory_save(a, state.data(), state.size(), nullptr), "save");
    check(nagori_memory_restore(b, state.data(), state.size()), "restore");

    // Not every memory has commands.
    bool log = nagori_memory_set_command_log(a, 1) == NAGORI_OK;
    if (log)
        check(nagori_memory_set_command_log(b, 1), "log");
    std::string x = rest(a, t), y = rest(b, t);
    std::printf("saved %s, log %s, rest %s\n", name, log ? "on" : "off", x == y ? "equal" : "different");
    nagori_memory_destroy(a);
    nagori_memory_destroy(b);
    return x == y && !x.empty() ? 0 : 1;
}

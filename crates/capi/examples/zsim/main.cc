// Tries the adapter: two cores that miss in turn, one a little ahead of the other, and write back.
#include "nagori_mem.h"

int main(int argc, char **argv)
{
    NagoriMem memory("mem-0", argc > 1 ? argv[1] : "ddr4", 2000, {});
    uint64_t cycle[2] = {100, 0}, waited = 0;
    unsigned reads = 0, bad = 0;
    for (unsigned i = 0; i < 2000; i++) {
        MESIState state = I;
        AccessType type = i % 5 == 4 ? PUTX : i % 5 == 3 ? PUTS : i % 2 ? GETX : GETS;
        MemReq req = {i * 67u, type, &state, cycle[i % 2], i % 4 ? 0u : uint32_t(MemReq::NOEXCL)};
        uint64_t done = memory.access(req);
        bool read = type == GETS || type == GETX;
        bad += read ? done <= req.cycle || state == I : done != req.cycle || state != I;
        reads += read;
        waited += done - req.cycle;
        cycle[i % 2] = done + 10;
    }
    std::printf("%s: %u reads, %llu cycles each, %u bad\n", memory.getName(), reads,
                (unsigned long long)(waited / reads), bad);
    std::printf("%s\n", memory.statistics().c_str());
    return bad ? 1 : 0;
}

// A memory for ZSim: a MemObject below the last cache level. The bound phase asks for the cycle at
// which a line is there, and the model is played until it knows.
//
// ZSim's cores send the accesses of a phase one core after the other, so their cycles go back and
// forth by up to a phase: an access with an earlier cycle than the latest one counts as that.
// In ZSim, include its memory_hierarchy.h and g_std headers instead of zsim_stub.h.
#ifndef NAGORI_MEM_H
#define NAGORI_MEM_H

#include <nagori_memory.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "zsim_stub.h"

class NagoriMem : public MemObject
{
  public:
    // `mhz` is the clock in which ZSim counts.
    NagoriMem(const std::string &name_, const std::string &memory, uint64_t mhz,
              const std::vector<const char *> &settings)
        : name(name_), mhz(mhz)
    {
        char message[512] = "";
        if (nagori_memory_create(memory.c_str(), settings.data(), settings.size(), &model, message,
                                 sizeof message) != NAGORI_OK)
            panic(message);
        check(nagori_memory_capacity(model, &capacity));
    }

    ~NagoriMem() { nagori_memory_destroy(model); }

    NagoriMem(const NagoriMem &) = delete;
    NagoriMem &operator=(const NagoriMem &) = delete;

    const char *getName() override { return name.c_str(); }

    // Returns the cycle at which the access is done; lines that are written back are not waited for.
    uint64_t access(MemReq &req) override
    {
        switch (req.type) {
        case PUTS:
            *req.state = I;
            return req.cycle;
        case PUTX:
            *req.state = I;
            break;
        case GETS:
            *req.state = req.is(MemReq::NOEXCL) ? S : E;
            break;
        case GETX:
            *req.state = M;
            break;
        }
        const std::lock_guard<std::mutex> guard(lock);
        // Cores may be ahead of one another; see above.
        uint64_t now = std::max(latest, ps(req.cycle));
        const uint32_t kind = req.type == PUTX ? NAGORI_WRITE : NAGORI_READ;
        const uint64_t id = next_id++, addr = req.lineAddr * 64 % capacity;
        int s;
        while ((s = nagori_memory_submit(model, now, id, addr, kind, 64, &now)) == NAGORI_BUSY) {
        }
        check(s);
        latest = now;
        if (req.type == PUTX) {
            drain(id);
            return req.cycle;
        }
        uint64_t done;
        while ((done = drain(id)) == 0) {
            if (check(nagori_memory_next_event(model, &now)) == NAGORI_NONE)
                panic("a read was lost");
            check(nagori_memory_advance(model, now));
            latest = now;
        }
        return std::max(req.cycle, cycle(done));
    }

    std::string statistics()
    {
        size_t size = 0;
        nagori_memory_stats_json(model, latest, nullptr, 0, &size);
        std::string text(size, '\0');
        check(nagori_memory_stats_json(model, latest, &text[0], size, nullptr));
        text.pop_back();
        return text;
    }

  private:
    // Takes all completions; returns when the request with that id is done, 0 if that is not known yet.
    uint64_t drain(uint64_t id)
    {
        NagoriCompletion c[32];
        size_t n = 0;
        uint64_t done = 0;
        do {
            check(nagori_memory_drain(model, c, 32, &n));
            for (size_t i = 0; i < n; i++) {
                if (c[i].id == id)
                    done = c[i].done_at;
            }
        } while (n == 32);
        return done;
    }

    uint64_t ps(uint64_t cycles) const { return cycles * 1000000 / mhz; }
    uint64_t cycle(uint64_t ps) const { return (ps * mhz + 999999) / 1000000; }

    int check(int status)
    {
        char text[512] = "";
        if (status < 0) {
            nagori_memory_message(model, text, sizeof text, nullptr);
            panic(text);
        }
        return status;
    }

    std::string name;
    uint64_t mhz, capacity = 0, latest = 0, next_id = 0;
    NagoriMemory *model = nullptr;
    std::mutex lock;
};

#endif // NAGORI_MEM_H

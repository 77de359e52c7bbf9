// A memory controller for gem5 in the style of its wrappers of other memory simulators: a timing
// port in front, an event that advances the model behind. A tick is a picosecond, as in gem5.
//
// In gem5, include its headers instead of gem5_stub.hh, and give the class its SimObject parameters
// and ResponsePort; atomic and functional accesses stay those of AbstractMemory.
#ifndef NAGORI_MEM_HH
#define NAGORI_MEM_HH

#include <nagori_memory.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>
#include "gem5_stub.hh"

namespace gem5 {

class NagoriMem : public AbstractMemory
{
  public:
    NagoriMem(EventQueue &queue, ResponsePort &cpu_side, const std::string &memory,
              const std::vector<const char *> &settings)
        : AbstractMemory(queue), port(cpu_side), wakeup([this] { wake(); })
    {
        char message[512] = "";
        if (nagori_memory_create(memory.c_str(), settings.data(), settings.size(), &model, message,
                                 sizeof message) != NAGORI_OK)
            fatal(message);
    }

    ~NagoriMem() { nagori_memory_destroy(model); }

    NagoriMem(const NagoriMem &) = delete;
    NagoriMem &operator=(const NagoriMem &) = delete;

    // A request comes; false if it has to be sent again after a retry.
    bool recvTimingReq(PacketPtr pkt)
    {
        if (retry_at != MaxTick)
            return false;
        uint64_t until = 0;
        const uint32_t kind = pkt->isWrite() ? NAGORI_WRITE : NAGORI_READ;
        const int s = nagori_memory_submit(model, curTick(), next_id, pkt->getAddr(), kind,
                                           pkt->getSize(), &until);
        if (s == NAGORI_BUSY)
            retry_at = std::max<Tick>(until, curTick() + 1);
        else if (check(s) == NAGORI_OK)
            waiting[next_id++] = pkt;
        collect();
        return s == NAGORI_OK;
    }

    void recvRespRetry()
    {
        blocked = false;
        wake();
    }

    bool drained() const { return waiting.empty() && ready.empty(); }

    std::string statistics()
    {
        size_t size = 0;
        nagori_memory_stats_json(model, curTick(), nullptr, 0, &size);
        std::string text(size, '\0');
        check(nagori_memory_stats_json(model, curTick(), &text[0], size, nullptr));
        text.pop_back();
        return text;
    }

  private:
    // Advances the model to now, and sends what is due.
    void wake()
    {
        check(nagori_memory_advance(model, curTick()));
        collect();
        while (!blocked && !ready.empty() && ready.begin()->first <= curTick()) {
            // The requester may send its next request from inside this call.
            const auto first = ready.begin();
            blocked = !port.sendTimingResp(first->second);
            if (!blocked)
                ready.erase(first);
        }
        if (retry_at <= curTick()) {
            retry_at = MaxTick;
            port.sendRetryReq();
        }
        plan();
    }

    // Completions are known before their time: they wait in `ready`.
    void collect()
    {
        NagoriCompletion c[32];
        size_t n = 0;
        do {
            check(nagori_memory_drain(model, c, 32, &n));
            for (size_t i = 0; i < n; i++) {
                const auto it = waiting.find(c[i].id);
                PacketPtr pkt = it->second;
                waiting.erase(it);
                if (pkt->needsResponse()) {
                    pkt->makeResponse();
                    ready.insert({c[i].done_at, pkt});
                } else {
                    delete pkt;
                }
            }
        } while (n == 32);
        plan();
    }

    void plan()
    {
        uint64_t event = MaxTick;
        check(nagori_memory_next_event(model, &event));
        Tick next = std::min<Tick>(event, retry_at);
        if (!ready.empty() && !blocked)
            next = std::min(next, ready.begin()->first);
        if (next != MaxTick)
            reschedule(wakeup, std::max(next, curTick() + 1));
    }

    int check(int status)
    {
        char text[512] = "";
        if (status < 0) {
            nagori_memory_message(model, text, sizeof text, nullptr);
            fatal(text);
        }
        return status;
    }

    ResponsePort &port;
    EventFunctionWrapper wakeup;
    NagoriMemory *model = nullptr;
    uint64_t next_id = 0;
    std::map<uint64_t, PacketPtr> waiting;
    std::multimap<Tick, PacketPtr> ready;
    Tick retry_at = MaxTick;
    bool blocked = false;
};

} // namespace gem5

#endif // NAGORI_MEM_HH
